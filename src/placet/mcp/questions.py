"""The questions of an assistant: opened on a Placet server, stored in a file, followed until they end.

This module is independent of MCP. A question stays in the file until its outcome was returned to the
assistant, so that neither a restart nor an interrupted call loses an answer.
"""

import asyncio
import secrets
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, Self

import httpx
import msgspec
from msgspec import Struct
from msgspec.structs import replace

from placet.agent import AsyncAgent, FollowedCase, Notice, Outcome, PendingCase, PendingCases, read_case
from placet.agent.responses import TIMEOUT, USER_AGENT
from placet.agent.service_responses import PollResult, read_poll_result
from placet.agent.trust import TrustedOrigins, parse_origin
from placet.client import TERMINAL
from placet.errors import (
    CaseLost,
    PlacetError,
    ServerRefused,
    SettingsError,
    Unavailable,
    Unreachable,
    UnreadableAnswer,
    ValidationFailed,
)
from placet.http.client_operations import CANCEL_CASE, LIST_CASES, OPEN_CASE, POLL_CASE
from placet.mcp.messengers import Messengers
from placet.protocol.addresses import is_secure_or_loopback
from placet.protocol.versions import SPEC_VERSIONS
from placet.reviews.registry import find_declaration, list_clear_affirmative_actions

REFERENCE = "mcp"  # marks these questions in the file, which other agents of this user share
MAX_OPEN_QUESTIONS = 50
OUTCOME_TIMEOUT_S = 20.0  # to fetch and verify the outcome of a question that has ended
HEARTBEAT_S = 10.0
RECENT = 5

OnNotice = Callable[[Notice | None], Awaitable[None]]
IsConnected = Callable[[], Awaitable[bool]]


class QuestionFollower:
    """Follows one question and collects its notices."""

    def __init__(self, task: "asyncio.Task[Outcome]") -> None:
        self.task = task
        self.notices: list[Notice] = []
        self.status = "pending"
        self._changed = asyncio.Event()
        self._callbacks: set[asyncio.Task[None]] = set()
        task.add_done_callback(self._handle_end)

    def record(self, notice: Notice) -> None:
        """Store a notice and wake the waiting calls."""
        if notice.name in ("opened", "in_progress"):
            self.status = notice.name
            self.notices.append(notice)
        self._wake()

    def update_status(self, status: str) -> None:
        """Set the status that a poll returned."""
        self.status = status

    async def wait_for_change(self, seconds: float) -> None:
        """Wait for the next notice, at most this many seconds."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._changed.wait(), seconds)

    def on_end(self, callback: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run a callback when the question ends, unless following is cancelled before."""

        def run(task: "asyncio.Task[Outcome]") -> None:
            if not task.cancelled():
                running = asyncio.create_task(callback())
                self._callbacks.add(running)
                running.add_done_callback(self._callbacks.discard)

        self.task.add_done_callback(run)

    def _handle_end(self, task: "asyncio.Task[Outcome]") -> None:
        if not task.cancelled():
            task.exception()  # marks it as retrieved: nobody may be waiting
        self._wake()

    def _wake(self) -> None:
        woken, self._changed = self._changed, asyncio.Event()
        woken.set()


class _ListedPoll(Struct, frozen=True):
    case_id: str


class _ListedCase(Struct, frozen=True):
    type: str
    poll: _ListedPoll


class _ListedCases(Struct, frozen=True):
    cases: tuple[_ListedCase, ...]


