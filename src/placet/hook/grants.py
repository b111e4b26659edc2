"""Checking whether a call is pre-approved by a grant, and so runs without asking a reviewer.

A grant source that fails, or returns something unexpected, covers nothing: the reviewer is asked. High-risk
calls are never covered.
"""

import inspect
import logging
import os
import threading
from collections.abc import Awaitable, Callable, Generator, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    NotRequired,
    Protocol,
    TypeAlias,
    TypedDict,
    TypeVar,
    Unpack,
)

from placet.cases.grant import Grant, find_covering_grant
from placet.effects import EffectRun
from placet.errors import CaseNotFound, Unavailable
from placet.hook.approval_rules import ReviewRequirement
from placet.hook.argument_checks import require_methods
from placet.hook.checkpoint import GrantedCalls
from placet.hook.json_text import encode_canonical_json
from placet.hook.tool_call import ToolCall

if TYPE_CHECKING:
    from placet.client import PlacetClient
    from placet.desk.grants import GrantService

logger = logging.getLogger(__name__)
EMBEDDED_OWNER = "in-house"
T = TypeVar("T")
GrantSteps: TypeAlias = Generator[Callable[[], Any], Any, T]
"""Yields questions to a grant source; the driver sends back each answer, or throws what it raised."""


class GrantSource(Protocol):
    """Stores pre-approvals; `use` may be async.

    A covered call may have to wait for other calls of its turn. Before it runs, `holds(grant_id)` must
    return True: the grant is neither revoked nor expired. Without that method, the reviewer is asked.
    """

    def use(
        self, call: ToolCall, *, key: str, agent: str, thread_id: str
    ) -> str | Awaitable[str | None] | None:
        """Spend one use on this call: return the id of the grant that covers it, or None.

        `key` identifies this one call. A retry with the same key is not counted again.
        """
        ...


def select_grantable(
    calls: Iterable[ToolCall], requirements: Mapping[str, ReviewRequirement]
) -> list[ToolCall]:
    """Return the gated calls that a grant may cover: those that are not high-risk."""
    return [
        call for call in calls if call.id in requirements and requirements[call.id].config.high_risk is False
    ]


def generate_nonce() -> str:
    """Return a random text that tells calls made now from later calls with the same ids."""
    return os.urandom(16).hex()


_PROCESS_NONCE = generate_nonce()


def build_use_key(thread_id: str, turn: int, call: ToolCall, nonce: str = _PROCESS_NONCE) -> str:
    """Return the key of one call of one turn; the nonce is needed because models and threads reuse ids."""
    return f"{nonce}:{thread_id}:{turn}:{call.id}"


class CallOrigin(TypedDict):
    """Where calls come from. With the same nonce, a call of this thread and turn is the same call."""

    agent: str
    thread_id: str
    turn: int
    nonce: NotRequired[str]


def use_grants(
    source: GrantSource, calls: Iterable[ToolCall], **origin: Unpack[CallOrigin]
) -> dict[str, str]:
    """Return the calls that run without asking: call id -> the grant that covers it. Never raises.

    A call that was counted before is not counted again.
    """
    return _drive(_use_steps(source, calls, origin))


async def ause_grants(
    source: GrantSource, calls: Iterable[ToolCall], **origin: Unpack[CallOrigin]
) -> dict[str, str]:
    """Async version of `use_grants`."""
    return await _drive_async(_use_steps(source, calls, origin), source)


def recheck_grants(source: GrantSource | None, granted: GrantedCalls) -> set[str]:
    """Return the calls whose grant is still valid just before they run; a reviewer decides the others.

    A grant may have ended while its call waited for others of its turn. Never raises.
    """
    return _drive(_recheck_steps(source, granted))


async def arecheck_grants(source: GrantSource | None, granted: GrantedCalls) -> set[str]:
    """Async version of `recheck_grants`."""
    return await _drive_async(_recheck_steps(source, granted), source)


def _use_steps(
    source: GrantSource, calls: Iterable[ToolCall], origin: CallOrigin
) -> GrantSteps[dict[str, str]]:
    found: dict[str, str] = {}
    agent, thread_id = origin["agent"], origin["thread_id"]
    nonce = origin.get("nonce", _PROCESS_NONCE)
    for call in calls:
        try:
            key = build_use_key(thread_id, origin["turn"], call, nonce)
            used = yield partial(source.use, call, key=key, agent=agent, thread_id=thread_id)
        except Exception as error:
            logger.warning("grant_use_failed tool=%s result=reviewer_is_asked", call.name, exc_info=error)
            if isinstance(error, Unavailable):
                break  # unavailable for one call means unavailable for all: do not delay the reviewer
        else:
            found |= {call.id: used} if isinstance(used, str) and used else {}
    return found


def _recheck_steps(source: GrantSource | None, granted: GrantedCalls) -> GrantSteps[set[str]]:
    found = set()
    for call_id, entry in granted.items():
        try:
            holds = yield partial(_check_grant, source, entry["grant"])
        except Exception as error:
            logger.warning(
                "grant_check_failed grant=%s tool=%s result=reviewer_is_asked",
                entry["grant"],
                entry["call"]["name"],
                exc_info=error,
            )
            if isinstance(error, Unavailable):
                break  # as in `_use_steps`
        else:
            found |= {call_id} if holds is True else set()
    return found


def _drive(steps: GrantSteps[T]) -> T:
    run = EffectRun(steps)
    for ask in run:
        try:
            answer = ask()
            if inspect.isawaitable(answer):
                if inspect.iscoroutine(answer):
                    answer.close()
                raise TypeError("These grants are async: use an agent's async methods.")
            run.set_result(answer)
        except Exception as error:
            run.set_exception(error)
    return run.outcome


