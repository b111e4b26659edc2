"""Where reviewers decide stopped calls: each interruption opens one case, whose outcome is polled.

An agent may die while its case is open. Any process with the agent's saver can ask again: the case is found
by the interruption's id, and is opened only once.
"""

import json
import logging
from collections.abc import Awaitable, Mapping, Sequence
from typing import Any, Protocol

from placet.client import PlacetClient
from placet.errors import (
    BadRequest,
    CaseNotOpened,
    PlacetError,
    RequestError,
    ServerRefused,
    Unavailable,
    ValidationFailed,
)
from placet.hook.argument_checks import refuse, require_methods, require_text
from placet.hook.case_outcome import CaseOutcome, read_case_outcome
from placet.hook.interruption import InterruptionMetadata
from placet.protocol.duration import parse_duration
from placet.reviews.tool_calls.declaration import TOOL_CALLS
from placet.text.truncation import truncate

logger = logging.getLogger(__name__)
CaseReference = Mapping[str, Any]
"""The stored members of a case: `case_id`, `review_url`, `expires_at`."""
_CASE_MEMBERS = ("case_id", "review_url", "expires_at")
_ENDED_STATUSES = frozenset({404, 409, 410})
"""Responses to a withdrawal that comes too late."""
_RATE_LIMITED = 429
_NO_RECEIPT_STATUSES = frozenset({400, 404, 405, 410, 413, 422})
"""Responses to receipts that the case will never take."""
_REFUSED_STATUSES = frozenset({400, 413, 422})
"""Responses to a case that the server will never accept."""
_PROMPT_CHARACTERS = 500


class Reviews(Protocol):
    """Opens cases for interruptions and returns their outcomes; each method may be async."""

    def open_case(
        self, interruption: InterruptionMetadata, *, agent: str, attempt: int = 0
    ) -> CaseReference | Awaitable[CaseReference]:
        """Open the case; the same interruption and attempt always return the same one.

        Raises CaseNotOpened if it can never be opened; any other error means that it may work later.
        """
        ...

    def poll_case(self, case: CaseReference) -> CaseOutcome | Awaitable[CaseOutcome | None] | None:
        """Return the outcome of the case, or None while it is open.

        Raises on failure; that is no decision.
        """
        ...

    def withdraw(self, case: CaseReference, reason: str) -> Awaitable[None] | None:
        """Withdraw the case, because its decision is not needed any more. An ended case stays as it is."""
        ...


class ServerReviews:
    """Cases on a Placet server. `fields` go into every case: callback_url, reminder_at, inline_actions …"""

    def __init__(self, client: PlacetClient, *, timeout: str = "24h", **fields: Any) -> None:
        require_methods("client", client, ["open", "status", "cancel"], "a PlacetClient")
        _require_timeout(timeout)
        self._client = client
        self._timeout = timeout
        self._fields = fields

    def open_case(self, interruption: InterruptionMetadata, *, agent: str, attempt: int = 0) -> CaseReference:
        """Open the case, once for each interruption and attempt."""
        asked = build_case_request(interruption, agent=agent, timeout=self._timeout, attempt=attempt)
        try:
            opened = self._client.open(**asked, **self._fields)
            return {name: opened["hitl"][name] for name in _CASE_MEMBERS}
        except ServerRefused as refused:
            if refused.status not in _REFUSED_STATUSES:
                raise
            raise _case_not_opened_error(interruption, refused) from refused
        except (LookupError, TypeError, ValueError) as error:
            raise Unavailable(f"The case could not be opened: {error!r}.") from error

    def poll_case(self, case: CaseReference) -> CaseOutcome | None:
        """Return the outcome of the case, or None while it is open or the poll is rate-limited."""
        try:
            return read_case_outcome(self._client.status(case["case_id"]))
        except ServerRefused as refused:
            if refused.status != _RATE_LIMITED:
                raise
            return None  # only polls of open cases are limited, so this case is open

    def withdraw(self, case: CaseReference, reason: str) -> None:
        """Withdraw the case, unless it has ended."""
        try:
            self._client.cancel(case["case_id"], reason=reason)
        except ServerRefused as refused:
            if refused.status not in _ENDED_STATUSES:
                raise

    def wait_for_case(self, case: CaseReference, at_most: float) -> None:
        """Return when the case has closed, as its event stream says, or after `at_most` seconds."""
        self._client.wait_for_end(case["case_id"], at_most=at_most)

    def report_calls(self, case: CaseReference, receipts: Sequence[Mapping[str, str]]) -> None:
        """Report what became of the calls of a case, unless it will never take receipts."""
        try:
            self._client.report_calls(case["case_id"], receipts)
        except ServerRefused as refused:
            if refused.status not in _NO_RECEIPT_STATUSES:
                raise
            logger.info("receipt_refused case=%s error=%s", case["case_id"], refused)


