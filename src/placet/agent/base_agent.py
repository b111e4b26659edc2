"""The one flow with which an agent follows a case: a generator that yields effects for a driver to perform.

`AsyncAgent` and `Agent` are the drivers. They perform an effect, send its result into the generator or throw
its error, and own nothing but the connections.
"""

import inspect
import logging
import random
import threading
from collections.abc import Callable, Generator, Iterable
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, Generic, NamedTuple, TypeVar

import httpx
from msgspec.structs import replace

from placet.agent.discovery import (
    DISCOVERY_TIMEOUT_S,
    UNKNOWN_SERVICE,
    ServiceCapabilities,
    build_discovery_url,
    read_capabilities,
)
from placet.agent.flow import Done, Flow, Notice, Poll, SleepUntil
from placet.agent.outcomes import Decided, Outcome
from placet.agent.pending_case_store import PendingCase, PendingCases, SavedCase
from placet.agent.responses import (
    LISTEN_TIMEOUT,
    SUBMIT_TIMEOUT_S,
    TIMEOUT,
    USER_AGENT,
    describe_failure,
    explain_missing_signature,
    find_keys_url,
    is_invalid_redirect,
    select_credentials,
    verify_outcome,
)
from placet.agent.round_numbers import RoundNumbers, SuggestionLimit
from placet.agent.service_responses import FollowedCase, ServiceSuggestion, read_case
from placet.agent.sse import EventReader
from placet.agent.trust import TrustedOrigins, parse_origin
from placet.errors import (
    AddressRefused,
    CaseLost,
    KeysUnavailable,
    NotificationFailed,
    PlacetError,
    SettingsError,
    UnreadableAnswer,
)

ORIGIN_EXAMPLE = "https://reviews.example"
DISCOVER_AGAIN_AFTER = timedelta(hours=1)
MAX_SERVICES = 1000
MAX_STREAMS = 32  # per agent; more would leave no connection for polls

TellT = TypeVar("TellT")
HttpT = TypeVar("HttpT", httpx.Client, httpx.AsyncClient)

log = logging.getLogger("placet.agent")


class Listener:
    """The event stream beside the polls of one case; `lock` guards the flow.

    A driver adds `wait`, `leave` and the reading of the stream.
    """

    def __init__(self, flow: Flow, credentials: dict[str, str], clock: Callable[[], datetime]) -> None:
        self.lock = threading.Lock()
        self.case_id = flow.case.case_id
        self._flow = flow
        self._credentials = credentials
        self._now = clock

    def nudge(self) -> None:
        """Wake the driver and make it poll; may be called from any thread."""
        with self.lock:
            self._flow.report_callback(self._now())
        self.wake()

    def wake(self) -> None:
        """End the driver's wait."""
        raise NotImplementedError

    def request_options(self, last_event_id: str | None) -> dict[str, Any]:
        """Return the arguments of the request that opens the stream."""
        resume = {"Last-Event-ID": last_event_id} if last_event_id is not None else {}
        headers = {**self._credentials, **resume, "Accept": "text/event-stream"}
        return {"headers": headers, "timeout": LISTEN_TIMEOUT, "follow_redirects": False}

    def report_open(self) -> None:
        """Report to the flow that the stream is open."""
        with self.lock:
            self._flow.report_stream_open(self._now())

    def report_events(self, reader: EventReader, chunk: bytes) -> None:
        """Report to the flow the events that this chunk of the stream completes."""
        for event in reader.feed(chunk):
            with self.lock:
                self._flow.report_event(event.name, event.id, self._now(), event.data)
            self.wake()

    def report_end(self, *, failed: bool) -> None:
        """Report to the flow that the stream ended or could not be opened."""
        with self.lock:
            self._flow.report_stream_end(self._now(), failed=failed)
        self.wake()


ListenerT = TypeVar("ListenerT", bound=Listener)


class Tell(NamedTuple):
    """Pass a notice to the agent's `tell`."""

    notice: Notice


