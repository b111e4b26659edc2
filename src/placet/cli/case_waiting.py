"""Options of the commands that wait for a person, and the wait itself."""

import asyncio
import functools
import os
import signal
import tempfile
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NoReturn

import click
from msgspec import Struct

from placet.agent import AsyncAgent, Expired, Notice, Outcome, PendingCase, PendingCases
from placet.agent.base_agent import ORIGIN_EXAMPLE
from placet.agent.channel_bridge import build_closure
from placet.agent.pending_case_store import get_default_path
from placet.agent.trust import parse_origin
from placet.channels import texts
from placet.cli import results
from placet.cli.notifications import AUTO, VIAS, QuestionNotifier, build_targets, open_messengers
from placet.cli.progress_line import ProgressLine
from placet.cli.text_tables import discard_output
from placet.errors import (
    AddressRefused,
    CaseFileUnavailable,
    CaseNotSaved,
    KeysUnavailable,
    NotificationFailed,
    PlacetError,
    StillWaiting,
    ValidationFailed,
)
from placet.protocol.duration import parse_duration
from placet.text.truncation import to_single_line


class WaitDurationParam(click.ParamType[timedelta]):
    """A duration such as 10m, or seconds; 0 means not to wait at all."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> timedelta:
        """Return the duration; fail with a usage error if it cannot be parsed."""
        if isinstance(value, timedelta):
            return value
        try:
            return timedelta(seconds=int(value)) if value.isdecimal() else parse_duration(value)
        except (ValidationFailed, OverflowError, ValueError) as error:
            self.fail(getattr(error, "message", "This is too long."), param, ctx)


class WaitOptions(Struct, frozen=True, kw_only=True):
    """The options of a command that waits."""

    vias: tuple[str, ...]
    also: tuple[str, ...] = ()
    """Messengers that already have the question: their message is updated if possible."""
    interval_s: float | None = None
    max_wait: timedelta | None = None
    trusted: tuple[str, ...] = ()
    require_signature: bool = False
    as_json: bool = False


def _read_origins(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> tuple[str, ...]:
    """Return the origins; a usage error for others, before anything is sent."""
    for value in values:
        try:
            parse_origin(value)
        except AddressRefused:
            raise click.BadParameter(f"{value!a} is not an origin, such as {ORIGIN_EXAMPLE}.") from None
    return values


_PACE = (
    click.option(
        "--interval",
        type=click.FloatRange(min=0.1, max=3600),
        metavar="SECONDS",
        help="Seconds between polls. Default: the service's interval, and its event stream.",
    ),
    click.option(
        "--max-wait",
        type=WaitDurationParam(),
        metavar="DURATION",
        help="How long to wait, such as 10m. The case stays open. 0: notify or poll once, and return.",
    ),
    click.option(
        "--trust",
        "trusted",
        multiple=True,
        metavar="ORIGIN",
        callback=_read_origins,
        help="Trust this further origin of the service. Repeatable.",
    ),
    click.option(
        "--require-signature",
        is_flag=True,
        help="Fail unless the decision has a valid signature of the service.",
    ),
    click.option(
        "--json",
        "as_json",
        is_flag=True,
        help="Print one JSON object, also for plain responses and errors.",
    ),
)
_VIA = click.option(
    "--via",
    "vias",
    multiple=True,
    type=click.Choice(VIAS),
    envvar="PLACET_VIA",
    help="How to notify the person. Repeatable. Default: auto, which opens a browser on a desktop, prints the"
    " link with a QR code over SSH, and else prints the link on standard error.",
)


def wait_options(*, via: bool = True) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Add the options of a command that waits; the command gets them as `how`."""

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(command)
        def with_how(
            interval: float | None,
            max_wait: timedelta | None,
            trusted: tuple[str, ...],
            require_signature: bool,
            as_json: bool,
            vias: tuple[str, ...] = (),
            **rest: Any,
        ) -> None:
            how = WaitOptions(
                vias=vias,
                interval_s=interval,
                max_wait=max_wait,
                trusted=trusted,
                require_signature=require_signature,
                as_json=as_json,
            )
            command(how=how, **rest)

        decorated: Callable[..., None] = with_how
        for option in reversed((_VIA, *_PACE) if via else _PACE):
            decorated = option(decorated)
        return decorated

    return decorate


class Terminated(BaseException):
    """The process received SIGTERM."""


