"""Connect an agent's cases to a messenger: send the link, submit button presses, update the messages.

The platform authenticates who pressed a button. That user must be one of `answerers`; by default nobody is.
The answer is sent to the service with the case's submit token, which the messenger never sees.
"""

import asyncio
import hashlib
import json
import logging
import secrets
from collections.abc import Awaitable, Callable, Iterable
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

import httpx

from placet.agent.flow import Notice
from placet.agent.outcomes import Cancelled, Decided, Outcome
from placet.agent.pending_case_store import ButtonAudience, PendingCase, PendingCases
from placet.agent.responses import SUBMIT_TIMEOUT_S, TIMEOUT, USER_AGENT, build_slow_response_error
from placet.agent.service_responses import FollowedCase, parse_time
from placet.channels.card_building import build_case_card
from placet.channels.interaction_handler import (
    MAX_REMEMBERED,
    MAYBE_NOT_RECORDED,
    NOT_AN_ANSWERER,
    NOT_RECORDED,
    QUESTION_CLOSED,
    REPLIES,
    InteractionHandler,
)
from placet.errors import CaseNotSaved, PlacetError, SettingsError, Unreachable
from placet.ports.channel import (
    Card,
    CaseClosure,
    Channel,
    Interaction,
    SentMessage,
    WebhookRequest,
    WebhookResult,
)

REFERENCE_BYTES = 16
UPDATE_RETRY_DELAYS_S = (1.0, 4.0)

log = logging.getLogger("placet.agent")


