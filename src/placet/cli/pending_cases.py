"""`placet pending`: cases whose command stopped waiting before they were decided."""

import asyncio
import functools

import click
from msgspec.structs import replace

from placet.agent import Outcome, PendingCase, PendingCases
from placet.agent.pending_case_store import get_default_path
from placet.cli import results
from placet.cli.case_waiting import CaseWait, WaitOptions, describe_outcome, follow, run, wait_options
from placet.cli.command_group import CommandGroup
from placet.cli.options import json_option
from placet.cli.output import print_table
from placet.errors import CaseNotFound, PlacetError, StillWaiting
from placet.text.truncation import to_single_line, truncate

SHORT_PROMPT = 50


@click.group(cls=CommandGroup)
def pending() -> None:
    """List, resume and forget cases whose command stopped waiting.

    Every case is saved before its link is sent, so that an interrupted command loses none.
    """


@pending.command("list")
@json_option
def list_pending(as_json: bool) -> None:
    """List pending cases, most urgent first."""
    found = _list_all()
    if as_json:
        results.print_result([results.build_open_view(one.case, None) for one in found])
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
    print_table(("case", "type", "until", "notified", "prompt"), rows, empty="Nothing is pending.")


@pending.command()
@click.argument("case_id", required=False)
@wait_options()
def resume(case_id: str | None, how: WaitOptions) -> None:
    """Resume waiting for a case, or for all pending cases.

    For one case, the output and exit code are those of `placet request`. For all cases, prints one JSON
    object per line as they end; the exit code is 1 if any failed, else the highest of their codes. People who
    were already notified are notified again only with --via.
    """
    chosen = [
        _renotify_if_requested(one, how)
        for one in ([_find_case(case_id)] if case_id is not None else _list_all())
    ]
    how = _with_channels(chosen, how)
    if case_id is not None:
        run(functools.partial(follow, chosen[0]), how)
    elif chosen:
        run(functools.partial(_resume_all, chosen), how, several=True)
    else:
        click.echo("Nothing is pending.", err=True)


@pending.command()
@click.argument("case_ids", nargs=-1, metavar="[CASE_ID]...")
@click.option("--all", "forget_all", is_flag=True, help="Forget every case.")
@json_option
def forget(case_ids: tuple[str, ...], forget_all: bool, as_json: bool) -> None:
    """Forget cases. At the service, they stay open until they are answered or expire."""
    if not case_ids and not forget_all:
        raise click.UsageError("Pass the ids of the cases to forget, or --all.")
    chosen = _list_all() if forget_all else [_find_case(case_id) for case_id in case_ids]
    cases = PendingCases(get_default_path())
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
        results.print_result(results.build_open_view(one.case, None))
        return results.STILL_OPEN
    except PlacetError as error:
        waiting.line.say(f"placet: {to_single_line(one.case.case_id)}: {error.message}")
        results.print_result({**results.build_error_view(error), "case_id": one.case.case_id})
        return results.FAILED
    waiting.line.say(f"{to_single_line(one.case.case_id)}: {describe_outcome(outcome)}")
    results.print_result(results.build_outcome_view(outcome))
    return results.get_exit_code(outcome)


def _renotify_if_requested(one: PendingCase, how: WaitOptions) -> PendingCase:
    return replace(one, is_notified=False) if how.vias else one


def _with_channels(chosen: list[PendingCase], how: WaitOptions) -> WaitOptions:
    """Add the messengers that already show these cases, so that their messages are updated."""
    if not chosen:
        return how
    cases = PendingCases(get_default_path())
    try:
        channels = [message.channel for one in chosen for message in cases.list_messages(one.case)]
    finally:
        cases.close()
    return replace(how, also=tuple(dict.fromkeys(channels)))


def _list_all() -> list[PendingCase]:
    if not get_default_path().exists():
        return []
    cases = PendingCases(get_default_path())
    try:
        return cases.list_pending()
    finally:
        cases.close()


def _find_case(case_id: str) -> PendingCase:
    """Return the case with this id; the most urgent one if two services use the same id."""
    for one in _list_all():
        if one.case.case_id == case_id:
            return one
    raise CaseNotFound(f"No case {case_id!r} is pending; `placet pending list` shows which are.")