class RunBlocking(NamedTuple):
    """Run something that reads or writes a file, and send back what it returns."""

    work: Callable[[], Any]


class Fetch(NamedTuple):
    """GET a URL, and send back status, headers and body; a failure is thrown as `httpx.HTTPError`."""

    url: str
    headers: dict[str, str]
    within_s: float = SUBMIT_TIMEOUT_S


class Listen(NamedTuple, Generic[ListenerT]):
    """Wait until the time of the step, with the event stream open if the step names one."""

    listener: ListenerT
    step: SleepUntil


class StopListening(NamedTuple, Generic[ListenerT]):
    """Close the event stream."""

    listener: ListenerT


class BaseAgent(Generic[TellT, HttpT, ListenerT]):
    """Base of both agents: their settings, and the generator that follows a case."""

    _client: type[HttpT]
    _listener: Callable[[HttpT, Flow, dict[str, str], Callable[[], datetime]], ListenerT]

    def __init__(
        self,
        *,
        tell: TellT,
        http: HttpT | None = None,
        trusted: Iterable[str] = (),
        interval_s: float | None = None,
        max_wait: timedelta | None = None,
        streams: bool = True,
        pending: PendingCases | None = None,
        require_signature: bool = False,
        callback_url: str | None = None,
        clock: Callable[[], datetime] | None = None,
    ) -> None:
        self._check_tell(tell)
        _check_settings(interval_s, max_wait, pending)
        self._tell = tell
        self._own_http = http is None
        self._http: HttpT = http or self._client(
            timeout=TIMEOUT, follow_redirects=False, headers={"User-Agent": USER_AGENT}
        )
        self._trusted = _read_trusted(trusted)
        self._interval_s = interval_s
        self._max_wait = max_wait
        self._streams = streams
        self._pending = pending
        self._require_signature = require_signature
        self._callback_url = _check_callback_url(callback_url)
        self._now = clock or (lambda: datetime.now(UTC))
        self._rounds = RoundNumbers()
        self._advice = SuggestionLimit()
        self._following: list[ListenerT] = []
        self._services: dict[str, tuple[ServiceCapabilities, datetime]] = {}

    def _check_tell(self, tell: object) -> None:
        """Raise SettingsError unless `tell` is a function that runs when it is called."""
        if not callable(tell):
            raise SettingsError("tell must be a function that takes a notice.")
        if is_function_of_kind(tell, inspect.isgeneratorfunction, inspect.isasyncgenfunction):
            raise SettingsError(
                "tell is a generator function, which does not run when it is called. Remove its yield."
            )

    def _ask_for_callback(self, options: dict[str, Any]) -> dict[str, Any]:
        """Return the options of a call with `hitl_callback_url` in its JSON object, unless it has one."""
        body = options.get("json")
        if self._callback_url is None or not isinstance(body, dict):
            return options
        return {**options, "json": {"hitl_callback_url": self._callback_url, **body}}

    def nudge(self, case_id: str) -> bool:
        """Poll this case now; return whether it is being followed here. May be called from any thread."""
        found = [listener for listener in list(self._following) if listener.case_id == case_id]
        for listener in found:
            listener.nudge()
        return bool(found)

    def suggestions(self, response: httpx.Response) -> tuple[ServiceSuggestion, ...]:
        """Return the service's suggestions for the next attempt, at most twice for the same call."""
        return self._advice.list_next_suggestions(response)

    def pending(self) -> list[PendingCase]:
        """Return the cases in this agent's file that have not ended."""
        return self._pending.list_pending() if self._pending is not None else []

    def _read_pending(self, response: httpx.Response, reference: str | None) -> PendingCase | None:
        """Return the case that a response opens, or None."""
        found = read_case(response.status_code, response.content, url=str(response.url), now=self._now())
        if found is None:
            return None
        return PendingCase(case=found, credentials=select_credentials(response.request), reference=reference)

    def _follow(self, pending: PendingCase) -> Generator[Any, Any, Outcome]:
        """Follow a case to its end; its person is notified first, unless that has been done."""
        case = pending.case
        trust = TrustedOrigins(case.service_url, self._trusted)
        trust.check(case)
        requires_signature = self._require_signature or pending.requires_signature
        pending = replace(pending, requires_signature=requires_signature)
        saved, began = SavedCase(self._pending, pending), self._now()
        if not pending.is_notified:
            yield RunBlocking(saved.begin)
            yield from self._tell_person(self._rounds.number_notice(Notice(name="requested", case=case)))
            saved.mark_notified()  # immediately: an agent killed before this sends the link again
        service = yield from self._discover(case)
        flow = self._build_flow(pending, began, service)
        listener = self._listener(self._http, flow, pending.credentials, self._now)
        self._following.append(listener)
        try:
            outcome = yield from self._poll_until_closed(flow, listener, pending.credentials, saved)
        except CaseLost as error:
            yield from self._end(saved, Notice(name="lost", case=case, text=error.message))
            raise
        finally:
            self._following.remove(listener)
            yield StopListening(listener)
        verified = yield from self._verify(case, outcome, trust)
        if requires_signature and isinstance(verified, Decided) and verified.verified is not True:
            unproven = explain_missing_signature(verified)
            if not isinstance(unproven, KeysUnavailable):  # the keys may be there later
                yield from self._end(saved, Notice(name="lost", case=case, text=unproven.message))
            raise unproven
        yield from self._end(saved, Notice(name="ended", case=case, outcome=verified))
        return verified

    def _discover(self, case: FollowedCase) -> Generator[Any, Any, ServiceCapabilities]:
        """Return what the service says about itself; it is asked once an hour, without credentials."""
        if self._max_wait == timedelta(0):
            return UNKNOWN_SERVICE  # one poll, without a stream or a pause
        url, now = build_discovery_url(case.service_url), self._now()
        known = self._services.get(url)
        if known is not None and now < known[1]:
            return known[0]
        try:
            status, _, body = yield Fetch(url, {}, DISCOVERY_TIMEOUT_S)
        except (httpx.HTTPError, httpx.InvalidURL):
            status, body = 0, b""
        service = read_capabilities(status, body)
        if len(self._services) >= MAX_SERVICES:
            self._services.clear()
        self._services[url] = (service, now + DISCOVER_AGAIN_AFTER)
        return service

    def _poll_until_closed(
        self, flow: Flow, listener: ListenerT, credentials: dict[str, str], saved: SavedCase
    ) -> Generator[Any, Any, Outcome]:
        while True:
            with listener.lock:
                step = flow.step(self._now())
                notices = flow.notices()
            yield from self._pass_on_all(notices, saved)
            if isinstance(step, Done):
                return step.outcome
            if isinstance(step, SleepUntil):
                yield Listen(listener, step)
                continue
            yield from self._poll(flow, step, credentials, listener.lock)
            with listener.lock:
                notices = flow.notices()
            yield from self._pass_on_all(notices, saved)

    def _poll(
        self, flow: Flow, step: Poll, credentials: dict[str, str], lock: threading.Lock
    ) -> Generator[Any, Any, None]:
        try:
            status, headers, body = yield Fetch(step.url, {**credentials, **step.headers}, step.within_s)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            if is_invalid_redirect(error):
                raise UnreadableAnswer(
                    "The service does not report the status of this case: its poll URL, or the redirect with"
                    " which it answered, is not a URL."
                ) from error
            with lock:
                flow.report_unreachable(describe_failure(error), self._now())
        else:
            with lock:
                flow.report_response(status, headers, body, self._now())

    def _verify(
        self, case: FollowedCase, outcome: Outcome, trust: TrustedOrigins
    ) -> Generator[Any, Any, Outcome]:
        """Return the outcome with `verified` set, if the keys of its signature can be fetched."""
        url = find_keys_url(case, outcome, trust)
        if url is None:
            return outcome
        try:
            status, _, body = yield Fetch(url, {})
        except (httpx.HTTPError, httpx.InvalidURL):
            return outcome
        return verify_outcome(outcome, body if status == 200 else None)

    def _tell_person(self, notice: Notice) -> Generator[Any, Any, None]:
        try:
            yield Tell(notice)
        except Exception as error:
            # The text of a foreign exception may contain a secret.
            reason = error.message if isinstance(error, PlacetError) else f"{type(error).__name__}."
            raise NotificationFailed(f"The review link could not be sent to the person: {reason}") from error

    def _pass_on(self, notice: Notice) -> Generator[Any, Any, None]:
        """Pass on a notice; log a failure instead of raising, so that the decision is not lost."""
        try:
            yield Tell(self._rounds.number_notice(notice))
        except Exception:
            log.exception("notice_failed name=%s", notice.name)

    def _pass_on_all(self, notices: list[Notice], saved: SavedCase) -> Generator[Any, Any, None]:
        for notice in notices:
            at = notice.reminder_at
            if at is None or (yield RunBlocking(partial(saved.claim_reminder, at))):
                yield from self._pass_on(notice)

    def _end(self, saved: SavedCase, notice: Notice) -> Generator[Any, Any, None]:
        yield from self._pass_on(notice)
        yield RunBlocking(saved.end)

    def _build_flow(self, pending: PendingCase, began: datetime, service: ServiceCapabilities) -> Flow:
        now = self._now()
        return Flow(
            pending.case,
            now=now,
            asks_first=pending.is_notified,
            # Without a file nothing records which reminders were sent: treat all past ones as sent.
            reminded_up_to=pending.reminded_up_to
            if self._pending is not None or not pending.is_notified
            else now,
            dice=random.random,
            interval_s=self._interval_s,
            give_up_at=began + self._max_wait if self._max_wait is not None else None,
            streams=self._streams and len(self._following) < MAX_STREAMS,
            service=service,
            takes_callbacks=self._callback_url is not None,
        )


