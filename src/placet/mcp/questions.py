"""The questions of an assistant: opened on a Placet server, kept in a file, followed to their end.

Nothing of MCP lives here. A question stays in the file until its end was handed to the assistant, so that
neither a restart nor a call that was broken off loses an answer.
"""

import asyncio
import secrets
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote

import httpx
import msgspec
from msgspec.structs import replace

from placet.agent import AsyncAgent, FollowedCase, Notice, Outcome, PendingCase, PendingCases, read_case
from placet.agent.responses import TIMEOUT, USER_AGENT
from placet.agent.service_responses import ACTIONS, PRESSABLE, Standing, read_standing
from placet.agent.trust import Trust, origin
from placet.client import TERMINAL, ServerRefused
from placet.errors import CaseLost, PlacetError, SettingsError, Unavailable, Unreachable, ValidationFailed
from placet.mcp.messengers import Messengers
from placet.protocol.addresses import is_secure_or_loopback
from placet.protocol.versions import SPEC_VERSIONS

REFERENCE = "mcp"  # what the file knows these questions by; other agents of this user keep theirs there too
OPEN_AT_MOST = 50
SETTLE_WITHIN_S = 20.0  # from knowing that a question has ended to having read and verified its end
HEARTBEAT_S = 10.0
RECENT = 5

OnNotice = Callable[[Notice | None], Awaitable[None]]
IsRead = Callable[[], Awaitable[bool]]


class Followed:
    """One question that this process follows, and what was heard of it."""

    def __init__(self, task: "asyncio.Task[Outcome]") -> None:
        self.task = task
        self.notices: list[Notice] = []
        self.status = "pending"
        self._changed = asyncio.Event()
        self._errands: set[asyncio.Task[None]] = set()
        task.add_done_callback(self._ended)

    def heard(self, notice: Notice) -> None:
        """Take note, and wake whoever waits."""
        if notice.name in ("opened", "in_progress"):
            self.status = notice.name
            self.notices.append(notice)
        self._wake()

    async def change(self, seconds: float) -> None:
        """Until something happens, or this long."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._changed.wait(), seconds)

    def when_ended(self, errand: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Do something once the question has ended, unless following it is broken off before."""

        def run(task: "asyncio.Task[Outcome]") -> None:
            if not task.cancelled():
                running = asyncio.create_task(errand())
                self._errands.add(running)
                running.add_done_callback(self._errands.discard)

        self.task.add_done_callback(run)

    def _ended(self, task: "asyncio.Task[Outcome]") -> None:
        if not task.cancelled():
            task.exception()  # whoever waits gets it; nobody may be waiting
        self._wake()

    def _wake(self) -> None:
        woken, self._changed = self._changed, asyncio.Event()
        woken.set()