class EmbeddedCases(Protocol):
    """The part of `placet.Placet` that EmbeddedReviews uses."""

    async def ask(self, type: str, prompt: str, **fields: Any) -> Any:
        """Open a case and return the 202 response."""
        ...

    async def status(self, case_id: str) -> Any:
        """Return the status of the case."""
        ...

    async def cancel(self, case_id: str, *, reason: str | None = None) -> Any:
        """Withdraw the case."""
        ...

    async def wait_for_end(self, case_id: str, *, at_most: float) -> bool:
        """Return whether the case closed within this many seconds."""
        ...

    async def report_calls(self, case_id: str, receipts: Sequence[Mapping[str, str]]) -> Any:
        """Record what became of the calls of the case."""
        ...


class EmbeddedReviews:
    """Cases of a Placet embedded in this process; for agents on the same event loop."""

    def __init__(self, placet: EmbeddedCases, *, timeout: str = "24h", **fields: Any) -> None:
        require_methods("placet", placet, ["ask", "status", "cancel"], "a Placet")
        _require_timeout(timeout)
        self._placet = placet
        self._timeout = timeout
        self._fields = fields

    async def open_case(
        self, interruption: InterruptionMetadata, *, agent: str, attempt: int = 0
    ) -> CaseReference:
        """Open the case, once for each interruption and attempt."""
        asked = build_case_request(interruption, agent=agent, timeout=self._timeout, attempt=attempt)
        try:
            answer = await self._placet.ask(**asked, **self._fields)
        except BadRequest as refused:
            raise _case_not_opened_error(interruption, refused) from refused
        opened = json.loads(answer.body)
        return {name: opened["hitl"][name] for name in _CASE_MEMBERS}

    async def poll_case(self, case: CaseReference) -> CaseOutcome | None:
        """Return the outcome of the case, or None while it is open."""
        import msgspec

        return read_case_outcome(msgspec.to_builtins(await self._placet.status(case["case_id"])))

    async def withdraw(self, case: CaseReference, reason: str) -> None:
        """Withdraw the case, unless it has ended."""
        try:
            await self._placet.cancel(case["case_id"], reason=reason)
        except RequestError as refused:
            if refused.status not in _ENDED_STATUSES:
                raise

    async def wait_for_case(self, case: CaseReference, at_most: float) -> None:
        """Return when the case has closed, or after `at_most` seconds."""
        await self._placet.wait_for_end(case["case_id"], at_most=at_most)

    async def report_calls(self, case: CaseReference, receipts: Sequence[Mapping[str, str]]) -> None:
        """Report what became of the calls of a case, unless it will never take receipts."""
        try:
            await self._placet.report_calls(case["case_id"], receipts)
        except RequestError as refused:
            if refused.status not in _NO_RECEIPT_STATUSES:
                raise
            logger.info("receipt_refused case=%s error=%s", case["case_id"], refused)


def _require_timeout(timeout: str) -> None:
    """Raise ValueError unless the timeout is a duration, as a case takes it."""
    expected = "a duration as text, such as 30m or 24h"
    require_text("timeout", timeout, expected)
    try:
        parse_duration(timeout)
    except ValidationFailed:
        refuse("timeout", expected, timeout)


def _case_not_opened_error(interruption: InterruptionMetadata, refused: PlacetError) -> CaseNotOpened:
    said = f"No case can be opened for these calls: {refused.message} They wait; answer them in code."
    return CaseNotOpened(said, waiting=interruption, interruption=interruption.id)


def build_case_request(
    interruption: InterruptionMetadata, *, agent: str, timeout: str, attempt: int
) -> dict[str, Any]:
    """Return the case for an interruption, as `POST /v1/cases` takes it."""
    calls = [waiting.to_dict() for waiting in interruption.undecided]
    if interruption.expires_at is not None:
        timeout = f"{max(1, round((interruption.expires_at - interruption.created_at).total_seconds()))}s"
    names = ", ".join(dict.fromkeys(call["name"] for call in calls))
    prompt = f"{agent} wants to call {names}"
    return {
        "type": TOOL_CALLS.type,
        "prompt": truncate(prompt, _PROMPT_CHARACTERS),
        "timeout": timeout,
        "default_action": "reject",
        "agent": agent[:200],
        "context": {
            "tool_calls": calls,
            "agent": agent,
            "automatic": [call.to_dict() for call in interruption.tools_automatically_approved],
            "thread_id": interruption.thread_id,
            "interruption": {"id": interruption.id, "digest": interruption.digest},
        },
        "idempotency_key": f"{interruption.id}-{attempt}",
    }
