"""`placet acp`: a proxy between an editor and a coding agent. Requests for a permission go to the inbox too.

The first answer counts. The hook of the gate, which asks, runs as a process of its own for each request: it
has the deadline, and the denial on each failure, that the hooks of other coding agents have.
"""

import asyncio
import json
import os
import signal
import sys
from asyncio.subprocess import PIPE
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from pathlib import Path

import click

from placet.cli.gate_hook import END_WITHIN_S, FAILED, GateHook
from placet.cli.gate_options import (
    find_default_policy_file,
    load_policy,
    policy_option,
    wait_option,
)
from placet.cli.gate_run import evaluate_call
from placet.errors import SettingsError
from placet.hook.coding_agents.host_calls import HostCall
from placet.hook.coding_agents.proxied_agents import Message, ProxiedAgent, SessionFacts
from placet.hook.coding_agents.registry import PROXIED_AGENTS, load_proxied_agent

MAX_LINE_BYTES = 64 * 1024 * 1024
REFUSED = -32000


@click.command(context_settings={"allow_interspersed_args": False})
@click.argument("command", nargs=-1, type=click.UNPROCESSED, metavar="[--] COMMAND [ARGS]...", required=True)
@click.option(
    "--protocol",
    type=click.Choice(list(PROXIED_AGENTS)),
    default="acp",
    show_default=True,
    help="What COMMAND speaks with its editor.",
)
@wait_option
@policy_option
def acp(command: tuple[str, ...], protocol: str, wait: str, config: Path | None) -> None:
    """Require approval for the actions of any agent that speaks the Agent Client Protocol.

    COMMAND starts the agent. Use this command in the settings of your editor in its place.
    """
    config = (config or find_default_policy_file(os.environ)).absolute()
    load_policy(config, os.environ)  # a mistake in the file is told at the start
    raise click.exceptions.Exit(asyncio.run(_run(command, load_proxied_agent(protocol), config, wait)))


