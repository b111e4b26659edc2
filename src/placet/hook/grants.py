"""Calls that run without asking, because a person allowed them before: asked of whoever keeps the grants.

A book that fails, or answers oddly, has not covered anything: the person is asked. Calls of high risk are
never asked about.
"""

import inspect
import logging
import os
import threading
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from placet.cases.grant import Grant, covering
from placet.errors import CaseNotFound, Unavailable
from placet.hook.checkpoint import GrantedCalls
from placet.hook.json_text import canonical_json
from placet.hook.policy import ReviewRequirement
from placet.hook.tool_call import ToolCall

if TYPE_CHECKING:
    from placet.client import PlacetClient
    from placet.desk.grants import Grants

logger = logging.getLogger(__name__)
EMBEDDED_OWNER = "in-house"


class GrantSource(Protocol):
    """Keeps what people allowed in advance; `use` may be async.

    A covered call may have to wait for others of its turn. Then the book is asked `holds(grant_id)` before it
    runs: True if the grant has neither been revoked nor ended. Without that method a person is asked.
    """

    def use(
        self, call: ToolCall, *, key: str, agent: str, thread_id: str
    ) -> str | Awaitable[str | None] | None:
        """Spend one use on this call: the id of the grant that covers it, or None.

        `key` names this one call. A retry under it is not counted again.
        """
        ...


def select_grantable(calls: Iterable[ToolCall], gates: Mapping[str, ReviewRequirement]) -> list[ToolCall]:
    """The gated calls that a grant may cover; one of high risk never."""
    return [call for call in calls if call.id in gates and gates[call.id].config.high_risk is False]


def new_nonce() -> str:
    """Tells what is asked now from whatever is asked ever again."""
    return os.urandom(16).hex()


_PROCESS_NONCE = new_nonce()


def build_use_key(thread_id: str, turn: int, call: ToolCall, when: str = _PROCESS_NONCE) -> str:
    """Names one call of one turn, since some time: models, and threads begun anew, use ids again."""
    return f"{when}:{thread_id}:{turn}:{call.id}"


def use_grants(
    book: GrantSource,
    calls: Iterable[ToolCall],
    *,
    agent: str,
    thread_id: str,
    turn: int,
    when: str = _PROCESS_NONCE,
) -> dict[str, str]:
    """Which of these calls run without asking: call -> the grant that covers it. Never raises.

    Asked again with the same `when`, a call of this thread and turn is the same one, and counts no more.
    """
    found: dict[str, str] = {}
    for call in calls:
        try:
            key = build_use_key(thread_id, turn, call, when)
            used = book.use(call, key=key, agent=agent, thread_id=thread_id)
            if inspect.isawaitable(used):
                if inspect.iscoroutine(used):
                    used.close()
                raise TypeError("These grants can be asked on an event loop only.")
        except Exception as error:
            _log_unused_grants(call, error)
            if isinstance(error, Unavailable):
                break  # whoever is gone for one call is gone for the next, and a person need not wait for it
        else:
            found |= _grant_for_call(call, used)
    return found


async def ause_grants(
    book: GrantSource,
    calls: Iterable[ToolCall],
    *,
    agent: str,
    thread_id: str,
    turn: int,
    when: str = _PROCESS_NONCE,
) -> dict[str, str]:
    """As `covered`, on an event loop."""
    import asyncio

    found: dict[str, str] = {}
    for call in calls:
        try:
            key = build_use_key(thread_id, turn, call, when)
            use = partial(book.use, call, key=key, agent=agent, thread_id=thread_id)
            used = await asyncio.to_thread(use) if getattr(book, "blocking", False) else use()
            used = await used if inspect.isawaitable(used) else used
        except Exception as error:
            _log_unused_grants(call, error)
            if isinstance(error, Unavailable):
                break  # whoever is gone for one call is gone for the next, and a person need not wait for it
        else:
            found |= _grant_for_call(call, used)
    return found