async def _drive_async(steps: GrantSteps[T], source: GrantSource | None) -> T:
    import asyncio

    run = EffectRun(steps)
    for ask in run:
        try:
            answer = await asyncio.to_thread(ask) if getattr(source, "blocking", False) else ask()
            run.set_result(await answer if inspect.isawaitable(answer) else answer)
        except Exception as error:
            run.set_exception(error)
    return run.outcome


def _check_grant(source: GrantSource | None, grant_id: str) -> Any:
    """Return the source's answer; a source without `holds` has no valid grants."""
    check = getattr(source, "holds", None)
    return False if check is None else check(grant_id)


class MemoryGrants:
    """Grants in this process's memory, for hooks without a server; thread-safe."""

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
        """Pre-approve calls like this one; arguments must match exactly, except patterns in `widened`.

        Raises InvalidSubmission for a grant that is not allowed.
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
        logger.info("grant_added grant=%s tool=%s granted_by=%s", grant.id, grant.tool, granted_by)
        return grant

    def use(self, call: ToolCall, *, key: str, agent: str, thread_id: str) -> str | None:
        """Spend one use on this call: return the id of the grant that covers it, or None."""
        now, shown = self._clock(), encode_canonical_json([call.name, call.arguments, agent])
        with self._lock:
            if key in self._uses:
                grant_id, first, used_at = self._uses[key]
                holds = first == shown and self._grants[grant_id].holds_again(used_at, now)
                return grant_id if holds else None
            grant = find_covering_grant(
                self._grants.values(), call.name, call.arguments, agent=agent, now=now
            )
            if grant is None:
                return None
            self._grants[grant.id] = grant.spend()
            self._uses[key] = (grant.id, shown, now)
        logger.info("grant_used grant=%s call=%s tool=%s thread=%s", grant.id, call.id, call.name, thread_id)
        return grant.id

    def holds(self, grant_id: str) -> bool:
        """Return whether a covered call that had to wait may still run."""
        with self._lock:
            grant = self._grants.get(grant_id)
            return grant is not None and grant.holds(self._clock())

    def list(self) -> Sequence[Grant]:
        """Return all grants, newest first, including ended ones."""
        return [*reversed(self._grants.values())]

    def revoke(self, grant_id: str, *, by: str = "") -> Grant:
        """End a grant; repeating it changes nothing. Raises CaseNotFound."""
        with self._lock:
            if grant_id not in self._grants:
                raise CaseNotFound(f"There is no grant {grant_id[:50]!r}.")
            ended = self._grants[grant_id].revoke(by=by, now=self._clock())
            self._grants[grant_id] = ended
        logger.info("grant_revoked grant=%s", grant_id)
        return ended


class ServerGrants:
    """Grants on a Placet server, which reviewers create on its review pages."""

    blocking: ClassVar[bool] = True
    """Whether an event loop must call it in a thread."""

    def __init__(self, client: "PlacetClient") -> None:
        require_methods("client", client, ["use_grant"], "a PlacetClient")
        self._client = client

    def use(self, call: ToolCall, *, key: str, agent: str, thread_id: str) -> str | None:
        """Spend one use on this call: return the id of the grant that covers it, or None."""
        answer = self._client.use_grant(
            call.name, call.arguments, key=key, call_id=call.id, agent=agent, thread_id=thread_id
        )
        return None if answer is None else str(answer["id"])

    def holds(self, grant_id: str) -> bool:
        """Return whether a covered call that had to wait may still run."""
        return self._client.grant(grant_id).get("holds") is True

    def list(self) -> Sequence[dict[str, Any]]:
        """Return the newest grants, including ended ones."""
        return [*self._client.grants()["grants"]]

    def revoke(self, grant_id: str) -> dict[str, Any]:
        """End a grant; repeating it changes nothing."""
        return self._client.revoke_grant(grant_id)


class RunningPlacet(Protocol):
    """The part of `placet.Placet` that EmbeddedGrants uses."""

    async def parts(self) -> Any:
        """Return the running parts, including the desk."""
        ...


class EmbeddedGrants:
    """Grants of a Placet embedded in this process; for agents on the same event loop."""

    def __init__(self, placet: RunningPlacet, *, owner: str = EMBEDDED_OWNER) -> None:
        require_methods("placet", placet, ["parts"], "a Placet")
        self._placet = placet
        self._owner = owner

    async def use(self, call: ToolCall, *, key: str, agent: str, thread_id: str) -> str | None:
        """Spend one use on this call: return the id of the grant that covers it, or None."""
        from placet.desk.grants import GrantedCall

        asked = GrantedCall(
            key=key,
            id=call.id,
            tool=call.name,
            arguments=call.arguments,
            agent=agent,
            thread_id=thread_id,
        )
        grant = await (await self._grants()).use(asked, self._get_principal())
        return None if grant is None else grant.id

    async def holds(self, grant_id: str) -> bool:
        """Return whether a covered call that had to wait may still run."""
        grants = await self._grants()
        return (await grants.get_owned_grant(grant_id, self._get_principal())).holds(grants.now())

    async def list(self, *, before: str | None = None, limit: int = 50) -> Sequence[Grant]:
        """Return grants, newest first, including ended ones."""
        return await (await self._grants()).list_grants(self._get_principal(), before=before, limit=limit)

    async def revoke(self, grant_id: str) -> Grant:
        """End a grant; repeating it changes nothing."""
        return await (await self._grants()).revoke(grant_id, self._get_principal())

    async def _grants(self) -> "GrantService":
        grants: GrantService = (await self._placet.parts()).desk.grants
        return grants

    def _get_principal(self) -> Any:
        from placet.ports.identity import Principal

        return Principal(name=self._owner)
