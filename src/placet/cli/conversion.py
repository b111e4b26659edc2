"""`placet convert`: write a review as other agent protocols write it."""

import json
from typing import Any, TextIO

import click

from placet.cli.command_group import CommandGroup
from placet.cli.output import print_json
from placet.errors import ValidationFailed
from placet.protocol.agent_task import build_input_required_task, read_hitl_of_task, task_state_from_poll
from placet.protocol.negotiation import (
    Urgency,
    add_review_to_term,
    deal_update_from_poll,
    draft_from_requirement,
    work_state_from_poll,
)

MAX_INPUT = 10_000_000
source = click.argument("file", type=click.File("r", encoding="utf-8"), default="-")


@click.group(cls=CommandGroup)
def convert() -> None:
    """Convert reviews to and from A2A, ADL and WDL.

    FILE is a 202 body or a poll response; the default is standard input. Prints JSON.
    """


@convert.command()
@source
@click.option("--task-id", default="task", show_default=True, help="The id of the A2A task.")
@click.option("--context-id", default="context", show_default=True, help="The id of its context.")
def a2a(file: TextIO, task_id: str, context_id: str) -> None:
    """Print a 202 body as an A2A task in state input-required, or the task state of a poll response.

    For an A2A task, print its hitl object.
    """
    read = _read(file)
    if "hitl" in read and "status" in read and isinstance(read["status"], str):
        print_json(build_input_required_task(read, task_id=task_id, context_id=context_id))
    elif isinstance(read.get("status"), str) and "case_id" in read:
        print_json({"state": task_state_from_poll(read)})
    elif (hitl := read_hitl_of_task(read)) is not None:
        print_json(hitl)
    else:
        raise ValidationFailed("FILE is no 202 body, no poll response and no A2A task with a hitl object.")


@convert.command()
@source
@click.option("--term", type=click.File("r", encoding="utf-8"), help="The ADL term that needs the review.")
@click.option(
    "--urgency",
    type=click.Choice(["low", "medium", "high"]),
    default="medium",
    show_default=True,
    help="How urgent the escalation is.",
)
@click.option("--clarifies", is_flag=True, help="The person was asked for missing information.")
def adl(file: TextIO, term: TextIO | None, urgency: Urgency, clarifies: bool) -> None:
    """Print the ADL response and state of a poll response, or a term with the review of a 202 body."""
    read = _read(file)
    if isinstance(read.get("hitl"), dict):
        print_json(add_review_to_term(_read(term) if term else {}, read["hitl"], urgency=urgency))
        return
    update = deal_update_from_poll(read, clarifies=clarifies)
    print_json(
        {"state": update.state}
        if update.response is None
        else {"state": update.state, "response": update.response, "data": update.data}
    )


@convert.command()
@source
@click.option("--prompt", help="The question. Default: made from the requirement.")
def wdl(file: TextIO, prompt: str | None) -> None:
    """Print the WDL state of a poll response, or the draft of a case for a WDL requirement."""
    read = _read(file)
    print_json(
        draft_from_requirement(read, prompt=prompt)
        if "tokens" in read
        else {"state": work_state_from_poll(read)}
    )


def _read(file: TextIO) -> dict[str, Any]:
    try:
        text = file.read(MAX_INPUT + 1)
        if len(text) > MAX_INPUT:
            raise ValidationFailed(f"The input has more than {MAX_INPUT} characters.")
        read = json.loads(text)
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
        raise ValidationFailed("The input is not JSON.") from error
    if not isinstance(read, dict):
        raise ValidationFailed("The input must be a JSON object.")
    return read
