"""`placet gate check`: what a policy would say about the calls of a session that has been."""

import os
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

import click

from placet.cli.gate_options import host_argument, load_policy, policy_option
from placet.cli.options import json_option
from placet.cli.output import print_json, print_table
from placet.errors import SettingsError
from placet.hook.coding_agents.gate_policy import evaluate
from placet.hook.coding_agents.host_calls import HostCall
from placet.hook.coding_agents.registry import load_coding_agent
from placet.text.truncation import truncate

WIDTH = 80


@click.command()
@host_argument
@click.argument("transcript", type=click.Path(path_type=Path, dir_okay=False))
@policy_option
@json_option
def check(host: str, transcript: Path, config: Path | None, as_json: bool) -> None:
    """Show what the policy says about each call of a session. Asks nobody and runs nothing."""
    agent = load_coding_agent(host)
    if not agent.has_transcripts:
        raise click.UsageError(f"The transcripts of {agent.title} cannot be read.")
    policy, home = load_policy(config, os.environ), str(Path.home())
    try:
        with transcript.open(encoding="utf-8", errors="replace") as lines:
            calls = list(agent.read_transcript(iter(lines)))
    except OSError as error:
        raise SettingsError(f"{transcript} cannot be read: {error.strerror}.") from error
    now = datetime.now(UTC)
    found = [
        (call, evaluate(policy, call, home=home, find_real_path=os.path.realpath, now=now)) for call in calls
    ]
    if as_json:
        print_json(
            [
                {
                    "tool": call.tool,
                    "what": _describe(call),
                    "effect": verdict.effect,
                    "reason": verdict.reason,
                }
                for call, verdict in found
            ]
        )
    else:
        rows = [
            (verdict.effect, call.tool, truncate(_describe(call), WIDTH), verdict.reason)
            for call, verdict in found
        ]
        print_table(("policy", "tool", "what", "why"), rows, empty="The transcript holds no calls.")
    counts = Counter(verdict.effect or "no rule" for _, verdict in found)
    click.echo(", ".join(f"{name}: {counts[name]}" for name in sorted(counts)), err=True)


def _describe(call: HostCall) -> str:
    return call.command or " ".join(call.paths)