async def _run(command: tuple[str, ...], agent: ProxiedAgent, config: Path, wait: str) -> int:
    """Start the agent, and pass messages on until one side ends; return the agent's exit code."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PLACET_")}
    try:
        process = await asyncio.create_subprocess_exec(
            *command, stdin=PIPE, stdout=PIPE, env=environment, limit=MAX_LINE_BYTES
        )
    except OSError as error:
        raise SettingsError(f"{command[0]} cannot be started: {error.strerror}.") from error
    if process.stdin is None or process.stdout is None:
        raise SettingsError(f"{command[0]} has no standard input and output.")
    proxy = AgentProxy(agent, process.stdin, config, wait)
    loop = asyncio.get_running_loop()
    from_editor = asyncio.StreamReader(limit=MAX_LINE_BYTES)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(from_editor), sys.stdin)
    pumps = [
        asyncio.create_task(_read(from_editor, proxy.take_from_editor)),
        asyncio.create_task(_read(process.stdout, proxy.take_from_agent)),
    ]
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        loop.add_signal_handler(number, pumps[0].cancel)
    try:
        await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        process.stdin.close()
        await proxy.close()
        return await asyncio.wait_for(process.wait(), END_WITHIN_S)
    except TimeoutError:
        return -signal.SIGKILL
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
        await _cancel(pumps)


async def _read(stream: asyncio.StreamReader, take: Callable[[Message], Awaitable[None]]) -> None:
    """Pass on each line that is a message. Another line reaches nobody: it could be read differently."""
    while line := await stream.readline():
        try:
            message = json.loads(line)
        except (ValueError, RecursionError):
            message = None
        if isinstance(message, dict):
            await take(message)
        elif line.strip():
            click.echo("message_dropped reason=not_a_json_object", err=True)


async def _cancel(tasks: Iterable[asyncio.Task[None]]) -> None:
    tasks = list(tasks)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


class AgentProxy:
    """Passes the messages of an editor and an agent on, and decides about the requests of the agent."""

    def __init__(self, agent: ProxiedAgent, to_agent: asyncio.StreamWriter, config: Path, wait: str) -> None:
        self._agent = agent
        self._to_agent = to_agent
        self._config = config
        self._hook = GateHook(agent.name, config, wait)
        self._facts = SessionFacts()
        self._requests: dict[str, Message] = {}
        """What the editor asked, by id, until the agent answers."""
        self._asking: dict[str, asyncio.Task[None]] = {}
        """Requests of the agent about which a person is asked."""
        self._shown: set[str] = set()
        """Those of them that the editor shows too."""
        self._answered: set[str] = set()
        """Requests that the gate has answered, and the editor may answer too late."""
        self._approved: Counter[tuple[str, str, str]] = Counter()
        """Commands that a person approved, and the agent has not had run yet, by session and folder."""

    async def close(self) -> None:
        """End what still asks a person."""
        await _cancel(self._asking.values())

    # Messages

    async def take_from_editor(self, message: Message) -> None:
        """Pass on a message, unless it answers what the gate has answered."""
        key = _get_key(message)
        if "method" in message:
            if key is not None:
                self._requests[key] = message
        elif key in self._answered:
            self._answered.discard(key)
            return
        elif key in self._asking:
            if key not in self._shown:  # only the inbox is asked about it
                return
            self._shown.discard(key)
            self._asking.pop(key).cancel()
        await self._send_to_agent(message)

    async def take_from_agent(self, message: Message) -> None:
        """Pass on a message, or decide about it."""
        key = _get_key(message)
        answers = self._requests.pop(key, None) if key is not None and "method" not in message else None
        self._agent.observe(message, answers, self._facts)
        if message.get("method") not in self._agent.events:
            _send_to_editor(message)
        elif key is None or key in self._asking or key in self._answered:
            click.echo("message_dropped reason=no_id_of_its_own", err=True)
        else:
            await self._decide(key, message)

    async def _send_to_agent(self, message: Message) -> None:
        with suppress(ConnectionError):  # it has ended, which the other pump sees
            self._to_agent.write(json.dumps(message).encode() + b"\n")
            await self._to_agent.drain()

    # Decisions

    async def _decide(self, key: str, message: Message) -> None:
        try:
            sent = json.dumps(self._agent.build_input(message, self._facts)).encode()
            call = self._agent.read_call(message["method"], sent)
            verdict = evaluate_call(load_policy(self._config, os.environ), call)
        except Exception as error:  # whatever goes wrong is a denial
            await self._answer(message, False, f"{FAILED} {error}")
            return
        if verdict.effect == "deny":
            await self._answer(message, False, f"The policy denies this. {verdict.reason}")
        elif verdict.effect == "allow":
            await self._answer(message, True, "")
        elif verdict.effect is None and not call.is_prompted:
            _send_to_editor(message)
        elif self._take_decision(call):
            await self._answer(message, True, "")
        else:
            is_shown = verdict.effect is None
            self._asking[key] = asyncio.create_task(self._ask(key, message, call, sent, is_shown))
            if is_shown:
                self._shown.add(key)
                _send_to_editor(message)

    def _take_decision(self, call: HostCall) -> bool:
        """Return whether a person has just approved this command for the request that led to this one."""
        approved = (call.session, call.folder, call.command or "")
        if call.is_prompted or call.arguments.get("env") or not self._approved[approved]:
            return False
        self._approved[approved] -= 1
        return True

    async def _ask(self, key: str, message: Message, call: HostCall, sent: bytes, is_shown: bool) -> None:
        said = await self._hook.run(message["method"], sent)
        is_known = said.get("event") == message["method"] and isinstance(said.get("message", ""), str)
        verdict = said.get("verdict") if is_known else "deny"
        text = said.get("message", "") if is_known else FAILED
        self._asking.pop(key, None)
        if is_shown:
            self._shown.discard(key)
            self._answered.add(key)
            cancellation = self._agent.build_cancellation(message)
            if cancellation is not None:
                _send_to_editor(cancellation)
        if verdict == "allow" and call.is_prompted and call.command:
            self._approved[call.session, call.folder, call.command] += 1
        await self._answer(message, verdict == "allow", text)

    async def _answer(self, message: Message, is_allowed: bool, text: str) -> None:
        """Answer a request of the agent, or let the editor carry it out."""
        if message["method"] not in self._agent.prompting_events:
            if is_allowed:
                _send_to_editor(message)
                return
            result = None
        else:
            result = self._agent.build_answer(message, is_allowed=is_allowed)
        common: Message = {name: message[name] for name in ("jsonrpc", "id") if name in message}
        if result is None:
            text = text or "The editor offers no option to allow this once."
            await self._send_to_agent({**common, "error": {"code": REFUSED, "message": text}})
        else:
            await self._send_to_agent({**common, "result": result})


def _get_key(message: Message) -> str | None:
    """Return the id of a message as a key: 1 and "1" are two ids."""
    return json.dumps(message["id"]) if isinstance(message.get("id"), int | str) else None


def _send_to_editor(message: Message) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()