def recheck_grants(book: GrantSource | None, granted: GrantedCalls) -> set[str]:
    """The calls whose grant still holds, now that they are to run; a person is asked about the others.

    What allowed a call may have ended while it waited with others of its turn. Never raises.
    """
    found = set()
    for call_id, kept in granted.items():
        try:
            holds = _check_grant(book, kept["grant"])
            if inspect.isawaitable(holds):
                if inspect.iscoroutine(holds):
                    holds.close()
                raise TypeError("These grants can be asked on an event loop only.")
        except Exception as error:
            _log_unchecked_grant(kept, error)
            if isinstance(error, Unavailable):
                break  # as in `covered`
        else:
            found |= {call_id} if holds is True else set()
    return found


async def arecheck_grants(book: GrantSource | None, granted: GrantedCalls) -> set[str]:
    """As `holding`, on an event loop."""
    import asyncio

    found = set()
    for call_id, kept in granted.items():
        try:
            look = partial(_check_grant, book, kept["grant"])
            holds = await asyncio.to_thread(look) if getattr(book, "blocking", False) else look()
            holds = await holds if inspect.isawaitable(holds) else holds
        except Exception as error:
            _log_unchecked_grant(kept, error)
            if isinstance(error, Unavailable):
                break  # as in `covered`
        else:
            found |= {call_id} if holds is True else set()
    return found


def _check_grant(book: GrantSource | None, grant_id: str) -> Any:
    """What the book says; one that cannot be asked has no grant that holds."""
    look = getattr(book, "holds", None)
    return False if look is None else look(grant_id)


def _log_unchecked_grant(kept: Mapping[str, Any], error: Exception) -> None:
    logger.warning(
        "Whether %s still holds is not known; a person is asked about %s.",
        kept["grant"],
        kept["call"]["name"],
        exc_info=error,
    )


def _grant_for_call(call: ToolCall, used: object) -> dict[str, str]:
    return {call.id: used} if isinstance(used, str) and used else {}


def _log_unused_grants(call: ToolCall, error: Exception) -> None:
    logger.warning("The grants could not be asked about %s; a person is asked.", call.name, exc_info=error)


