"""`placet policy`: manage the relay's policies, and evaluate them on a message."""

import asyncio
import functools
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import click
import msgspec

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
from placet.cli.policy_files import FILE, policies_in
from placet.cli.relay_operations import run_policies
from placet.cli.results import print_result
from placet.desk import clock
from placet.http.operations import Operations
from placet.ports.detector import Scannable
from placet.relay.detectors.policy_evaluator import PolicyEvaluator
from placet.relay.detectors.presidio import PresidioDetector
from placet.relay.detectors.registry import DetectorRegistry, load_detectors
from placet.relay.policies.evaluation import Evaluation, Outcome
from placet.relay.policies.policy import Leg, Policy
from placet.relay.policies.policy_set import AppliedPolicy, PolicySet
from placet.text.characters import mark_hidden

EXIT_CODES = {Outcome.MASK: 10, Outcome.HOLD: 11, Outcome.BLOCK: 12}
"""Exit codes by verdict; 0 if the message passes unchanged."""
START_UP = timedelta(seconds=120)
"""Long enough to load Presidio."""
PATH = "message.parts[0].text"


@click.group(cls=CommandGroup)
def policy() -> None:
    """Policies of the relay: write, bind and retire them, and see what they do or would have done."""


for _command in (add, list_policies, show, bind, unbind, retire, replay):
    policy.add_command(_command)


@policy.command("test")
@click.argument("file", type=FILE, required=False)
@click.option("--text", required=True, help="The text of the message; - reads standard input.")
@click.option(
    "--leg", type=click.Choice([leg.value for leg in Leg]), help="Only this leg; default: the whole way."
)
@click.option("--source", metavar="ID", help="Who would send it, where no FILE is given.")
@click.option("--sink", metavar="ID", help="Whom it would be for, where no FILE is given.")
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
    """Say what the policies in FILE, TOML or JSON, would do with a text, and why.

    Without a FILE it is those in force, on a server or in its file, for messages from --source to --sink.
    Exits with 0 if the message would pass, logged or not; with 10 if it would be masked, 11 if held for a
    person, 12 if blocked; with 1 if the file or a policy in it is not sound.
    """
    message = sys.stdin.read() if text == "-" else text
    legs = [Leg(leg)] if leg else list(Leg)
    if file is None:
        views = run_policies(where, functools.partial(_evaluate_in_force, message, legs, source, sink))
    else:
        seen = asyncio.run(_look(policies_in(file), message, legs))
        views = [_view(one, found, message) for one, found in seen]
    strictest = max((Outcome(view["outcome"]) for view in views), key=lambda outcome: outcome.strictness)
    if as_json:
        print_result({"outcome": strictest, "legs": views})
    else:
        _print(views)
    sys.exit(EXIT_CODES.get(strictest, 0))


async def _evaluate_in_force(
    text: str, legs: list[Leg], source: str | None, sink: str | None, relay: Operations
) -> list[dict[str, Any]]:
    """Return an error of the API with the names of this command."""
    asked = {"text": text, "legs": legs, "sourceAgentId": source, "sinkAgentId": sink}
    found = await relay.call("evaluatePolicies", asked)
    return [
        {
            **{name: view[name] for name in ("leg", "outcome", "reason", "findings")},
            "decidedBy": view["decidedBy"]["name"] if view["decidedBy"] else None,
            **{name: [one["name"] for one in view[name]] for name in ("matched", "clean", "notReached")},
            "unchecked": [{"policy": one["name"], "reason": one["reason"]} for one in view["unchecked"]],
            "text": view["text"] or text,
        }
        for view in found["legs"]
    ]


async def _look(policies: list[Policy], text: str, legs: list[Leg]) -> list[tuple[Leg, Evaluation]]:
    detectors = load_detectors(presidio=PresidioDetector(within=START_UP))
    try:
        _check(policies, detectors)
        now = clock.now()
        inspector = PolicyEvaluator(PolicySet.for_everyone(policies, now=now), detectors)
        pieces = [Scannable(PATH, text)]
        return [
            (leg, await inspector.inspect(pieces, source="caller", sink="agent", leg=leg, at=now))
            for leg in legs
        ]
    finally:
        await detectors.aclose()


def _check(policies: list[Policy], detectors: DetectorRegistry) -> None:
    for place, one in enumerate(policies):
        detectors.check_config(one.config, f"policies[{place}].config")


def _view(leg: Leg, found: Evaluation, text: str) -> dict[str, Any]:
    """Print all findings of one leg. Matches are shown: the text is the user's own."""
    (piece,) = found.mask([Scannable(PATH, text)])
    return {
        "leg": leg,
        "outcome": found.outcome,
        "reason": found.reason,
        "decidedBy": found.decided_by.policy.name if found.decided_by else None,
        "matched": _names(found.matched),
        "clean": _names(found.clean),
        "unchecked": [{"policy": one.applied.policy.name, "reason": one.reason} for one in found.unchecked],
        "notReached": _names(found.not_reached),
        "findings": [view_finding(msgspec.to_builtins(one)) for one in found.findings],
        "text": _encodable(piece.text),
    }


def _names(applied: tuple[AppliedPolicy, ...]) -> list[str]:
    return [one.policy.name for one in applied]


def view_finding(finding: dict[str, Any]) -> dict[str, Any]:
    return {**finding, "text": _encodable(finding["text"])}


def _encodable(text: str) -> str:
    return text.encode("utf-8", "replace").decode()


def _print(views: list[dict[str, Any]]) -> None:
    for view in views:
        click.echo(f"{view['leg']}: {view['outcome']}. {mark_hidden(view['reason'])}")
        for one in view["findings"]:
            what = f"{one['action']}, {mark_hidden(one['entity'])} {one['score']:.2f}"
            place = f"{one['start']}-{one['end']}"
            click.echo(
                f"  {mark_hidden(one['policyName'])}: {what} at {place}: {mark_hidden(one['text'][:60])}"
            )
        for one in view["unchecked"]:
            click.echo(f"  {mark_hidden(one['policy'])}: could not be checked, {mark_hidden(one['reason'])}")
        for name in view["notReached"]:
            click.echo(f"  {mark_hidden(name)}: not reached")
        if view["outcome"] == Outcome.MASK:
            click.echo(f"  forwarded: {mark_hidden(view['text'][:500])}")
