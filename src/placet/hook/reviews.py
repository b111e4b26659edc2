"""Where people decide stopped calls: each interruption becomes one case, and the case's answer comes back.

An agent may die while its case waits. Whoever has its saver asks again later: the case is found under the
interruption's id, and is opened once, however often it is asked for.
"""

import json
from collections.abc import Awaitable, Mapping
from typing import Any, Protocol

from placet.client import PlacetClient, ServerRefused
from placet.errors import BadRequest, NobodyAsked, PlacetError, RequestError, Unavailable
from placet.hook.case_outcome import CaseOutcome, read_case_outcome
from placet.hook.interruption import InterruptionMetadata
from placet.reviews.tool_calls.declaration import TOOL_CALLS
from placet.text.truncation import truncate

CaseReference = Mapping[str, Any]
"""What is kept of a case: `case_id`, `review_url`, `expires_at`."""
_CASE_MEMBERS = ("case_id", "review_url", "expires_at")
_ENDED_STATUSES = frozenset({404, 409, 410})
"""What a server answers to a withdrawal that comes too late."""
_RATE_LIMITED = 429
_REFUSED_STATUSES = frozenset({400, 413, 422})
"""What a server answers to a build_case_request that it will never take, however often it is asked."""
_PROMPT_CHARACTERS = 500


class Reviews(Protocol):
    """Opens cases for interruptions and says how they ended; each method may be async."""

    def ask(
        self, interruption: InterruptionMetadata, *, agent: str, attempt: int = 0
    ) -> CaseReference | Awaitable[CaseReference]:
        """Open the case; the same interruption and attempt always bring the same one.

        Raises NobodyAsked if that will never be possible; any other error means that it may be later.
        """
        ...

    def look(self, case: CaseReference) -> CaseOutcome | Awaitable[CaseOutcome | None] | None:
        """How the case ended, or None while it waits. Raises what went wrong; that is no answer."""
        ...

    def withdraw(self, case: CaseReference, reason: str) -> Awaitable[None] | None:
        """Nobody needs the answer any more. A case that has ended stays as it is."""
        ...


class ServerReviews:
    """Cases on a Placet server. `fields` go into every case: callback_url, reminder_at, inline_actions …"""

    def __init__(self, client: PlacetClient, *, timeout: str = "24h", **fields: Any) -> None:
        self._client = client
        self._timeout = timeout
        self._fields = fields

    def ask(self, interruption: InterruptionMetadata, *, agent: str, attempt: int = 0) -> CaseReference:
        """Open the case, once for each interruption and attempt."""
        asked = build_case_request(interruption, agent=agent, timeout=self._timeout, attempt=attempt)
        try:
            opened = self._client.open(**asked, **self._fields)
            return {name: opened["hitl"][name] for name in _CASE_MEMBERS}
        except ServerRefused as refused:
            if refused.status not in _REFUSED_STATUSES:
                raise
            raise _nobody_asked(interruption, refused) from refused
        except (LookupError, TypeError, ValueError) as error:
            raise Unavailable(f"The case could not be opened: {error!r}.") from error

    def look(self, case: CaseReference) -> CaseOutcome | None:
        """How the case ended, or None while it waits, or while the server asks for patience."""
        try:
            return read_case_outcome(self._client.status(case["case_id"]))
        except ServerRefused as refused:
            if refused.status != _RATE_LIMITED:
                raise
            return None  # only polls of open cases are counted: this one waits

    def withdraw(self, case: CaseReference, reason: str) -> None:
        """Withdraw the case, unless it has ended."""
        try:
            self._client.cancel(case["case_id"], reason=reason)
        except ServerRefused as refused:
            if refused.status not in _ENDED_STATUSES:
                raise


class EmbeddedCases(Protocol):
    """What `placet.Placet` offers for questions of its own house."""

    async def ask(self, type: str, prompt: str, **fields: Any) -> Any:
        """The 202."""
        ...

    async def status(self, case_id: str) -> Any:
        """Where the case stands."""
        ...

    async def cancel(self, case_id: str, *, reason: str | None = None) -> Any:
        """Withdraw it."""
        ...


class EmbeddedReviews:
    """Cases of the Placet that runs in this very process; for agents on the same event loop."""

    def __init__(self, placet: EmbeddedCases, *, timeout: str = "24h", **fields: Any) -> None:
        self._placet = placet
        self._timeout = timeout
        self._fields = fields

    async def ask(self, interruption: InterruptionMetadata, *, agent: str, attempt: int = 0) -> CaseReference:
        """Open the case, once for each interruption and attempt."""
        asked = build_case_request(interruption, agent=agent, timeout=self._timeout, attempt=attempt)
        try:
            answer = await self._placet.ask(**asked, **self._fields)
        except BadRequest as refused:
            raise _nobody_asked(interruption, refused) from refused
        opened = json.loads(answer.body)
        return {name: opened["hitl"][name] for name in _CASE_MEMBERS}

    async def look(self, case: CaseReference) -> CaseOutcome | None:
        """How the case ended, or None while it waits."""
        import msgspec

        return read_case_outcome(msgspec.to_builtins(await self._placet.status(case["case_id"])))

    async def withdraw(self, case: CaseReference, reason: str) -> None:
        """Withdraw the case, unless it has ended."""
        try:
            await self._placet.cancel(case["case_id"], reason=reason)
        except RequestError as refused:
            if refused.status not in _ENDED_STATUSES:
                raise


def _nobody_asked(interruption: InterruptionMetadata, refused: PlacetError) -> NobodyAsked:
    said = f"No case can be opened for these calls: {refused.message} They wait, and can be answered in code."
    return NobodyAsked(said, waiting=interruption, interruption=interruption.id)


def build_case_request(
    interruption: InterruptionMetadata, *, agent: str, timeout: str, attempt: int
) -> dict[str, Any]:
    """The case for an interruption, as `POST /v1/cases` takes it."""
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