class CaseWait:
    """The wait of one command: opens messengers before anything is sent, and the rest on demand."""

    def __init__(self, how: WaitOptions, *, several: bool = False) -> None:
        self._how = how
        self._vias = how.vias or (AUTO,)
        live = None if not several and "terminal" not in self._vias else False
        self.line = ProgressLine(live=live, several=several)
        self._messengers = open_messengers(self._vias, how.also, os.environ, self.line)
        self._agent: AsyncAgent | None = None
        self._cases: PendingCases | None = None
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self.notifier: QuestionNotifier | None = None

    async def follow(self, pending: PendingCase) -> Outcome:
        """Follow one case, and clear the progress line afterwards."""
        agent = self._agent or self._begin()
        if pending.is_notified:
            self.line.show(Notice(name="requested", case=pending.case))
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
            require_signature=self._how.require_signature,
        )
        targets = build_targets(
            self._vias, self._messengers.values(), line=self.line, cases=cases, nudge=agent.nudge
        )
        self.notifier = QuestionNotifier(self.line, targets)
        self.notifier.listen()
        return agent

    async def _tell(self, notice: Notice) -> None:
        if self.notifier is not None:
            await self.notifier(notice)

    @property
    def last(self) -> Notice | None:
        """The last notice about the person."""
        return self.notifier.last if self.notifier is not None else None

    async def aclose(self) -> None:
        """Close the messengers, the agent and the file."""
        self.line.end()
        if self.notifier is not None:
            with suppress(PlacetError):
                await self.notifier.aclose()
        else:
            for one in self._messengers.values():
                await one.channel.aclose()
        if self._agent is not None:
            await self._agent.aclose()
        if self._cases is not None:
            self._cases.close()
        if self._folder is not None:
            self._folder.cleanup()

    def is_saved(self, pending: PendingCase) -> bool:
        """Whether the case can be resumed by another command."""
        saved = self._cases.list_pending() if self._cases is not None and self._folder is None else []
        return any(one.case.case_id == pending.case.case_id for one in saved)

    def _open_case_file(self) -> PendingCases:
        """Open the file of pending cases; if it cannot be written, use a temporary one."""
        try:
            return _require_capacity(PendingCases(get_default_path()))
        except (OSError, CaseNotSaved, CaseFileUnavailable) as error:
            self.line.say(f"placet: {error}", "If this command ends, the wait cannot be resumed.")
        self._folder = tempfile.TemporaryDirectory(prefix="placet-")
        return PendingCases(Path(self._folder.name) / "agent.db")


def _require_capacity(cases: PendingCases) -> PendingCases:
    try:
        cases.require_room()
    except CaseNotSaved:
        cases.close()
        raise
    return cases


async def follow(pending: PendingCase, waiting: CaseWait) -> NoReturn:
    """Follow a case until it ends, print its outcome, and exit with its code."""
    try:
        outcome = await waiting.follow(pending)
    except StillWaiting:
        results.print_result(results.build_open_view(pending.case, waiting.last))
        waiting.line.say(*explain_resume(waiting, pending))
        raise click.exceptions.Exit(results.STILL_OPEN) from None
    except asyncio.CancelledError:
        waiting.line.say(*explain_resume(waiting, pending))
        raise
    except PlacetError as error:
        error.details.setdefault("case_id", pending.case.case_id)
        for line in explain_resume(waiting, pending, error):
            error.add_note(line)
        raise
    try:
        report(outcome)
    except BrokenPipeError:
        raise
    except OSError as error:
        discard_output()
        unwritten = PlacetError(f"The outcome cannot be written: {error.strerror}.")
        unwritten.add_note(f"Read it again with: placet wait {to_single_line(pending.case.poll_url)}")
        raise unwritten from error


def report(outcome: Outcome) -> NoReturn:
    """Print the outcome as a sentence and as JSON, and exit."""
    click.echo(describe_outcome(outcome), err=True)
    results.print_result(results.build_outcome_view(outcome))
    raise click.exceptions.Exit(results.get_exit_code(outcome))


def describe_outcome(outcome: Outcome) -> str:
    """Return the outcome as a sentence."""
    if isinstance(outcome, Expired):
        default = to_single_line(outcome.default_action)
        return f"Nobody answered in time, so nothing was decided. The service's default is: {default}."
    return f"{texts.describe_closure(build_closure(outcome, datetime.now(UTC)))}."


def explain_resume(waiting: CaseWait, pending: PendingCase, error: PlacetError | None = None) -> list[str]:
    """Return the lines that explain how to resume waiting for a saved case."""
    if not waiting.is_saved(pending):
        return []
    if isinstance(error, KeysUnavailable):
        why = "The person has decided. Read the decision again with:"
    elif isinstance(error, NotificationFailed):
        why = (
            "The case is still open. The person was not notified. Notify them with the same or another --via:"
        )
    else:
        why = "The case is still open. Resume waiting with:"
    return [why, f"  placet pending resume {to_single_line(pending.case.case_id)}"]


def run(work: Callable[[CaseWait], Awaitable[None]], how: WaitOptions, *, several: bool = False) -> None:
    """Run a command that waits; print errors as JSON too if --json was given."""
    try:
        asyncio.run(_run_until_terminated(_run_and_close(work, how, several)))
    except (KeyboardInterrupt, Terminated) as end:
        code = results.TERMINATED if isinstance(end, Terminated) else results.INTERRUPTED
        raise click.exceptions.Exit(code) from None
    except PlacetError as error:
        if how.as_json:
            with suppress(OSError):  # the error itself matters more
                results.print_result(results.build_error_view(error))
        raise
    except BrokenPipeError:
        discard_output()
        raise click.exceptions.Exit(results.FAILED) from None


async def _run_and_close(
    work: Callable[[CaseWait], Awaitable[None]], how: WaitOptions, several: bool
) -> None:
    waiting = CaseWait(how, several=several)
    try:
        await work(waiting)
    finally:
        await waiting.aclose()


async def _run_until_terminated(work: Coroutine[Any, Any, None]) -> None:
    """Cancel the work on SIGTERM, so that it can clean up as after Ctrl-C."""
    task = asyncio.create_task(work)
    ended = False

    def end() -> None:
        nonlocal ended
        ended = True
        task.cancel()

    with _call_on_terminate(end):
        try:
            await task
        except asyncio.CancelledError:
            if ended:
                raise Terminated from None
            raise


@contextmanager
def _call_on_terminate(end: Callable[[], None]) -> Iterator[None]:
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, end)
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGTERM)
