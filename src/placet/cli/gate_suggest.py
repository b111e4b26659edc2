"""`placet gate suggest`: rules for commands that people have approved again and again."""

import os
from datetime import UTC, datetime
from pathlib import Path

import click

from placet.cli.gate_history_file import read_history
from placet.cli.gate_options import find_default_policy_file, load_policy, policy_option
from placet.hook.coding_agents.gate_history import suggest_rules
from placet.hook.coding_agents.gate_policy import evaluate
from placet.hook.coding_agents.host_calls import HostCall
from placet.text.characters import mark_hidden


@click.command()
@policy_option
@click.option("--write", is_flag=True, help="Ask about each rule, and add it to the policy.")
def suggest(config: Path | None, write: bool) -> None:
    """Suggest rules for commands that people approved at least five times, always as they were.

    A rule counts for this command in this folder, and for seven days. None is suggested for what deletes,
    publishes, reaches other machines or runs any program. To revoke a rule, remove it from the policy.
    """
    path = config or find_default_policy_file(os.environ)
    policy, now = load_policy(config, os.environ), datetime.now(UTC)
    records, count = read_history(), 0
    for one in suggest_rules(records):
        call = HostCall(
            host="", event="", tool=one.tool, arguments={}, folder=one.folder, command=one.command
        )
        if evaluate(policy, call, home=str(Path.home()), now=now).effect is not None:
            continue
        count += 1
        rule = one.format_rule(now.date())
        click.echo(mark_hidden(f"# approved {one.count} times, never rejected or changed\n{rule}"))
        if write and click.confirm("Add this rule?", err=True):
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("a", encoding="utf-8") as stream:
                stream.write(f"\n{rule}")
    if not count:
        click.echo(f"No suggestion from {len(records)} decisions.", err=True)
