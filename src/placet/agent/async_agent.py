"""The agent for programs that run an event loop: drives the flow of `base_agent` with asyncio."""

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Generator
from contextlib import suppress
from datetime import datetime
from typing import Any, Self

import httpx

from placet.agent.base_agent import BaseAgent, Fetch, Listen, Listener, RunBlocking, StopListening, Tell
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
from placet.effects import EffectRun
from placet.errors import PlacetError

NotifyAsync = Callable[[Notice], Awaitable[None] | None]


class AsyncListener(Listener):
    """Reads the event stream in a task."""

    def __init__(
        self, http: httpx.AsyncClient, flow: Flow, credentials: dict[str, str], clock: Callable[[], datetime]
    ) -> None:
        super().__init__(flow, credentials, clock)
        self._http = http
        self._woken = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._task: asyncio.Task[None] | None = None

    def wake(self) -> None:
        """End the driver's wait; may be called from any thread."""
        self._loop.call_soon_threadsafe(self._woken.set)

    async def wait(self, step: SleepUntil) -> None:
        """Wait until the step's time, or until something is reported."""
        if step.listen is not None and (self._task is None or self._task.done()):
            self._task = asyncio.create_task(self._listen(step.listen, step.last_event_id))
        seconds = (step.until - self._now()).total_seconds()
        with suppress(TimeoutError):  # wait_for loses a cancellation that meets a nudge (Python 3.11)
            async with asyncio.timeout(max(0.0, seconds)):
                await self._woken.wait()
        self._woken.clear()

    async def leave(self) -> None:
        """Close the stream."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _listen(self, url: str, last_event_id: str | None) -> None:
        failed = True
        try:
            async with self._http.stream("GET", url, **self.request_options(last_event_id)) as response:
                require_safe_encoding(response)
                if is_stream(response):
                    failed = False
                    self.report_open()
                    reader = EventReader()
                    async for chunk in response.aiter_bytes():
                        self.report_events(reader, chunk)
        except (httpx.HTTPError, httpx.InvalidURL, ValueError):
            pass
        self.report_end(failed=failed)


class AsyncAgent(BaseAgent[NotifyAsync, httpx.AsyncClient, AsyncListener]):
    """Makes an agent's calls, and follows the case if a service requires a person's decision.

    `tell` is called with every notice: "requested" and "reminder" carry a link that a person must see. It may
    be an async or a plain function; a plain one must not block.
    `trusted` lists further origins that a service's URLs may have. `max_wait` limits the wait; the case
    stays open. With `require_signature`, a decision without a valid signature raises SignatureRequired, and
    KeysUnavailable if the service's keys cannot be fetched.
    """

    _client = httpx.AsyncClient
    _listener = AsyncListener

    async def request(
        self, method: str, url: str, *, reference: str | None = None, **options: Any
    ) -> httpx.Response | Outcome:
        """Make a call; if the service requires a person, wait for the decision."""
        response = await self._http.request(method, url, **self._ask_for_callback(options))
        return await self.follow(response, reference=reference)

    async def follow(
        self, response: httpx.Response, *, reference: str | None = None
    ) -> httpx.Response | Outcome:
        """Return the response unchanged, or the outcome of the case that it opens.

        `reference` is saved with a pending case, so that the agent knows what the case is about. Raises
        AddressRefused for URLs that are not trusted, and FollowFailed if no outcome can be read.
        """
        await response.aread()
        pending = self._read_pending(response, reference)
        return response if pending is None else await self.follow_case(pending)

    async def follow_case(self, pending: PendingCase) -> Outcome:
        """Follow a case to its end; its person is notified unless that has been done."""
        return await self._drive(self._follow(pending))

    async def resume_all(self) -> list[tuple[PendingCase, Outcome | PlacetError]]:
        """Follow every pending case concurrently; return each with its outcome or its error."""
        cases = await asyncio.to_thread(self.pending)
        return list(zip(cases, await asyncio.gather(*map(self._resume, cases)), strict=True))

    async def aclose(self) -> None:
        """Close the connections, unless the HTTP client was passed in."""
        if self._own_http:
            await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *raised: object) -> None:
        await self.aclose()

    async def _resume(self, pending: PendingCase) -> Outcome | PlacetError:
        try:
            return await self.follow_case(pending)
        except PlacetError as error:
            return error

    async def _drive(self, steps: Generator[Any, Any, Outcome]) -> Outcome:
        run = EffectRun(steps)
        for effect in run:
            try:
                run.set_result(await self._perform(effect))
            except BaseException as error:  # also a cancellation: the generator cleans up and raises it
                run.set_exception(error)
        return run.outcome

    async def _perform(self, effect: Any) -> Any:
        match effect:
            case Tell(notice):
                result = self._tell(notice)
                return await result if inspect.isawaitable(result) else None
            case RunBlocking(work):
                return await asyncio.to_thread(work)
            case Fetch():
                return await self._fetch(effect)
            case Listen(listener, step):
                return await listener.wait(step)
            case StopListening(listener):
                return await listener.leave()

    async def _fetch(self, wanted: Fetch) -> tuple[int, httpx.Headers, bytes]:
        """Return one response, in time and no larger than the limit; redirects are not followed."""
        headers = {**wanted.headers, **ACCEPTED_ENCODINGS}
        try:
            async with (
                asyncio.timeout(wanted.within_s),
                self._http.stream("GET", wanted.url, headers=headers, follow_redirects=False) as response,
            ):
                require_safe_encoding(response)
                body = BoundedBody()
                async for chunk in response.aiter_bytes():
                    body.add(chunk)
                return response.status_code, response.headers, bytes(body)
        except TimeoutError:
            raise build_slow_response_error() from None
