"""Follows cases for programs without an event loop: the same flow, driven by a thread that sleeps."""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from datetime import datetime
from functools import cached_property
from types import TracebackType
from typing import Any, Self, TypeVar

import httpx

from placet.agent.drive import (
    LISTEN_TIMEOUT,
    PLAINLY,
    WHOLE_WITHIN_S,
    BaseAgent,
    Whole,
    checked,
    credentials_of,
    is_stream,
    keys_address,
    log,
    not_told,
    require_plain,
    too_slow,
    trouble,
)
from placet.agent.flow import Done, Flow, Notice, Poll, Wait
from placet.agent.outcomes import Outcome
from placet.agent.pending import KeptCase, PendingCase
from placet.agent.reading import FollowedCase, read_case
from placet.agent.sse import EventReader
from placet.agent.trust import Origin, Trust, origin
from placet.errors import CaseLost, PlacetError

Tell = Callable[[Notice], None]
T = TypeVar("T")
STUCK_AT_MOST = 3


class Agent(BaseAgent[Tell, httpx.Client]):
    """An agent's way with people, as `AsyncAgent` but for programs that block."""

    _client = httpx.Client

    @cached_property
    def _stuck(self) -> dict[Origin, list[threading.Thread]]:
        """The polls that were left behind, by service."""
        return {}

    def request(
        self, method: str, url: str, *, reference: str | None = None, **options: Any
    ) -> httpx.Response | Outcome:
        """Make a call; a service that needs a person is followed to the person's decision."""
        return self.follow(self._http.request(method, url, **options), reference=reference)

    def follow(self, response: httpx.Response, *, reference: str | None = None) -> httpx.Response | Outcome:
        """The response as it is, or the end of the case it opens; raises as `AsyncAgent.follow` does."""
        response.read()
        found = read_case(response.status_code, response.content, url=str(response.url), now=self._now())
        if found is None:
            return response
        credentials = credentials_of(response.request)
        return self.follow_case(PendingCase(case=found, credentials=credentials, reference=reference))

    def follow_case(self, pending: PendingCase) -> Outcome:
        """Follow a case to its end; its person is told unless that has been done."""
        case = pending.case
        trust = Trust(case.service_url, self._trusted)
        trust.check(case)
        kept, began = KeptCase(self._pending, pending), self._now()
        if not pending.told:
            kept.begin()
            self._tell_person(self._rounds.numbered(Notice(name="told", case=case)))
            kept.told()
        flow = self._flow(pending, began)
        listener = _Listener(self._http, flow, pending.credentials, self._now)
        self._following.append(listener)
        try:
            outcome = self._drive(flow, listener, pending.credentials, kept)
        except CaseLost as error:
            self._end(kept, Notice(name="lost", case=case, text=error.message))
            raise
        finally:
            self._following.remove(listener)
            listener.leave()
        verified = self._verified(case, outcome, trust)
        self._end(kept, Notice(name="ended", case=case, outcome=verified))
        return verified

    def _tell_person(self, notice: Notice) -> None:
        try:
            self._tell(notice)
        except Exception as error:
            raise not_told(error) from error

    def _pass_on(self, notice: Notice) -> None:
        """What is good to know; that it could not be told must not cost the decision."""
        try:
            self._tell(self._rounds.numbered(notice))
        except Exception:
            log.exception("a notice could not be passed on: %s", notice.name)

    def _pass_on_all(self, notices: list[Notice], kept: KeptCase) -> None:
        for notice in notices:
            if notice.reminder_at is None or kept.reminds(notice.reminder_at):
                self._pass_on(notice)

    def _end(self, kept: KeptCase, notice: Notice) -> None:
        self._pass_on(notice)
        kept.end()

    def resume_all(self) -> list[tuple[PendingCase, Outcome | PlacetError]]:
        """Follow every pending case, side by side, each to its end or to what went wrong with it.

        Each has a thread of its own, so `tell` is called from several.
        """
        cases = self.pending()
        ends: list[Future[Outcome | PlacetError]] = [Future() for _ in cases]
        for pending, end in zip(cases, ends, strict=True):
            threading.Thread(
                target=fulfil, args=(end, self._resumed, pending), name="placet-resumed", daemon=True
            ).start()
        return [(pending, end.result()) for pending, end in zip(cases, ends, strict=True)]

    def _resumed(self, pending: PendingCase) -> Outcome | PlacetError:
        try:
            return self.follow_case(pending)
        except PlacetError as error:
            return error

    def close(self) -> None:
        """Close the connections that are our own."""
        if self._own_http:
            self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _drive(
        self, flow: Flow, listener: "_Listener", credentials: dict[str, str], kept: KeptCase
    ) -> Outcome:
        while True:
            with listener.lock:
                step = flow.step(self._now())
                notices = flow.notices()
            self._pass_on_all(notices, kept)
            if isinstance(step, Done):
                return step.outcome
            if isinstance(step, Poll):
                self._poll(flow, step, credentials, listener.lock)
                with listener.lock:
                    notices = flow.notices()
                self._pass_on_all(notices, kept)
            else:
                listener.wait(step)

    def _poll(self, flow: Flow, step: Poll, credentials: dict[str, str], lock: threading.Lock) -> None:
        try:
            status, headers, body = self._get(
                step.url, {**credentials, **step.headers}, within_s=step.within_s
            )
        except httpx.HTTPError as error:
            with lock:
                flow.unreached(trouble(error), self._now())
        else:
            with lock:
                flow.polled(status, headers, body, self._now())

    def _get(
        self, url: str, headers: dict[str, str], *, within_s: float = WHOLE_WITHIN_S
    ) -> tuple[int, httpx.Headers, bytes]:
        """One answer, in time and no larger than we read; redirects are answers, and lead nowhere."""
        answer: Future[tuple[int, httpx.Headers, bytes]] = Future()
        stuck = self._stuck.setdefault(origin(url), [])
        stuck[:] = [thread for thread in stuck if thread.is_alive()]
        if len(stuck) >= STUCK_AT_MOST:  # each holds a connection, which other services' cases may need
            raise too_slow()
        # Only a thread can be left behind by a service whose headers never end.
        thread = threading.Thread(
            target=fulfil, args=(answer, self._got, url, headers), name="placet-poll", daemon=True
        )
        thread.start()
        try:
            return answer.result(within_s)
        except FutureTimeout:
            stuck.append(thread)
            raise too_slow() from None

    def _got(self, url: str, headers: dict[str, str]) -> tuple[int, httpx.Headers, bytes]:
        headers = {**headers, **PLAINLY}
        with self._http.stream("GET", url, headers=headers, follow_redirects=False) as response:
            require_plain(response)
            body = Whole()
            for chunk in response.iter_bytes():
                body.add(chunk)
            return response.status_code, response.headers, bytes(body)

    def _verified(self, case: FollowedCase, outcome: Outcome, trust: Trust) -> Outcome:
        url = keys_address(case, outcome, trust)
        if url is None:
            return outcome
        try:
            status, _, body = self._get(url, {})
        except httpx.HTTPError:
            return outcome
        return checked(outcome, body if status == 200 else None)


