"""`placet pending`: cases whose command stopped waiting before they were decided."""

import asyncio
import functools

import click
from msgspec.structs import replace

from placet.agent import Outcome, PendingCase, PendingCases
from placet.agent.pending import default_path
from placet.cli import results
from placet.cli.case_waiting import CaseWait, WaitOptions, describe_outcome, follow, run, wait_options
from placet.cli.command_group import CommandGroup
from placet.cli.options import json_option, print_table
from placet.errors import CaseNotFound, PlacetError, StillWaiting
from placet.text.truncation import to_single_line, truncate

SHORT_PROMPT = 50


@click.group(cls=CommandGroup)
def pending() -> None:
    """Cases that a command left waiting: nothing is lost when it is interrupted or killed."""


@pending.command("list")
@json_option
def list_pending(as_json: bool) -> None:
    """List the cases that still wait, the most urgent first."""
    found = _all()
    if as_json:
        results.print_result([results.open_view(one.case, None) for one in found])
        return
    rows = [
        (
            to_single_line(one.case.case_id),
            to_single_line(one.case.type),
            one.case.expires_at,
            "yes" if one.is_notified else "not yet",
            truncate(to_single_line(one.case.prompt), SHORT_PROMPT),
        )
        for one in found
    ]
    print_table(("case", "type", "until", "told", "prompt"), rows, empty="Nothing is pending.")


@pending.command()
@click.argument("case_id", required=False)
@wait_options()
def resume(case_id: str | None, how: WaitOptions) -> None:
    """Go on waiting for a case, or for all of them.

    One case: its result and exit code, as `placet request` would have given them. All: one JSON object in a
    line for each, as they end; the exit code is 1 if any failed, else the largest. A person who has been told
    is told again only with --via.
    """
    chosen = [_retold(one, how) for one in ([_find_case(case_id)] if case_id is not None else _all())]
    there = _with_places(chosen, how)
    if case_id is not None:
        run(functools.partial(follow, chosen[0]), there)
    elif chosen:
        run(functools.partial(_resume_all, chosen), there, several=True)
    else:
        click.echo("Nothing is pending.", err=True)


@pending.command()
@click.argument("case_ids", nargs=-1, metavar="[CASE_ID]...")
@click.option("--all", "forget_all", is_flag=True, help="Forget every case.")
@json_option
def forget(case_ids: tuple[str, ...], forget_all: bool, as_json: bool) -> None:
    """Stop keeping cases; at the service they stay open until they are answered or expire."""
    if not case_ids and not forget_all:
        raise click.UsageError("Name the cases to forget, or say --all.")
    chosen = _all() if forget_all else [_find_case(case_id) for case_id in case_ids]
    cases = PendingCases(default_path())
    try:
        for one in chosen:
            cases.remove(one.case)
            click.echo(f"Forgot {to_single_line(one.case.case_id)}.", err=True)
    finally:
        cases.close()
    if as_json:
        results.print_result({"forgotten": [one.case.case_id for one in chosen]})


async def _resume_all(chosen: list[PendingCase], waiting: CaseWait) -> None:
    codes = await asyncio.gather(*(_resume(waiting, one) for one in chosen))
    raise click.exceptions.Exit(results.FAILED if results.FAILED in codes else max(codes))


async def _resume(waiting: CaseWait, one: PendingCase) -> int:
    """Wait for one of several cases. An error does not stop the others."""
    try:
        outcome: Outcome = await waiting.follow(one)
    except StillWaiting:
        results.print_result(results.open_view(one.case, None))
        return results.FAILED
    except PlacetError as error:
        waiting.line.say(f"placet: {to_single_line(one.case.case_id)}: {error.message}")
        results.print_result({**results.error_view(error), "case_id": one.case.case_id})
        return results.FAILED
    waiting.line.say(f"{to_single_line(one.case.case_id)}: {describe_outcome(outcome)}")
    results.print_result(results.outcome_view(outcome))
    return results.exit_code(outcome)


def _retold(one: PendingCase, how: WaitOptions) -> PendingCase:
    return replace(one, is_notified=False) if how.vias else one


def _with_places(chosen: list[PendingCase], how: WaitOptions) -> WaitOptions:
    """Messages that are out in messengers are brought up to date there."""
    if not chosen:
        return how
    cases = PendingCases(default_path())
    try:
        channels = [ticket.channel for one in chosen for ticket in cases.tickets(one.case)]
    finally:
        cases.close()
    return replace(how, also=tuple(dict.fromkeys(channels)))


def _all() -> list[PendingCase]:
    if not default_path().exists():
        return []
    cases = PendingCases(default_path())
    try:
        return cases.all()
    finally:
        cases.close()


def _find_case(case_id: str) -> PendingCase:
    """Return the case with this id; the most urgent one if two services use the same id."""
    for one in _all():
        if one.case.case_id == case_id:
            return one
    raise CaseNotFound(f"No case {case_id!r} is pending; `placet pending list` shows which are.")