class ChannelBridge:
    """One messenger for an agent's cases. Pass `tell` to an `AsyncAgent`, which calls it with every notice.

    `answerers` are the platform's ids of the users who may answer with a button; without any, messages have
    only the link. `nudge` is the agent's `nudge`, so that it polls as soon as somebody has answered.
    `submit_within_s` is how long a service may take to accept an answer before the person is told to check.
    """

    def __init__(
        self,
        channel: Channel,
        cases: PendingCases,
        *,
        answerers: Iterable[str] = (),
        nudge: Callable[[str], object] = lambda case_id: None,
        http: httpx.AsyncClient | None = None,
        submit_within_s: float = SUBMIT_TIMEOUT_S,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._channel = channel
        self._cases = cases
        self._answerers = _parse_ids(answerers)
        self.nudge = nudge
        self._http = http or httpx.AsyncClient(timeout=TIMEOUT, headers={"User-Agent": USER_AGENT})
        self._submit_within_s = submit_within_s
        self._sleep = sleep
        self._now = clock
        self._submits: dict[str, asyncio.Task[str]] = {}
        self._handler = InteractionHandler(channel, self._process)

    async def tell(self, notice: Notice) -> None:
        """Send the link, send a reminder, or update every message after the end of the case."""
        if notice.name in ("requested", "reminder"):
            await self._send(notice.case, is_reminder=notice.name == "reminder", round=notice.round)
        elif notice.name == "ended" and notice.outcome is not None:
            await self._update_messages(
                notice.case, build_closure(notice.outcome, self._now()), round=notice.round
            )

    async def handle_webhook(self, call: WebhookRequest) -> WebhookResult:
        """Handle a webhook request of the platform within its deadline, even if the service is slower.

        Raises SignatureInvalid unless the platform made the request.
        """
        return await self._handler.handle_webhook(call)

    async def listen(self) -> None:
        """Receive interactions without a public URL; runs until cancelled."""
        await self._handler.listen()

    async def handle_interaction(self, press: Interaction) -> None:
        """Submit one interaction to its service, and reply with the result to the user."""
        await self._handler.handle_interaction(press)

    async def aclose(self) -> None:
        """Finish the running submissions and close the connections."""
        await self._handler.finish()
        await self._http.aclose()
        await self._channel.aclose()

    async def _process(self, press: Interaction) -> str:
        """Check the user against the current answerers and those stored with the button, then submit."""
        who = press.user.user_id
        found = await asyncio.to_thread(self._cases.find_button, press.reference)
        if who not in self._answerers:
            is_for_them = found is not None and found.pressable and found.is_for(self._channel.name, who)
            return REPLIES[403] if is_for_them else NOT_AN_ANSWERER
        if found is None:
            return QUESTION_CLOSED
        if not found.is_for(self._channel.name, who):
            return NOT_AN_ANSWERER
        reply = await self._submit_once(found.pending, found.action, press)
        self.nudge(found.pending.case.case_id)
        return reply

    async def _submit_once(self, pending: PendingCase, action: str, press: Interaction) -> str:
        case, user = pending.case, press.user
        if case.submit_url is None:
            return REPLIES[403]
        submitted_by: dict[str, str] = {"platform": user.platform, "platform_user_id": user.user_id}
        if user.name:
            submitted_by["display_name"] = user.name[:500]
        body: dict[str, Any] = {"action": action, "submitted_via": press.via, "submitted_by": submitted_by}
        key = _build_idempotency_key(case, body)
        shared = self._submits.get(key)
        if shared is None:
            shared = self._submits[key] = self._handler.start_task(
                self._submit(case, case.submit_url, body, key)
            )
        return await asyncio.shield(shared)

    async def _submit(self, case: FollowedCase, url: str, body: dict[str, Any], key: str) -> str:
        """Submit an answer once, however often the person presses; some services reject a second one."""
        headers = {"Authorization": f"Bearer {case.submit_token}", "Idempotency-Key": key}
        reply = MAYBE_NOT_RECORDED
        try:
            status = await self._post_answer(url, body, headers)
            reply = REPLIES.get(status, MAYBE_NOT_RECORDED if status >= 500 else NOT_RECORDED)
        except httpx.ConnectError:
            reply = REPLIES[429].replace("Too many answers came at once", "The service cannot be reached")
        except httpx.HTTPError:
            pass
        finally:
            if reply != REPLIES[200] or len(self._submits) > MAX_REMEMBERED:
                del self._submits[key]
        return reply

    async def _post_answer(self, url: str, body: dict[str, Any], headers: dict[str, str]) -> int:
        """Send an answer and return the status code; the body is not read."""
        try:
            async with (
                asyncio.timeout(self._submit_within_s),
                self._http.stream("POST", url, json=body, headers=headers, follow_redirects=False) as answer,
            ):
                return answer.status_code
        except TimeoutError:
            raise build_slow_response_error() from None

    async def _send(self, case: FollowedCase, *, is_reminder: bool, round: int) -> None:
        references = {_create_reference(): action for action in self._list_button_actions(case)}
        pressable = ButtonAudience(channel=self._channel.name, answerers=tuple(self._answerers))
        await asyncio.to_thread(self._cases.add_buttons, case, references, pressable)
        card = build_card(case, references, is_reminder=is_reminder, round=round)
        message = await self._channel.send(card)
        try:
            await asyncio.to_thread(self._cases.add_message, case, message)
        except CaseNotSaved as error:  # the person has the message, but it will not be updated
            log.warning("message_not_saved error=%s", error.message)

    def _list_button_actions(self, case: FollowedCase) -> tuple[str, ...]:
        return case.pressable if self._answerers else ()

    async def _update_messages(self, case: FollowedCase, ended: CaseClosure, *, round: int) -> None:
        card = build_card(case, {}, round=round)
        messages = await asyncio.to_thread(self._cases.list_messages, case)
        # The file is shared by all messengers of an agent, and ids differ between platforms.
        breaks = list(UPDATE_RETRY_DELAYS_S)  # shared by all messages: the decision is delayed by these waits
        for message in (one for one in messages if one.channel == self._channel.name):
            try:
                await self._update_message(message, card, ended, breaks)
            except PlacetError as error:  # update the other messages nevertheless
                log.warning("message_update_failed error=%s", error.message)

    async def _update_message(
        self, message: SentMessage, card: Card, ended: CaseClosure, breaks: list[float]
    ) -> None:
        """Update one message; retry if the platform is unreachable."""
        while True:
            try:
                return await self._channel.mark_closed(message, card, ended)
            except Unreachable:
                if not breaks:
                    raise
            await self._sleep(breaks.pop(0))


def _parse_ids(answerers: Iterable[str]) -> frozenset[str]:
    """Return the ids without surrounding spaces and empty entries."""
    if isinstance(answerers, str):  # its letters would be treated as ids
        raise SettingsError("answerers must be a list of user ids, not one text.")
    return frozenset(filter(None, (one.strip() for one in answerers)))


def build_card(
    case: FollowedCase, references: dict[str, str], *, is_reminder: bool = False, round: int = 1
) -> Card:
    """Return the card of a case that an agent follows."""
    return build_case_card(
        type=case.type,
        prompt=case.prompt,
        message=case.message,
        context=case.context,
        review_url=case.review_url,
        expires_at=case.expires_at,
        default_action=case.default_action,
        host=urlsplit(case.service_url).hostname or "",
        principal=case.principal,
        declared_service=case.service_name,
        references=references,
        is_reminder=is_reminder,
        round=round,
    )


def build_closure(outcome: Outcome, now: datetime) -> CaseClosure:
    """Return how the case closed, at the time that the service reports."""
    at = parse_time(outcome.raw.get(f"{outcome.status}_at")) or now
    if isinstance(outcome, Decided):
        named = (outcome.responded_by or {}).get("name")
        by = named if isinstance(named, str) else None
        is_forged = outcome.verified is False
        return CaseClosure(how="decided", at=at, action=outcome.action, by=by, is_forged=is_forged)
    if isinstance(outcome, Cancelled):
        return CaseClosure(how="withdrawn", at=at, reason=outcome.reason)
    return CaseClosure(how="expired", at=at)


def _build_idempotency_key(case: FollowedCase, body: dict[str, Any]) -> str:
    """Return a key that is equal for equal answers of the same person, so that they count once."""
    said = json.dumps([case.case_id, body], sort_keys=True)
    return hashlib.sha256(said.encode()).hexdigest()


def _create_reference() -> str:
    return secrets.token_urlsafe(REFERENCE_BYTES)