def fulfil(future: "Future[T]", work: Callable[..., T], *arguments: Any) -> None:
    """Do it, and let whoever waits have what came of it."""
    try:
        future.set_result(work(*arguments))
    except BaseException as error:
        future.set_exception(error)


class _Listener:
    """The event stream in a thread of its own; `lock` is held by whoever touches the flow."""

    def __init__(
        self, http: httpx.Client, flow: Flow, credentials: dict[str, str], clock: Callable[[], datetime]
    ) -> None:
        self.lock = threading.Lock()
        self.case_id = flow.case.case_id
        self._http = http
        self._flow = flow
        self._credentials = credentials
        self._now = clock
        self._woken = threading.Event()
        self._left = False
        self._response: httpx.Response | None = None
        self._thread: threading.Thread | None = None

    def nudge(self) -> None:
        """Wake the driver, and have it ask; from any thread."""
        with self.lock:
            self._flow.nudged(self._now())
        self._woken.set()

    def wait(self, step: Wait) -> None:
        """Until the moment comes or something is heard."""
        if step.listen is not None and (self._thread is None or not self._thread.is_alive()):
            self._thread = threading.Thread(
                target=self._listen, args=(step.listen, step.last_event_id), name="placet-events", daemon=True
            )
            self._thread.start()
        self._woken.wait(max(0.0, (step.until - self._now()).total_seconds()))
        self._woken.clear()

    def leave(self) -> None:
        """Stop listening; the thread ends with its connection."""
        self._left = True
        if self._response is not None:
            self._response.close()

    def _listen(self, url: str, last_event_id: str | None) -> None:
        resume = {"Last-Event-ID": last_event_id} if last_event_id is not None else {}
        headers = {**self._credentials, **resume, "Accept": "text/event-stream"}
        failed = True
        try:
            with self._http.stream(
                "GET", url, headers=headers, timeout=LISTEN_TIMEOUT, follow_redirects=False
            ) as response:
                self._response = response
                require_plain(response)
                if is_stream(response):
                    failed = False
                    with self.lock:
                        self._flow.listening(self._now())
                    self._read(response)
        except (httpx.HTTPError, httpx.StreamError, ValueError):
            pass
        with self.lock:
            self._flow.silenced(self._now(), failed=failed)
        self._woken.set()

    def _read(self, response: httpx.Response) -> None:
        reader = EventReader()
        for chunk in response.iter_bytes():
            if self._left:
                return
            for event in reader.feed(chunk):
                with self.lock:
                    self._flow.heard(event.name, event.id, self._now(), event.data)
                self._woken.set()
