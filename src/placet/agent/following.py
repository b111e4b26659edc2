"""Follows cases for programs that run an event loop: a thin driver around the flow."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import datetime
from types import TracebackType
from typing import Any, Self

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
from placet.agent.trust import Trust
from placet.errors import CaseLost, PlacetError

Tell = Callable[[Notice], Awaitable[None]]


class AsyncAgent(BaseAgent[Tell, httpx.AsyncClient]):
    """An agent's way with people: makes its calls, and where a service needs a person, follows the case.

    `tell` gets every notice: "told" and "reminder" carry a link that a person must see. `trusted` names
    further origins that a service's addresses may be at. `max_wait` bounds the patience; the case goes on.
    """

    _client = httpx.AsyncClient

    async def request(
        self, method: str, url: str, *, reference: str | None = None, **options: Any
    ) -> httpx.Response | Outcome:
        """Make a call; a service that needs a person is followed to the person's decision."""
        return await self.follow(await self._http.request(method, url, **options), reference=reference)

    async def follow(
        self, response: httpx.Response, *, reference: str | None = None
    ) -> httpx.Response | Outcome:
        """The response as it is, or the end of the case it opens.

        `reference` is kept with a pending case, so that the agent knows what it was about. Raises
        AddressRefused for addresses that may not be trusted, FollowFailed when there is no end to see.
        """
        await response.aread()
        found = read_case(response.status_code, response.content, url=str(response.url), now=self._now())
        if found is None:
            return response
        credentials = credentials_of(response.request)
        return await self.follow_case(PendingCase(case=found, credentials=credentials, reference=reference))

    async def follow_case(self, pending: PendingCase) -> Outcome:
        """Follow a case to its end; its person is told unless that has been done."""
        case = pending.case
        trust = Trust(case.service_url, self._trusted)
        trust.check(case)
        kept, began = KeptCase(self._pending, pending), self._now()
        if not pending.told:
            await asyncio.to_thread(kept.begin)
            await self._tell_person(self._rounds.numbered(Notice(name="told", case=case)))
            kept.told()  # at once: whoever is ended in between would tell the person again
        flow = self._flow(pending, began)
        listener = _Listener(self._http, flow, pending.credentials, self._now)
        self._following.append(listener)
        try:
            async with listener:
                outcome = await self._drive(flow, listener, pending.credentials, kept)
        except CaseLost as error:
            await self._end(kept, Notice(name="lost", case=case, text=error.message))
            raise
        finally:
            self._following.remove(listener)
        verified = await self._verified(case, outcome, trust)
        await self._end(kept, Notice(name="ended", case=case, outcome=verified))
        return verified

    async def _tell_person(self, notice: Notice) -> None:
        try:
            await self._tell(notice)
        except Exception as error:
            raise not_told(error) from error

    async def _pass_on(self, notice: Notice) -> None:
        """What is good to know; that it could not be told must not cost the decision."""
        try:
            await self._tell(self._rounds.numbered(notice))
        except Exception:
            log.exception("a notice could not be passed on: %s", notice.name)

    async def _pass_on_all(self, notices: list[Notice], kept: KeptCase) -> None:
        for notice in notices:
            if notice.reminder_at is None or await asyncio.to_thread(kept.reminds, notice.reminder_at):
                await self._pass_on(notice)

    async def _end(self, kept: KeptCase, notice: Notice) -> None:
        await self._pass_on(notice)
        await asyncio.to_thread(kept.end)

    async def resume_all(self) -> list[tuple[PendingCase, Outcome | PlacetError]]:
        """Follow every pending case, side by side, each to its end or to what went wrong with it."""
        cases = await asyncio.to_thread(self.pending)
        return list(zip(cases, await asyncio.gather(*map(self._resumed, cases)), strict=True))

    async def _resumed(self, pending: PendingCase) -> Outcome | PlacetError:
        try:
            return await self.follow_case(pending)
        except PlacetError as error:
            return error

    async def aclose(self) -> None:
        """Close the connections that are our own."""
        if self._own_http:
            await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def _drive(
        self, flow: Flow, listener: "_Listener", credentials: dict[str, str], kept: KeptCase
    ) -> Outcome:
        while True:
            step = flow.step(self._now())
            await self._pass_on_all(flow.notices(), kept)
            if isinstance(step, Done):
                return step.outcome
            if isinstance(step, Poll):
                await self._poll(flow, step, credentials)
                await self._pass_on_all(flow.notices(), kept)
            else:
                await listener.wait(step)

    async def _poll(self, flow: Flow, step: Poll, credentials: dict[str, str]) -> None:
        try:
            status, headers, body = await self._get(
                step.url, {**credentials, **step.headers}, within_s=step.within_s
            )
        except httpx.HTTPError as error:
            flow.unreached(trouble(error), self._now())
        else:
            flow.polled(status, headers, body, self._now())

    async def _get(
        self, url: str, headers: dict[str, str], *, within_s: float = WHOLE_WITHIN_S
    ) -> tuple[int, httpx.Headers, bytes]:
        """One answer, in time and no larger than we read; redirects are answers, and lead nowhere."""
        try:
            async with asyncio.timeout(within_s):
                return await self._got(url, headers)
        except TimeoutError:
            raise too_slow() from None

    async def _got(self, url: str, headers: dict[str, str]) -> tuple[int, httpx.Headers, bytes]:
        headers = {**headers, **PLAINLY}
        async with self._http.stream("GET", url, headers=headers, follow_redirects=False) as response:
            require_plain(response)
            body = Whole()
            async for chunk in response.aiter_bytes():
                body.add(chunk)
            return response.status_code, response.headers, bytes(body)

    async def _verified(self, case: FollowedCase, outcome: Outcome, trust: Trust) -> Outcome:
        url = keys_address(case, outcome, trust)
        if url is None:
            return outcome
        try:
            status, _, body = await self._get(url, {})
        except httpx.HTTPError:
            return outcome
        return checked(outcome, body if status == 200 else None)