class Questions:
    """What an assistant can do with its questions. Raises PlacetError on failure."""

    def __init__(
        self,
        *,
        server: str,
        key: str,
        cases: PendingCases,
        trusted: Iterable[str] = (),
        messengers: Messengers | None = None,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        if not is_secure_or_loopback(server):
            raise SettingsError(
                "The server's URL must start with https:// or be on this machine: it receives the API key."
            )
        if not (key and key.isascii() and key.isprintable()):
            raise SettingsError("The API key is empty or contains invalid characters.")
        self._server = server.rstrip("/")
        self._cases = cases
        self._trusted = tuple(trusted)
        self._messengers = messengers
        self.now = clock
        self._credentials = {"authorization": f"Bearer {key}"}
        self._http = httpx.AsyncClient(
            timeout=TIMEOUT, follow_redirects=False, headers={"User-Agent": USER_AGENT}
        )
        self._agent = AsyncAgent(tell=self._handle_notice, trusted=self._trusted)
        self._followed: dict[str, QuestionFollower] = {}
        # Outcomes that were returned: the client may have disconnected before it read them.
        self.recent: deque[tuple[PendingCase, Outcome]] = deque(maxlen=RECENT)

    async def open(self, draft: dict[str, Any]) -> PendingCase:
        """Open a question; it is stored before anybody can see its link."""
        if len(await self.list_unread()) >= MAX_OPEN_QUESTIONS:
            raise ValidationFailed(
                f"{MAX_OPEN_QUESTIONS} questions are open already. Read their answers or withdraw some first."
            )
        if self._messengers is not None and self._messengers.has_buttons:
            draft = {**draft, **_list_inline_actions(draft)}
        response = await self._open_case(draft)
        case = read_case(response.status_code, response.content, url=str(response.url), now=self.now())
        if case is None:
            raise _error_from_response(response)
        TrustedOrigins(case.service_url, self._trusted).check(case)
        pending = PendingCase(case=case, credentials=self._credentials, reference=REFERENCE)
        await asyncio.to_thread(self._cases.add, pending)
        if self._messengers is not None:
            with suppress(PlacetError):  # logged by the messengers; the client gets the link instead
                await self._messengers.tell(Notice(name="requested", case=case))
                await self.mark_notified(pending)
        return pending

    async def is_in_messenger(self, pending: PendingCase) -> bool:
        """Return whether the question was sent to a messenger."""
        return bool(await asyncio.to_thread(self._cases.list_messages, pending.case))

    async def send_again(self, pending: PendingCase) -> None:
        """Send the link to the person's messenger again."""
        if self._messengers is not None:
            await self._messengers.tell(Notice(name="reminder", case=pending.case))

    async def list_unread(self) -> list[PendingCase]:
        """List the questions whose outcome the assistant has not read, the most urgent first."""
        listed = await asyncio.to_thread(self._cases.list_pending)
        return [replace(one, credentials=self._credentials) for one in listed if self._is_ours(one)]

    async def mark_notified(self, pending: PendingCase) -> None:
        """Record that the person has the link, or that the assistant got it for them."""
        if not pending.is_notified:
            await asyncio.to_thread(self._cases.mark_notified, pending.case)

    async def find(self, case_id: str) -> PendingCase:
        """Return a question by its id, from the file or the server; raise ServerRefused if unknown."""
        for one in await self.list_unread():
            if one.case.case_id == case_id:
                return one
        return await self._find_on_server(case_id)

    async def fetch_status(self, pending: PendingCase) -> PollResult | None:
        """Return the current status of a question, or None if the server is rate limiting."""
        try:
            response = await self._call("GET", pending.case.poll_url)
        except ServerRefused as refused:
            if refused.status == 429:
                return None
            if refused.status == 404:
                await self._forget(pending.case)
            raise
        poll_result = read_poll_result(response.content, case_id=pending.case.case_id)
        if poll_result.status in TERMINAL:
            self._agent.nudge(pending.case.case_id)
        elif (followed := self._followed.get(pending.case.case_id)) is not None:
            followed.update_status(poll_result.status)
        return poll_result

    def follow(self, pending: PendingCase) -> QuestionFollower:
        """Follow a question in the background until it ends; all calls share one follower."""
        case_id = pending.case.case_id
        if case_id not in self._followed:
            task = asyncio.create_task(self._agent.follow_case(replace(pending, is_notified=True)))
            self._followed[case_id] = QuestionFollower(task)
        return self._followed[case_id]

    async def wait(
        self,
        pending: PendingCase,
        seconds: float,
        on_notice: OnNotice,
        is_connected: IsConnected | None = None,
    ) -> Outcome | None:
        """Return how the question ended, or None if it is still open after `seconds`.

        An outcome is returned once and then removed from the file, unless `is_connected` says that the
        client has gone: then it stays for a later call. `on_notice` gets every notice, and None at the
        start and as a heartbeat.
        """
        followed = self.follow(pending)
        await self._watch(followed, seconds, on_notice)
        if not followed.task.done() or (is_connected is not None and not await is_connected()):
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
        """Withdraw a question and return its outcome: an answer, if a reviewer answered first."""
        url = CANCEL_CASE.url(self._server, case_id=pending.case.case_id)
        try:
            await self._call(CANCEL_CASE.method, url, {"reason": reason or None})
        except ServerRefused as refused:
            if refused.status not in (409, 410):
                raise
        self._agent.nudge(pending.case.case_id)
        outcome = await self.wait(pending, OUTCOME_TIMEOUT_S, _ignore)
        if outcome is None:
            raise Unavailable("The server does not report how the question ended. Check it again later.")
        return outcome

    async def aclose(self) -> None:
        """Stop following; unread questions stay in the file."""
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
            for pending in await self.list_unread():  # their messages are updated when they end
                self.follow(pending)
        return self

    async def __aexit__(self, *raised: object) -> None:
        await self.aclose()

    async def _handle_notice(self, notice: Notice) -> None:
        if (followed := self._followed.get(notice.case.case_id)) is not None:
            followed.record(notice)
        if self._messengers is not None:
            with suppress(PlacetError):
                await self._messengers.tell(notice)

    async def _watch(self, followed: QuestionFollower, seconds: float, on_notice: OnNotice) -> None:
        loop = asyncio.get_running_loop()
        until, seen = loop.time() + seconds, len(followed.notices)
        if seconds > 0 and not followed.task.done():
            await on_notice(None)
        while not followed.task.done() and (left := until - loop.time()) > 0:
            await followed.wait_for_change(min(left, HEARTBEAT_S))
            fresh, seen = followed.notices[seen:], len(followed.notices)
            for notice in fresh or (None,):
                await on_notice(notice)

    async def _open_case(self, draft: dict[str, Any]) -> httpx.Response:
        """Create a case; retry once with the same Idempotency-Key if the response was lost."""
        open_case = partial(
            self._call, OPEN_CASE.method, OPEN_CASE.url(self._server), draft, name=secrets.token_urlsafe(16)
        )
        try:
            return await open_case()
        except Unreachable:
            return await open_case()

    async def _forget(self, case: FollowedCase) -> None:
        await asyncio.to_thread(self._cases.remove, case)

    def _is_ours(self, pending: PendingCase) -> bool:
        return pending.reference == REFERENCE and parse_origin(pending.case.service_url) == parse_origin(
            self._server
        )

    async def _find_on_server(self, case_id: str) -> PendingCase:
        """Return a question that is not in the file: it can be followed and withdrawn, without its link."""
        url = POLL_CASE.url(self._server, case_id=case_id)
        await self._call(POLL_CASE.method, url)
        type = await self._find_type(case_id)
        now = self.now()
        case = FollowedCase(
            case_id=case_id,
            type=type,
            prompt="",
            message="",
            review_url=self._server,
            poll_url=url,
            service_url=self._server,
            expires_at=now + timedelta(days=1),
            created_at=now,
            spec_version=SPEC_VERSIONS[-1],
            affirmative_actions=() if type else list_clear_affirmative_actions(),
        )
        return PendingCase(case=case, credentials=self._credentials, is_notified=True)

    async def _find_type(self, case_id: str) -> str:
        """Return the type of a case, which polls do not report; empty if the case is another principal's."""
        url = httpx.URL(LIST_CASES.url(self._server), params={"chain": case_id})
        try:
            response = await self._call(LIST_CASES.method, str(url))
        except ServerRefused as refused:
            if refused.status == 404:
                return ""
            raise
        try:
            listed = msgspec.json.decode(response.content, type=_ListedCases)
        except (msgspec.DecodeError, UnicodeDecodeError):
            raise UnreadableAnswer("The server's list of cases cannot be read.") from None
        return next((one.type for one in listed.cases if one.poll.case_id == case_id), "")

    async def _call(
        self, method: str, url: str, body: dict[str, Any] | None = None, *, name: str | None = None
    ) -> httpx.Response:
        headers = {**self._credentials, "Content-Type": "application/json"}
        if name is not None:
            headers["Idempotency-Key"] = name
        content = _encode(body) if body is not None else None
        try:
            response = await self._http.request(method, url, headers=headers, content=content)
        except httpx.HTTPError as error:
            raise Unreachable(f"The Placet server at {self._server} cannot be reached.") from error
        if response.status_code >= 300:
            raise _error_from_response(response)
        return response


def _list_inline_actions(draft: dict[str, Any]) -> dict[str, Any]:
    """Return the actions that a button may take, as a part of the draft."""
    declared = find_declaration(draft["type"])
    actions = declared.pressable_actions(draft.get("context", {})) if declared is not None else ()
    return {"inline_actions": list(actions)} if actions else {}


async def _ignore(notice: Notice | None) -> None:
    """Ignore a notice."""


def _encode(body: dict[str, Any]) -> bytes:
    try:
        return msgspec.json.encode(body)
    except (UnicodeEncodeError, RecursionError, TypeError, ValueError):
        raise ValidationFailed(
            "The question cannot be encoded as JSON: use valid Unicode and less nesting."
        ) from None


def _error_from_response(response: httpx.Response) -> PlacetError:
    """Return the server's error as an exception."""
    try:
        body = msgspec.json.decode(response.content)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        body = None
    return ServerRefused.of(response.status_code, body if isinstance(body, dict) else {})