def _read_trusted(trusted: Iterable[str]) -> tuple[str, ...]:
    """Return the trusted origins. Raises SettingsError for values that are none."""
    if isinstance(trusted, str) or not isinstance(trusted, Iterable):
        raise SettingsError(f"trusted must be a list of origins, such as {ORIGIN_EXAMPLE}.")
    origins = tuple(trusted)
    for each in origins:
        try:
            parse_origin(each)
        except (AddressRefused, TypeError, AttributeError):
            raise SettingsError(f"trusted: {each!a} is not an origin, such as {ORIGIN_EXAMPLE}.") from None
    return origins


def _check_settings(interval_s: object, max_wait: object, pending: object) -> None:
    """Raise SettingsError for a value that would fail only after a service has opened a case."""
    if interval_s is not None and (isinstance(interval_s, bool) or not isinstance(interval_s, int | float)):
        raise SettingsError("interval_s must be a number of seconds, or None.")
    if max_wait is not None and not isinstance(max_wait, timedelta):
        raise SettingsError("max_wait must be a timedelta, or None.")
    if pending is not None and not isinstance(pending, PendingCases):
        raise SettingsError('pending must be PendingCases, such as PendingCases("cases.db"), or None.')


def _check_callback_url(url: object) -> str | None:
    if url is None or (isinstance(url, str) and url.startswith(("https://", "http://"))):
        return url
    raise SettingsError("callback_url must be the http(s) address at which this agent takes callbacks.")


def is_function_of_kind(function: object, *kinds: Callable[[object], bool]) -> bool:
    """Return whether this is a function of one of these kinds, or an object that is called like one."""
    called = getattr(function, "__call__", None)  # noqa: B004 - the method itself, not whether there is one
    return any(kind(function) or kind(called) for kind in kinds)