class _Listener:
    """The event stream beside the polls: it wakes the driver, and its failures are the flow's to judge."""

    def __init__(
        self, http: httpx.AsyncClient, flow: Flow, credentials: dict[str, str], clock: Callable[[], datetime]
    ) -> None:
        self.case_id = flow.case.case_id
        self._http = http
        self._flow = flow
        self._credentials = credentials
        self._now = clock
        self._woken = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def nudge(self) -> None:
        """Wake the driver, and have it ask; from any thread."""
        self._loop.call_soon_threadsafe(self._nudged)

    def _nudged(self) -> None:
        self._flow.nudged(self._now())
        self._woken.set()

    async def wait(self, step: Wait) -> None:
        """Until the moment comes or something is heard."""
        if step.listen is not None and (self._task is None or self._task.done()):
            self._task = asyncio.create_task(self._listen(step.listen, step.last_event_id))
        seconds = (step.until - self._now()).total_seconds()
        with suppress(TimeoutError):  # wait_for would swallow a cancellation that meets a nudge (Python 3.11)
            async with asyncio.timeout(max(0.0, seconds)):
                await self._woken.wait()
        self._woken.clear()

    async def _listen(self, url: str, last_event_id: str | None) -> None:
        resume = {"Last-Event-ID": last_event_id} if last_event_id is not None else {}
        headers = {**self._credentials, **resume, "Accept": "text/event-stream"}
        failed = True
        try:
            async with self._http.stream(
                "GET", url, headers=headers, timeout=LISTEN_TIMEOUT, follow_redirects=False
            ) as response:
                require_plain(response)
                if is_stream(response):
                    failed = False
                    self._flow.listening(self._now())
                    await self._read(response)
        except (httpx.HTTPError, ValueError):
            pass
        self._flow.silenced(self._now(), failed=failed)
        self._woken.set()

    async def _read(self, response: httpx.Response) -> None:
        reader = EventReader()
        async for chunk in response.aiter_bytes():
            for event in reader.feed(chunk):
                self._flow.heard(event.name, event.id, self._now(), event.data)
                self._woken.set()
