"""What the commands that wait for a person share: their options, and following cases to their end."""

import asyncio
import functools
import os
import signal
import sqlite3
import tempfile
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NoReturn

import click
from msgspec import Struct

from placet.agent import AsyncAgent, Cancelled, Decided, Notice, Outcome, PendingCase, PendingCases
from placet.agent.pending import default_path
from placet.channels import texts
from placet.cli import results
from placet.cli.notifications import VIAS, QuestionNotifier, build_targets, open_messengers
from placet.cli.progress_line import ProgressLine
from placet.cli.text_tables import discard_output
from placet.errors import NotKept, NotTold, PlacetError, SettingsError, StillWaiting, ValidationFailed
from placet.ports.channel import CaseClosure
from placet.protocol.duration import parse_duration
from placet.text.truncation import to_single_line


class PatienceParam(click.ParamType[timedelta]):
    """A duration such as 10m, or seconds; 0 means not to wait at all."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> timedelta:
        """The time that is meant; a wrong one is a wrong call."""
        if isinstance(value, timedelta):
            return value
        try:
            return timedelta(seconds=int(value)) if value.isdecimal() else parse_duration(value)
        except (ValidationFailed, OverflowError, ValueError) as error:
            self.fail(getattr(error, "message", "This is too long."), param, ctx)


class WaitOptions(Struct, frozen=True, kw_only=True):
    """How a command waits."""

    vias: tuple[str, ...]
    also: tuple[str, ...] = ()
    """Messengers in which the question is already: brought up to date where that can be."""
    interval_s: float | None = None
    max_wait: timedelta | None = None
    trusted: tuple[str, ...] = ()
    as_json: bool = False


_PACE = (
    click.option(
        "--interval",
        type=click.FloatRange(min=0.1, max=3600),
        metavar="SECONDS",
        help="How often to ask the service; default: as it says, and at once when it tells.",
    ),
    click.option(
        "--max-wait",
        type=PatienceParam(),
        metavar="DURATION",
        help="How long to wait, such as 10m; the case stays open. 0: tell, or ask once, and return.",
    ),
    click.option(
        "--trust",
        "trusted",
        multiple=True,
        metavar="ORIGIN",
        help="A further origin of the service; repeatable.",
    ),
    click.option(
        "--json",
        "as_json",
        is_flag=True,
        help="Print one JSON object whatever happens: for plain answers and errors too.",
    ),
)
_VIA = click.option(
    "--via",
    "vias",
    multiple=True,
    type=click.Choice(VIAS),
    envvar="PLACET_VIA",
    help="Where to tell the person; repeatable. Default: print, on standard error.",
)


def wait_options(*, via: bool = True) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """The options of every command that waits; the command gets them as `how`."""

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(command)
        def with_how(
            interval: float | None,
            max_wait: timedelta | None,
            trusted: tuple[str, ...],
            as_json: bool,
            vias: tuple[str, ...] = (),
            **rest: Any,
        ) -> None:
            how = WaitOptions(
                vias=vias, interval_s=interval, max_wait=max_wait, trusted=trusted, as_json=as_json
            )
            command(how=how, **rest)

        decorated: Callable[..., None] = with_how
        for option in reversed((_VIA, *_PACE) if via else _PACE):
            decorated = option(decorated)
        return decorated

    return decorate


class Terminated(BaseException):
    """Whoever started this command wants it to end."""


class CaseWait:
    """One command's wait: the messengers are opened before anything is sent, the rest where it is needed."""

    def __init__(self, how: WaitOptions, *, several: bool = False) -> None:
        self._how = how
        self._vias = how.vias or ("print",)
        live = None if not several and "terminal" not in self._vias else False
        self.line = ProgressLine(live=live, several=several)
        self._messengers = open_messengers(self._vias, how.also, os.environ, self.line)
        self._agent: AsyncAgent | None = None
        self._cases: PendingCases | None = None
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self.telling: QuestionNotifier | None = None

    async def follow(self, pending: PendingCase) -> Outcome:
        """Follow one case; afterwards the screen is tidy."""
        agent = self._agent or self._begin()
        if pending.told:
            self.line.show(Notice(name="told", case=pending.case))
        try:
            return await agent.follow_case(pending)
        finally:
            self.line.end()

    def _begin(self) -> AsyncAgent:
        self._cases = cases = self._open_case_file()
        self._agent = agent = AsyncAgent(
            tell=self._tell,
            trusted=self._how.trusted,
            interval_s=self._how.interval_s,
            max_wait=self._how.max_wait,
            streams=self._how.interval_s is None,
            pending=cases,
        )
        places = build_targets(
            self._vias, self._messengers.values(), line=self.line, cases=cases, nudge=agent.nudge
        )
        self.telling = QuestionNotifier(self.line, places)
        self.telling.listen()
        return agent

    async def _tell(self, notice: Notice) -> None:
        if self.telling is not None:
            await self.telling(notice)

    @property
    def last(self) -> Notice | None:
        """What was last heard of the person."""
        return self.telling.last if self.telling is not None else None

    async def aclose(self) -> None:
        """Let go of everything."""
        self.line.end()
        if self.telling is not None:
            with suppress(PlacetError):
                await self.telling.aclose()
        else:
            for one in self._messengers.values():
                await one.channel.aclose()
        if self._agent is not None:
            await self._agent.aclose()
        if self._cases is not None:
            self._cases.close()
        if self._folder is not None:
            self._folder.cleanup()

    def is_kept(self, pending: PendingCase) -> bool:
        """Whether the case can be resumed by another command."""
        kept = self._cases.all() if self._cases is not None and self._folder is None else []
        return any(one.case.case_id == pending.case.case_id for one in kept)

    def _open_case_file(self) -> PendingCases:
        """Where cases are kept; in a place that takes no files they are kept for this command alone."""
        try:
            return _extend_capacity(PendingCases(default_path()))
        except (OSError, NotKept, SettingsError) as error:
            if isinstance(error, SettingsError) and not isinstance(error.__cause__, OSError | sqlite3.Error):
                raise
            self.line.say(f"placet: {error}", "This wait cannot be resumed if the command is ended.")
        self._folder = tempfile.TemporaryDirectory(prefix="placet-")
        return PendingCases(Path(self._folder.name) / "agent.db")


