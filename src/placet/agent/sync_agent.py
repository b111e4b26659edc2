"""The agent for programs without an event loop: drives the flow of `base_agent` in the calling thread."""

import inspect
import threading
from collections.abc import Callable, Generator
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from datetime import datetime
from functools import cached_property
from typing import Any, Self, TypeVar

import httpx

from placet.agent.base_agent import (
    BaseAgent,
    Fetch,
    Listen,
    Listener,
    RunBlocking,
    StopListening,
    Tell,
    is_function_of_kind,
)
from placet.agent.flow import Flow, Notice, SleepUntil
from placet.agent.outcomes import Outcome
from placet.agent.pending_case_store import PendingCase
from placet.agent.responses import (
    ACCEPTED_ENCODINGS,
    BoundedBody,
    build_slow_response_error,
    is_stream,
    require_safe_encoding,
)
from placet.agent.sse import EventReader
from placet.agent.trust import Origin, parse_origin
from placet.effects import EffectRun
from placet.errors import PlacetError, SettingsError

Notify = Callable[[Notice], None]
T = TypeVar("T")
MAX_STUCK_THREADS = 3
ASYNC_TELL = "tell is async, and Agent cannot await it. Pass a plain function, or use AsyncAgent."


class ThreadListener(Listener):
    """Reads the event stream in a thread."""

    def __init__(
        self, http: httpx.Client, flow: Flow, credentials: dict[str, str], clock: Callable[[], datetime]
    ) -> None:
        super().__init__(flow, credentials, clock)
        self._http = http
        self._woken = threading.Event()
        self._left = False
        self._response: httpx.Response | None = None
        self._thread: threading.Thread | None = None

    def wake(self) -> None:
        """End the driver's wait; may be called from any thread."""
        self._woken.set()

    def wait(self, step: SleepUntil) -> None:
        """Wait until the step's time, or until something is reported."""
        if step.listen is not None and (self._thread is None or not self._thread.is_alive()):
            self._thread = start_thread("placet-events", self._listen, step.listen, step.last_event_id)
        self._woken.wait(max(0.0, (step.until - self._now()).total_seconds()))
        self._woken.clear()

    def leave(self) -> None:
        """Close the stream; the thread ends with its connection."""
        self._left = True
        if self._response is not None:
            self._response.close()

    def _listen(self, url: str, last_event_id: str | None) -> None:
        failed = True
        try:
            with self._http.stream("GET", url, **self.request_options(last_event_id)) as response:
                self._response = response
                require_safe_encoding(response)
                if is_stream(response):
                    failed = False
                    self.report_open()
                    reader = EventReader()
                    for chunk in response.iter_bytes():
                        if self._left:
                            break
                        self.report_events(reader, chunk)
        except (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError, ValueError):
            pass
        self.report_end(failed=failed)


class Agent(BaseAgent[Notify, httpx.Client, ThreadListener]):
    """Makes an agent's calls and follows cases, as `AsyncAgent` does, for synchronous programs."""

    _client = httpx.Client
    _listener = ThreadListener

    def _check_tell(self, tell: object) -> None:
        super()._check_tell(tell)
        if is_function_of_kind(tell, inspect.iscoroutinefunction):
            raise SettingsError(ASYNC_TELL)

    @cached_property
    def _stuck(self) -> dict[Origin, list[threading.Thread]]:
        """Abandoned requests that have not ended, by service."""
        return {}

    def request(
        self, method: str, url: str, *, reference: str | None = None, **options: Any
    ) -> httpx.Response | Outcome:
        """Make a call; if the service requires a person, wait for the decision."""
        response = self._http.request(method, url, **self._ask_for_callback(options))
        return self.follow(response, reference=reference)

    def follow(self, response: httpx.Response, *, reference: str | None = None) -> httpx.Response | Outcome:
        """Return the response unchanged, or the outcome of its case; raises as `AsyncAgent.follow` does."""
        response.read()
        pending = self._read_pending(response, reference)
        return response if pending is None else self.follow_case(pending)

    def follow_case(self, pending: PendingCase) -> Outcome:
        """Follow a case to its end; its person is notified unless that has been done."""
        return self._drive(self._follow(pending))

    def resume_all(self) -> list[tuple[PendingCase, Outcome | PlacetError]]:
        """Follow every pending case concurrently; return each with its outcome or its error.

        Each runs in its own thread, so `tell` is called from several.
        """
        cases = self.pending()
        futures: list[Future[Outcome | PlacetError]] = [Future() for _ in cases]
        for pending, future in zip(cases, futures, strict=True):
            start_thread("placet-resumed", fulfil, future, self._resume, pending)
        return [(pending, future.result()) for pending, future in zip(cases, futures, strict=True)]

    def close(self) -> None:
        """Close the connections, unless the HTTP client was passed in."""
        if self._own_http:
            self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    def _resume(self, pending: PendingCase) -> Outcome | PlacetError:
        try:
            return self.follow_case(pending)
        except PlacetError as error:
            return error

    def _drive(self, steps: Generator[Any, Any, Outcome]) -> Outcome:
        run = EffectRun(steps)
        for effect in run:
            try:
                run.set_result(self._perform(effect))
            except BaseException as error:  # also an interrupt: the generator cleans up and raises it
                run.set_exception(error)
        return run.outcome

    def _perform(self, effect: Any) -> Any:
        match effect:
            case Tell(notice):
                return _require_finished(self._tell(notice))
            case RunBlocking(work):
                return work()
            case Fetch():
                return self._fetch(effect)
            case Listen(listener, step):
                return listener.wait(step)
            case StopListening(listener):
                return listener.leave()

    def _fetch(self, wanted: Fetch) -> tuple[int, httpx.Headers, bytes]:
        """Return one response, in time and no larger than the limit; redirects are not followed."""
        future: Future[tuple[int, httpx.Headers, bytes]] = Future()
        stuck = self._stuck.setdefault(parse_origin(wanted.url), [])
        stuck[:] = [thread for thread in stuck if thread.is_alive()]
        if (
            len(stuck) >= MAX_STUCK_THREADS
        ):  # each holds a connection that the cases of other services may need
            raise build_slow_response_error()
        # A thread can be abandoned when a service never ends its headers; a call cannot.
        thread = start_thread("placet-poll", fulfil, future, self._read_response, wanted)
        try:
            return future.result(wanted.within_s)
        except FutureTimeout:
            stuck.append(thread)
            raise build_slow_response_error() from None

    def _read_response(self, wanted: Fetch) -> tuple[int, httpx.Headers, bytes]:
        headers = {**wanted.headers, **ACCEPTED_ENCODINGS}
        with self._http.stream("GET", wanted.url, headers=headers, follow_redirects=False) as response:
            require_safe_encoding(response)
            body = BoundedBody()
            for chunk in response.iter_bytes():
                body.add(chunk)
            return response.status_code, response.headers, bytes(body)


def _require_finished(result: object) -> None:
    """Raise SettingsError if `tell` returned something to await: it has not notified the person."""
    if inspect.isawaitable(result):
        if inspect.iscoroutine(result):
            result.close()
        raise SettingsError(ASYNC_TELL)


def start_thread(name: str, work: Callable[..., object], *arguments: Any) -> threading.Thread:
    """Run this in a thread that does not keep the process alive."""
    thread = threading.Thread(target=work, args=arguments, name=name, daemon=True)
    thread.start()
    return thread


def fulfil(future: "Future[T]", work: Callable[..., T], *arguments: Any) -> None:
    """Run this, and put its result or its error into the future."""
    try:
        future.set_result(work(*arguments))
    except BaseException as error:
        future.set_exception(error)
