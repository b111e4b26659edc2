"""`placet gate doctor`: prove that the installed hook denies when it cannot ask."""

import json
import os
import socket
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import closing
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
    event = agent.build_probe(hook.event, os.getcwd())
    with closing(socket.socket()) as taken:
        taken.bind(("127.0.0.1", 0))  # bound and not listening: nothing answers here
        nowhere = {"PLACET_SERVER": f"http://127.0.0.1:{taken.getsockname()[1]}", "PLACET_KEY": "probe"}
        asking = json.dumps(event)
        yield _expect_denial(agent, hook, "denies without a server", asking, nowhere)
        yield _expect_denial(agent, hook, "denies input that it cannot read", "no JSON", nowhere)
        broken = {**nowhere, "PYTHONHOME": os.devnull}
        yield _expect_denial(agent, hook, "denies if placet cannot start", asking, broken)


def _expect_denial(
    agent: CodingAgent, hook: HookEntry, what: str, content: str, environment: Mapping[str, str]
) -> GateFinding:
    title = f"{hook.event}: {what}"
    try:
        ran = subprocess.run(  # noqa: S603 - the installed command, as the host runs it
            ["/bin/sh", "-c", hook.command],
            input=content.encode(),
            env={**os.environ, **environment},
            capture_output=True,
            timeout=PROBE_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return GateFinding(check=title, problem=f"The command did not end: {error}.")
    if ran.returncode != 0 or not agent.is_denial(hook.event, ran.stdout):
        said = ran.stdout.decode("utf-8", "replace")[:200]
        return GateFinding(check=title, problem=f"No denial, but exit code {ran.returncode} and {said!r}.")
    return GateFinding(check=title)


def _check_server(config: Path | None) -> GateFinding:
    try:
        server = find_server(load_policy(config, os.environ), os.environ)
        with PlacetClient(server.url, server.key) as client:
            client.cases(limit=1)
    except PlacetError as error:
        return GateFinding(check="the server accepts the key", problem=error.message)
    return GateFinding(check="the server accepts the key")
