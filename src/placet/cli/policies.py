"""`placet policy`: manage the relay's policies, and evaluate them on a message."""

import functools
import sys
from pathlib import Path
from typing import Any

import click

from placet.cli.command_group import CommandGroup
from placet.cli.options import json_option
from placet.cli.policy_commands import (
    add,
    bind,
    list_policies,
    policy_options,
    replay,
    retire,
    show,
    unbind,
)
from placet.cli.policy_files import FILE, read_policies
from placet.cli.relay_operations import run_policies
from placet.cli.results import print_result
from placet.http.operations import Operations
from placet.relay.policy.evaluation import Outcome
from placet.relay.policy.policy import MESSAGE_LEGS, Leg
from placet.text.characters import mark_hidden

EXIT_CODES = {Outcome.MASK: 10, Outcome.HOLD: 11, Outcome.BLOCK: 12}
"""Exit codes by verdict; 0 if the message passes unchanged."""


@click.group(cls=CommandGroup)
def policy() -> None:
    """Save, bind, test and replay policies of the relay."""


for _command in (add, list_policies, show, bind, unbind, retire, replay):
    policy.add_command(_command)


@policy.command("test")
@click.argument("file", type=FILE, required=False)
@click.option("--text", required=True, help="Text of the message; - reads standard input.")
@click.option(
    "--leg", type=click.Choice([leg.value for leg in MESSAGE_LEGS]), help="Only this leg. Default: all legs."
)
@click.option("--source", metavar="ID", help="Sender of the message, if there is no FILE.")
@click.option("--sink", metavar="ID", help="Receiver of the message, if there is no FILE.")
@policy_options
@json_option
def try_out(
    file: Path | None,
    text: str,
    leg: str | None,
    source: str | None,
    sink: str | None,
    as_json: bool,
    **where: Any,
) -> None:
    """Show what the policies in FILE (TOML or JSON) would do with a text, and why.

    Without FILE, evaluates the policies in force on a server or in its database, for messages from --source
    to --sink. Exit codes: 0 the message passes, logged or not; 10 it is masked; 11 it is held for a person;
    12 it is blocked; 1 the file or a policy in it is invalid.
    """
    message = sys.stdin.read() if text == "-" else text
    legs = [Leg(leg)] if leg else list(MESSAGE_LEGS)
    if file is None:
        views = run_policies(where, functools.partial(_evaluate_in_force, message, legs, source, sink))
    else:
        from placet.cli.policy_file_evaluation import evaluate_policies  # it needs the `relay` extra

        views = evaluate_policies(read_policies(file), message, legs)
    strictest = max((Outcome(view["outcome"]) for view in views), key=lambda outcome: outcome.strictness)
    if as_json:
        print_result({"outcome": strictest, "legs": views})
    else:
        _print(views)
    sys.exit(EXIT_CODES.get(strictest, 0))


async def _evaluate_in_force(
    text: str, legs: list[Leg], source: str | None, sink: str | None, relay: Operations
) -> list[dict[str, Any]]:
    """Evaluate the policies in force, and return a view of each leg."""
    asked = {"text": text, "legs": legs, "sourceAgentId": source, "sinkAgentId": sink}
    found = await relay.call("evaluatePolicies", asked)
    return [
        {
            **{name: view[name] for name in ("leg", "outcome", "reason", "findings", "nearMisses")},
            "decidedBy": view["decidedBy"]["name"] if view["decidedBy"] else None,
            **{name: [one["name"] for one in view[name]] for name in ("matched", "clean", "notReached")},
            "unchecked": [{"policy": one["name"], "reason": one["reason"]} for one in view["unchecked"]],
            "text": view["text"] or text,
        }
        for view in found["legs"]
    ]


def _print(views: list[dict[str, Any]]) -> None:
    for view in views:
        click.echo(f"{view['leg']}: {view['outcome']}. {mark_hidden(view['reason'])}")
        for one in view["findings"]:
            what = f"{one['action']}, {mark_hidden(one['entity'])} {one['score']:.2f}"
            place = f"{one['start']}-{one['end']}"
            click.echo(
                f"  {mark_hidden(one['policyName'])}: {what} at {place}: {mark_hidden(one['text'][:60])}"
            )
        for one in view["nearMisses"]:
            what = f"{mark_hidden(one['entity'])} {one['score']:.2f} is below {one['threshold']:.2f}"
            place = f"{one['start']}-{one['end']}: {mark_hidden(one['text'][:60])}"
            click.echo(f"  {mark_hidden(one['policyName'])}: no match, {what} at {place}. {one['hint']}")
        for one in view["unchecked"]:
            click.echo(f"  {mark_hidden(one['policy'])}: could not be checked, {mark_hidden(one['reason'])}")
        for name in view["notReached"]:
            click.echo(f"  {mark_hidden(name)}: not reached")
        if view["outcome"] == Outcome.MASK:
            click.echo(f"  forwarded: {mark_hidden(view['text'][:500])}")