def _extend_capacity(cases: PendingCases) -> PendingCases:
    try:
        cases.require_room()
    except NotKept:
        cases.close()
        raise
    return cases


async def follow(pending: PendingCase, waiting: CaseWait) -> NoReturn:
    """Follow a case to its end, print what came of it, and leave with its exit code."""
    try:
        outcome = await waiting.follow(pending)
    except StillWaiting:
        results.print_result(results.open_view(pending.case, waiting.last))
        waiting.line.say(*explain_resume(waiting, pending))
        raise click.exceptions.Exit(results.FAILED) from None
    except asyncio.CancelledError:
        waiting.line.say(*explain_resume(waiting, pending))
        raise
    except PlacetError as error:
        error.details.setdefault("case_id", pending.case.case_id)
        for line in explain_resume(waiting, pending, told=not isinstance(error, NotTold)):
            error.add_note(line)
        raise
    try:
        report(outcome)
    except BrokenPipeError:
        raise
    except OSError as error:
        discard_output()
        unwritten = PlacetError(f"What was decided cannot be written: {error.strerror}.")
        unwritten.add_note(f"The service has it: placet wait {to_single_line(pending.case.poll_url)}")
        raise unwritten from error


def report(outcome: Outcome) -> NoReturn:
    """Print how it ended, in words and as JSON, and leave."""
    click.echo(describe_outcome(outcome), err=True)
    results.print_result(results.outcome_view(outcome))
    raise click.exceptions.Exit(results.exit_code(outcome))


def describe_outcome(outcome: Outcome) -> str:
    """How it ended, for whoever watches."""
    now = datetime.now(UTC)
    if isinstance(outcome, Decided):
        name = (outcome.responded_by or {}).get("name")
        ended = CaseClosure(
            how="decided", at=now, action=outcome.action, by=name if isinstance(name, str) else None
        )
        broken = " But its signature does not hold: do not act on it." if outcome.verified is False else ""
        return f"{texts.ending(ended)}.{broken}"
    if isinstance(outcome, Cancelled):
        return f"{texts.ending(CaseClosure(how='withdrawn', at=now, reason=outcome.reason))}."
    default = to_single_line(outcome.default_action)
    return f"Nobody answered in time, so nothing was decided. The service's default is: {default}."


def explain_resume(waiting: CaseWait, pending: PendingCase, *, told: bool = True) -> list[str]:
    """A case that goes on without us can be taken up again."""
    if not waiting.is_kept(pending):
        return []
    why = "Go on waiting with:" if told else "Nobody knows of it yet; tell them, there or with another --via:"
    return [
        f"The case is still open. {why}",
        f"  placet pending resume {to_single_line(pending.case.case_id)}",
    ]


def run(work: Callable[[CaseWait], Awaitable[None]], how: WaitOptions, *, several: bool = False) -> None:
    """Run a command that waits: errors are told as JSON too where that was asked for."""
    try:
        asyncio.run(_run_until_terminated(_run_within_limit(work, how, several)))
    except (KeyboardInterrupt, Terminated) as end:
        code = results.TERMINATED if isinstance(end, Terminated) else results.INTERRUPTED
        raise click.exceptions.Exit(code) from None
    except PlacetError as error:
        if how.as_json:
            with suppress(OSError):  # the error itself matters more
                results.print_result(results.error_view(error))
        raise
    except BrokenPipeError:
        discard_output()
        raise click.exceptions.Exit(results.FAILED) from None


async def _run_within_limit(
    work: Callable[[CaseWait], Awaitable[None]], how: WaitOptions, several: bool
) -> None:
    waiting = CaseWait(how, several=several)
    try:
        await work(waiting)
    finally:
        await waiting.aclose()


async def _run_until_terminated(work: Coroutine[Any, Any, None]) -> None:
    """Being ended is like Ctrl-C: there is time for a last word."""
    task = asyncio.create_task(work)
    ended = False

    def end() -> None:
        nonlocal ended
        ended = True
        task.cancel()

    with _on_terminate(end):
        try:
            await task
        except asyncio.CancelledError:
            if ended:
                raise Terminated from None
            raise


@contextmanager
def _on_terminate(end: Callable[[], None]) -> Iterator[None]:
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, end)
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGTERM)
