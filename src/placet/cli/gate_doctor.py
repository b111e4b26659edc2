"""`placet gate doctor`: prove that the installed hook denies when it cannot ask."""

import json
import os
import select
import signal
import socket
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, suppress
from pathlib import Path

import click
from msgspec import Struct

from placet.cli.gate_install import find_settings_file, parse_settings, read_text, settings_option
from placet.cli.gate_options import HARD_LIMIT_S, find_server, host_argument, load_policy, policy_option
from placet.cli.output import print_table
from placet.client import PlacetClient
from placet.errors import PlacetError
from placet.hook.coding_agents.host_calls import CodingAgent, HookEntry
from placet.hook.coding_agents.registry import load_coding_agent
from placet.protocol.duration import parse_duration

PROBE_TIMEOUT_S = 60
DEADLY = signal.SIGUSR1
SURVIVES = "trap : USR1; "
"""Lets the shell survive the signal that ends the programs that it has started."""


class GateFinding(Struct, frozen=True, kw_only=True):
    """The result of one check."""

    check: str
    problem: str = ""
    """Empty if all is well."""


@click.command()
@host_argument
@settings_option
@policy_option
def doctor(host: str, file: Path | None, config: Path | None) -> None:
    """Check the installed hook: runs its command as the coding agent would, and expects denials.

    The probes name a tool that does not exist, and reach no server. The exit code is 1 if a check fails.
    """
    agent = load_coding_agent(host)
    findings = list(_check_hooks(agent, file or find_settings_file(agent)))
    findings.append(_check_server(config))
    rows = [("FAILED" if one.problem else "ok", one.check, one.problem or "-") for one in findings]
    print_table(("result", "check", "problem"), rows, empty="")
    if any(one.problem for one in findings):
        raise click.exceptions.Exit(1)


def _check_hooks(agent: CodingAgent, path: Path) -> Iterator[GateFinding]:
    try:
        settings = parse_settings(agent, read_text(path), path)
    except PlacetError as error:
        yield GateFinding(check=f"{path} can be read", problem=error.message)
        return
    hooks = agent.find_hooks(settings)
    yield GateFinding(check="hooks are switched on", problem=" ".join(agent.find_problems(settings)))
    for event in agent.events:
        ours = [hook for hook in hooks if hook.event == event]
        if not ours:
            yield GateFinding(
                check=f"{event}: installed",
                problem=f"{path} has no hook. Run: placet gate install {agent.name}",
            )
        for hook in ours:
            yield GateFinding(check=f"{event}: installed")
            yield GateFinding(check=f"{event}: the host waits long enough", problem=_check_timeout(hook))
            problem = "The settings let a call run if the hook fails. Run install again."
            yield GateFinding(
                check=f"{event}: a failed hook denies", problem=problem if hook.fails_open else ""
            )
            yield from _probe(agent, hook)


def _check_timeout(hook: HookEntry) -> str:
    words = hook.command.split()
    wait = words[words.index("--wait") + 1].rstrip(")") if "--wait" in words[:-1] else ""
    try:
        needed = parse_duration(wait).total_seconds() + HARD_LIMIT_S
    except PlacetError:
        return "The command has no --wait."
    if hook.timeout_s is None or hook.timeout_s <= needed:
        after = f"after {hook.timeout_s:g} seconds" if hook.timeout_s else "at a time of its own"
        return f"The host ends the hook {after}, before the hook denies. Run install again."
    return ""


def _probe(agent: CodingAgent, hook: HookEntry) -> Iterator[GateFinding]:
    event = json.dumps(agent.build_probe(hook.event, os.getcwd()))
    with closing(socket.socket()) as taken:
        taken.bind(("127.0.0.1", 0))  # bound and not listening: nothing answers here
        nowhere = {"PLACET_SERVER": f"http://127.0.0.1:{taken.getsockname()[1]}", "PLACET_KEY": "probe"}
        probe = HookProbe(agent, hook, nowhere)
        yield probe.expect_denial("without a server", event)
        yield probe.expect_denial("input that it cannot read", "no JSON")
        yield probe.expect_denial("if placet cannot start", event, {"PYTHONHOME": os.devnull})
        taken.listen()  # now the connection stands, and nobody answers
        yield probe.expect_denial("if it is killed", event, is_killed=lambda: _is_asked(taken))


def _is_asked(listening: socket.socket) -> bool:
    """Return whether the hook has connected to this server within the time that a probe may take."""
    return bool(select.select([listening], [], [], PROBE_TIMEOUT_S)[0])


class HookProbe:
    """Runs the command of an installed hook as the coding agent does."""

    def __init__(self, agent: CodingAgent, hook: HookEntry, environment: Mapping[str, str]) -> None:
        self._agent = agent
        self._hook = hook
        self._environment = {**os.environ, **environment}

    def expect_denial(
        self,
        what: str,
        content: str,
        environment: Mapping[str, str] | None = None,
        *,
        is_killed: Callable[[], bool] | None = None,
    ) -> GateFinding:
        """Return whether the command denies. `is_killed` waits for the moment at which the hook is killed."""
        title = f"{self._hook.event}: denies {what}"
        with tempfile.TemporaryFile() as stream:
            stream.write(content.encode())
            stream.seek(0)
            process = subprocess.Popen(  # noqa: S603 - the installed command, as the host runs it
                ["/bin/sh", "-c", f"{SURVIVES}{self._hook.command}"],
                env={**self._environment, **(environment or {})},
                stdin=stream,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        try:
            if is_killed is not None and is_killed():
                os.killpg(process.pid, DEADLY)
            output, _ = process.communicate(timeout=PROBE_TIMEOUT_S)
        except (OSError, subprocess.TimeoutExpired) as error:
            return GateFinding(check=title, problem=f"The command did not end: {error}.")
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        if process.returncode != 0 or not self._agent.is_denial(self._hook.event, output):
            said = output.decode("utf-8", "replace")[:200]
            return GateFinding(
                check=title, problem=f"No denial, but exit code {process.returncode} and {said!r}."
            )
        return GateFinding(check=title)


def _check_server(config: Path | None) -> GateFinding:
    try:
        server = find_server(load_policy(config, os.environ), os.environ)
        with PlacetClient(server.url, server.key) as client:
            client.cases(limit=1)
    except PlacetError as error:
        return GateFinding(check="the server accepts the key", problem=error.message)
    return GateFinding(check="the server accepts the key")