class MemoryGrants:
    """Grants of this process, for hooks without a server; safe to use from several threads."""

    def __init__(self, *, clock: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._grants: dict[str, Grant] = {}
        self._uses: dict[str, tuple[str, bytes, datetime]] = {}

    def add(
        self,
        call: ToolCall,
        *,
        agent: str,
        uses: int,
        lasts_for: timedelta,
        granted_by: str,
        widened: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> Grant:
        """Allow calls like this one. Arguments stay exactly as they are, but for the patterns in `widened`.

        Raises InvalidSubmission for what may not be granted.
        """
        from placet.cases.grant_terms import read_terms
        from placet.protocol.duration import format_duration

        patterns = {name: {"exact": value} for name, value in call.arguments.items()}
        asked = {"call_id": call.id, "uses": uses, "for": format_duration(lasts_for)}
        (terms,) = read_terms(
            [{**asked, "patterns": {**patterns, **(widened or {})}}],
            [{**call.to_dict(), "high_risk": False}],
            {call.id: {"decision": "approve"}},
        )
        now = self._clock()
        grant = Grant(
            id=f"grant_{os.urandom(16).hex()}",
            owner="",
            tool=terms.tool,
            agent=agent,
            patterns=terms.patterns,
            uses=terms.uses,
            granted_at=now,
            expires_at=now + terms.lasts_for,
            granted_by=granted_by,
            case_id="",
            call_id=call.id,
        )
        with self._lock:
            self._grants[grant.id] = grant
        logger.info("%s granted %s for %s.", granted_by, grant.id, grant.tool)
        return grant

    def use(self, call: ToolCall, *, key: str, agent: str, thread_id: str) -> str | None:
        """Spend one use on this call: the id of the grant that covers it, or None."""
        now, shown = self._clock(), canonical_json([call.name, call.arguments, agent])
        with self._lock:
            if key in self._uses:
                grant_id, first, used_at = self._uses[key]
                holds = first == shown and self._grants[grant_id].holds_again(used_at, now)
                return grant_id if holds else None
            grant = covering(self._grants.values(), call.name, call.arguments, agent=agent, now=now)
            if grant is None:
                return None
            self._grants[grant.id] = grant.spend()
            self._uses[key] = (grant.id, shown, now)
        logger.info("Grant %s covered call %s of %s in thread %s.", grant.id, call.id, call.name, thread_id)
        return grant.id

    def holds(self, grant_id: str) -> bool:
        """Whether a call that it use_grants, and that had to wait, may still run."""
        with self._lock:
            grant = self._grants.get(grant_id)
            return grant is not None and grant.holds(self._clock())

    def list(self) -> Sequence[Grant]:
        """All grants, newest first; those that are over too."""
        return [*reversed(self._grants.values())]

    def revoke(self, grant_id: str, *, by: str = "") -> Grant:
        """End a grant; again changes nothing. Raises CaseNotFound."""
        with self._lock:
            if grant_id not in self._grants:
                raise CaseNotFound(f"There is no grant {grant_id[:50]!r}.")
            ended = self._grants[grant_id].revoke(by=by, now=self._clock())
            self._grants[grant_id] = ended
        logger.info("Grant %s was revoked.", grant_id)
        return ended


class ServerGrants:
    """Grants on a Placet server, given by people on its review pages."""

    blocking: ClassVar[bool] = True
    """An event loop asks it in a thread."""

    def __init__(self, client: "PlacetClient") -> None:
        self._client = client

    def use(self, call: ToolCall, *, key: str, agent: str, thread_id: str) -> str | None:
        """Spend one use on this call: the id of the grant that covers it, or None."""
        answer = self._client.use_grant(
            call.name, call.arguments, key=key, call_id=call.id, agent=agent, thread_id=thread_id
        )
        return None if answer is None else str(answer["id"])

    def holds(self, grant_id: str) -> bool:
        """Whether a call that it use_grants, and that had to wait, may still run."""
        return self._client.grant(grant_id).get("holds") is True

    def list(self) -> Sequence[dict[str, Any]]:
        """The newest grants, those that are over too."""
        return [*self._client.grants()["grants"]]

    def revoke(self, grant_id: str) -> dict[str, Any]:
        """End a grant; again changes nothing."""
        return self._client.revoke_grant(grant_id)


class RunningPlacet(Protocol):
    """What `placet.Placet` is made of."""

    async def parts(self) -> Any:
        """The running parts, with their desk."""
        ...


class EmbeddedGrants:
    """Grants of the Placet that runs in this very process; for agents on the same event loop."""

    def __init__(self, placet: RunningPlacet, *, owner: str = EMBEDDED_OWNER) -> None:
        self._placet = placet
        self._owner = owner

    async def use(self, call: ToolCall, *, key: str, agent: str, thread_id: str) -> str | None:
        """Spend one use on this call: the id of the grant that covers it, or None."""
        from placet.desk.grants import GrantedCall

        asked = GrantedCall(
            key=key,
            id=call.id,
            tool=call.name,
            arguments=call.arguments,
            agent=agent,
            thread_id=thread_id,
        )
        grant = await (await self._grants()).use(asked, self._principal())
        return None if grant is None else grant.id

    async def holds(self, grant_id: str) -> bool:
        """Whether a call that it use_grants, and that had to wait, may still run."""
        grants = await self._grants()
        return (await grants.owned(grant_id, self._principal())).holds(grants.now())

    async def list(self, *, before: str | None = None, limit: int = 50) -> Sequence[Grant]:
        """Grants, newest first; those that are over too."""
        return await (await self._grants()).listed(self._principal(), before=before, limit=limit)

    async def revoke(self, grant_id: str) -> Grant:
        """End a grant; again changes nothing."""
        return await (await self._grants()).revoke(grant_id, self._principal())

    async def _grants(self) -> "Grants":
        grants: Grants = (await self._placet.parts()).desk.grants
        return grants

    def _principal(self) -> Any:
        from placet.ports.identity import Principal

        return Principal(name=self._owner)