class Questions:
    """Everything an assistant may do about its questions; raises PlacetError for what cannot be done."""

    def __init__(
        self,
        *,
        server: str,
        key: str,
        cases: PendingCases,
        trusted: Iterable[str] = (),
        messengers: Messengers | None = None,
        open_at_most: int = OPEN_AT_MOST,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        if not is_secure_or_loopback(server):
            raise SettingsError(
                "The server's address must be https://… or on loopback: a key travels with it."
            )
        if not (key and key.isascii() and key.isprintable()):
            raise SettingsError("This is not a key of a Placet server.")
        self._server = server.rstrip("/")
        self._cases = cases
        self._trusted = tuple(trusted)
        self._messengers = messengers
        self._open_at_most = open_at_most
        self.now = clock
        self._credentials = {"authorization": f"Bearer {key}"}
        self._http = httpx.AsyncClient(
            timeout=TIMEOUT, follow_redirects=False, headers={"User-Agent": USER_AGENT}
        )
        self._agent = AsyncAgent(tell=self._heard, trusted=self._trusted)
        self._followed: dict[str, Followed] = {}
        # Handed out, but a client may have stopped listening by then: it can still be seen.
        self.recent: deque[tuple[PendingCase, Outcome]] = deque(maxlen=RECENT)

    async def open(self, draft: dict[str, Any]) -> PendingCase:
        """Put a question before a person; it is kept before anybody can see its link."""
        if len(await self.kept()) >= self._open_at_most:
            raise ValidationFailed(
                f"{self._open_at_most} questions are open already. Read their answers or withdraw some first."
            )
        if self._messengers is not None and self._messengers.has_buttons:
            draft = {**draft, **_pressable(draft)}
        response = await self._opened(draft)
        case = read_case(response.status_code, response.content, url=str(response.url), now=self.now())
        if case is None:
            raise _refusal(response)
        Trust(case.service_url, self._trusted).check(case)
        pending = PendingCase(case=case, credentials=self._credentials, reference=REFERENCE)
        await asyncio.to_thread(self._cases.add, pending)
        if self._messengers is not None:
            with suppress(PlacetError):  # it has been logged, and the client gets the link instead
                await self._messengers.tell(Notice(name="told", case=case))
                await self.mark_told(pending)
        return pending

    async def is_in_messenger(self, pending: PendingCase) -> bool:
        """Whether the person has been asked in a messenger."""
        return bool(await asyncio.to_thread(self._cases.tickets, pending.case))

    async def send_again(self, pending: PendingCase) -> None:
        """Send the link to the person's messenger once more."""
        if self._messengers is not None:
            await self._messengers.tell(Notice(name="reminder", case=pending.case))

    async def kept(self) -> list[PendingCase]:
        """The questions whose end the assistant has not seen, the most urgent first."""
        listed = await asyncio.to_thread(self._cases.all)
        return [replace(one, credentials=self._credentials) for one in listed if self._is_ours(one)]

    async def mark_told(self, pending: PendingCase) -> None:
        """Note that the person has the link, or that it was handed to the assistant for them."""
        if not pending.told:
            await asyncio.to_thread(self._cases.mark_told, pending.case)

    async def find(self, case_id: str) -> PendingCase:
        """A question by its id, kept here or known to the server; raises ServerRefused for any other."""
        for one in await self.kept():
            if one.case.case_id == case_id:
                return one
        return await self._of_server(case_id)

    async def look(self, pending: PendingCase) -> Standing | None:
        """Where a question stands right now; None if the server has been asked too often."""
        try:
            response = await self._call("GET", pending.case.poll_url)
        except ServerRefused as refused:
            if refused.status == 429:
                return None
            if refused.status == 404:
                await self._forget(pending.case)
            raise
        standing = read_standing(response.content, case_id=pending.case.case_id)
        if standing.status in TERMINAL:
            self._agent.nudge(pending.case.case_id)
        elif (followed := self._followed.get(pending.case.case_id)) is not None:
            followed.status = standing.status
        return standing

    def follow(self, pending: PendingCase) -> Followed:
        """Follow a question in the background until it ends; once, however many wait for it."""
        case_id = pending.case.case_id
        if case_id not in self._followed:
            task = asyncio.create_task(self._agent.follow_case(replace(pending, told=True)))
            self._followed[case_id] = Followed(task)
        return self._followed[case_id]

    async def wait(
        self, pending: PendingCase, seconds: float, on_notice: OnNotice, is_read: IsRead | None = None
    ) -> Outcome | None:
        """How the question ended, or None if it has not by then; an end is handed out once, and forgotten.

        If `is_read` says that nobody reads it any more, it is not: it stays for one who comes later.
        `on_notice` gets what happens meanwhile, and None at once, and now and then while nothing does.
        """
        followed = self.follow(pending)
        await self._watch(followed, seconds, on_notice)
        if not followed.task.done() or (is_read is not None and not await is_read()):
            return None
        self._followed.pop(pending.case.case_id, None)
        try:
            outcome = followed.task.result()
        except CaseLost:
            await self._forget(pending.case)
            raise
        await self._forget(pending.case)
        self.recent.append((pending, outcome))
        return outcome

    async def withdraw(self, pending: PendingCase, reason: str) -> Outcome:
        """Withdraw a question; what comes back is how it ended, also if somebody was faster."""
        url = f"{self._server}/v1/reviews/{quote(pending.case.case_id, safe='')}/cancel"
        try:
            await self._call("POST", url, {"reason": reason or None})
        except ServerRefused as refused:
            if refused.status not in (409, 410):
                raise
        self._agent.nudge(pending.case.case_id)
        outcome = await self.wait(pending, SETTLE_WITHIN_S, _ignore)
        if outcome is None:
            raise Unavailable("The server does not say how the question ended. Check it again later.")
        return outcome

    async def aclose(self) -> None:
        """Stop following; what is kept stays kept."""
        tasks = [followed.task for followed in self._followed.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._messengers is not None:
            await self._messengers.aclose()
        await self._agent.aclose()
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        if self._messengers is not None:
            self._messengers.listen(self._agent.nudge)
            for pending in await self.kept():  # their messages are brought up to date when they end
                self.follow(pending)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    # Inside

    async def _heard(self, notice: Notice) -> None:
        if (followed := self._followed.get(notice.case.case_id)) is not None:
            followed.heard(notice)
        if self._messengers is not None:
            with suppress(PlacetError):
                await self._messengers.tell(notice)

    async def _watch(self, followed: Followed, seconds: float, on_notice: OnNotice) -> None:
        loop = asyncio.get_running_loop()
        until, seen = loop.time() + seconds, len(followed.notices)
        if seconds > 0 and not followed.task.done():
            await on_notice(None)
        while not followed.task.done() and (left := until - loop.time()) > 0:
            await followed.change(min(left, HEARTBEAT_S))
            fresh, seen = followed.notices[seen:], len(followed.notices)
            for notice in fresh or (None,):
                await on_notice(notice)

    async def _opened(self, draft: dict[str, Any]) -> httpx.Response:
        """Tried twice under one name, so that an answer which got lost does not make two questions of one."""
        url, name = f"{self._server}/v1/cases", secrets.token_urlsafe(16)
        try:
            return await self._call("POST", url, draft, name=name)
        except Unreachable:
            return await self._call("POST", url, draft, name=name)

    async def _forget(self, case: FollowedCase) -> None:
        await asyncio.to_thread(self._cases.remove, case)

    def _is_ours(self, pending: PendingCase) -> bool:
        return pending.reference == REFERENCE and origin(pending.case.service_url) == origin(self._server)

    async def _of_server(self, case_id: str) -> PendingCase:
        """A question whose link is not known here: its end can be read, and it can be withdrawn."""
        url = f"{self._server}/v1/reviews/{quote(case_id, safe='')}/status"
        await self._call("GET", url)
        now = self.now()
        case = FollowedCase(
            case_id=case_id,
            type="",
            prompt="",
            message="",
            review_url=self._server,
            poll_url=url,
            service_url=self._server,
            expires_at=now + timedelta(days=1),
            created_at=now,
            spec_version=SPEC_VERSIONS[-1],
        )
        return PendingCase(case=case, credentials=self._credentials, told=True)

    async def _call(
        self, method: str, url: str, body: dict[str, Any] | None = None, *, name: str | None = None
    ) -> httpx.Response:
        headers = {**self._credentials, "Content-Type": "application/json"}
        if name is not None:
            headers["Idempotency-Key"] = name
        content = _encoded(body) if body is not None else None
        try:
            response = await self._http.request(method, url, headers=headers, content=content)
        except httpx.HTTPError as error:
            raise Unreachable(f"The Placet server at {self._server} cannot be reached.") from error
        if response.status_code >= 300:
            raise _refusal(response)
        return response


def _pressable(draft: dict[str, Any]) -> dict[str, Any]:
    """The actions that a button may take; a word to be typed cannot be pressed."""
    typed = {"confirm"} if "confirm_word" in draft.get("context", {}) else set()
    actions = [one for one in ACTIONS[draft["type"]] if one in PRESSABLE - typed]
    return {"inline_actions": actions} if actions else {}


async def _ignore(notice: Notice | None) -> None:
    """Nobody wants to know."""


def _encoded(body: dict[str, Any]) -> bytes:
    try:
        return msgspec.json.encode(body)
    except (UnicodeEncodeError, RecursionError, TypeError, ValueError):
        raise ValidationFailed("This cannot be sent: write plain Unicode, not too deeply nested.") from None


def _refusal(response: httpx.Response) -> PlacetError:
    """What the server had against it, in its own words."""
    try:
        body = msgspec.json.decode(response.content)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        body = None
    return ServerRefused(response.status_code, body if isinstance(body, dict) else {})
