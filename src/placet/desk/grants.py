"""Creation, use and revocation of grants. Each step is an event of the grant's case."""

import asyncio
import hashlib
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Protocol
from weakref import WeakValueDictionary

import msgspec
from msgspec import Struct

from placet.cases.case import Case, Offer
from placet.cases.commands import Command, RevokeGrant, UseGrant
from placet.cases.deadlines import get_due_at
from placet.cases.grant import Grant, GrantUse, build_grant_agent_name, find_covering_grant
from placet.cases.grant_terms import read_terms
from placet.cases.machine import apply
from placet.desk import random_values
from placet.desk.access import get_actor
from placet.desk.answer import Answer
from placet.errors import CaseConflict, CaseNotFound, InvalidSubmission, Unavailable, ValidationFailed
from placet.ports.case_store import CaseStore, CaseUpdate
from placet.ports.grant_store import GrantStore
from placet.ports.identity import Principal

ATTEMPTS = 16
MAX_LOGGED_BYTES = 4 * 1024
"""Of larger arguments, only the digest is logged."""


class GrantedCall(Struct, frozen=True, kw_only=True):
    """A tool call that may be covered by a grant."""

    key: str
    """Identifies this call. A repeated request with the same key is counted once."""
    id: str
    tool: str
    arguments: dict[str, Any]
    agent: str | None = None
    thread_id: str | None = None


def build_grants(
    case: Case, offer: Offer, answer: Answer, data: Mapping[str, Any], *, now: datetime
) -> tuple[Grant, ...]:
    """Return the grants that this answer gives. Raises InvalidSubmission if it may not give them.

    The page shows what is granted, so only an answer from the page can grant: a button cannot, nor can the
    agent that relays one.
    """
    given, calls = data.get("grants"), offer.context.get("tool_calls")
    if not given or calls is None:
        return ()
    if answer.path != "browser_submit":
        complaint = "Grants are given on the review page only; open the review link."
        raise InvalidSubmission(complaint, fields={"grants": complaint})
    return tuple(
        Grant(
            id=random_values.generate_grant_id(now),
            owner=case.owner or "",
            tool=terms.tool,
            agent=build_grant_agent_name(offer.context.get("agent"), terms.path),
            patterns=terms.patterns,
            uses=terms.uses,
            granted_at=now,
            expires_at=now + terms.lasts_for,
            granted_by=_get_person(answer),
            case_id=case.id,
            call_id=terms.call_id,
        )
        for terms in read_terms(given, calls, data.get("decisions") or {})
    )


class CaseGrantStore(CaseStore, GrantStore, Protocol):
    """The storage that grants need. A grant is written together with its case."""


class GrantService:
    """Lists, uses and revokes grants. A grant belongs to the principal that opened its case."""

    def __init__(
        self,
        *,
        store: CaseGrantStore,
        clock: Callable[[], datetime],
        keep_for: timedelta,
        observe: Callable[[CaseUpdate], None] | None = None,
    ) -> None:
        self._store = store
        self.now = clock
        self._keep_for = keep_for
        self._observe = observe
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def use(self, call: GrantedCall, principal: Principal) -> Grant | None:
        """Use a grant for this call; return None if no grant covers it. A repeated request counts once."""
        owner = principal.name or ""
        key, digest = _compute_digest(call.key), _compute_call_digest(call)
        for _ in range(ATTEMPTS):
            used = await self._store.get_grant_use(owner, key)
            if used is not None:
                return await self._find_earlier_use(used, digest)
            granted = await self._store.list_usable_grants(owner, call.tool, self.now())
            grant = find_covering_grant(granted, call.tool, call.arguments, agent=call.agent, now=self.now())
            if grant is None:
                return None
            try:
                if (spent := await self._spend(grant.id, call, principal, key, digest)) is not None:
                    return spent
            except CaseConflict:
                continue
        raise Unavailable()

    async def list_grants(self, principal: Principal, *, before: str | None, limit: int) -> Sequence[Grant]:
        """Return the principal's grants, newest first. An administrator gets all grants."""
        owner = None if "admin" in principal.scopes else principal.name or ""
        return await self._store.list_grants(owner, before=before, limit=limit)

    async def get_owned_grant(self, grant_id: str, principal: Principal) -> Grant:
        """Return a grant of this principal. Raises CaseNotFound for a grant of another one."""
        grant = await self._store.get_grant(grant_id)
        if grant is None or ("admin" not in principal.scopes and grant.owner != (principal.name or "")):
            raise CaseNotFound("Grant not found.")
        return grant

    async def revoke(self, grant_id: str, principal: Principal) -> Grant:
        """Revoke a grant. Revoking it again changes nothing."""
        return await self._revoke(await self.get_owned_grant(grant_id, principal), get_actor(principal))

    async def revoke_as(self, grant_id: str, actor: str) -> Grant:
        """Revoke a grant without a check of its owner: for the reviewer who gave it, or an operator."""
        grant = await self._store.get_grant(grant_id)
        if grant is None:
            raise CaseNotFound(f"There is no grant {grant_id[:50]!r}.")
        return await self._revoke(grant, actor)

    async def _revoke(self, grant: Grant, actor: str) -> Grant:
        for _ in range(ATTEMPTS):
            async with self._get_lock(grant.case_id):
                case, current = await self._get_current(grant.id)
                if current.revoked_at is not None:
                    return current
                revoked = current.revoke(by=actor, now=self.now())
                try:
                    await self._commit(case, RevokeGrant(actor=actor, grant=revoked), revoked)
                except CaseConflict:
                    continue
                return revoked
        raise Unavailable()

    async def _find_earlier_use(self, used: GrantUse, digest: str) -> Grant | None:
        if used.call_digest != digest:
            raise ValidationFailed("This key was used for another call. Use a new key for every call.")
        grant = await self._store.get_grant(used.grant_id)
        holds = grant is not None and grant.holds_again(used.used_at, self.now())
        return grant if holds else None

    async def _spend(
        self, grant_id: str, call: GrantedCall, principal: Principal, key: str, digest: str
    ) -> Grant | None:
        """Use the grant once. Return None if it no longer covers the call; another one may."""
        async with self._get_lock((await self._get_current(grant_id))[1].case_id):
            case, grant = await self._get_current(grant_id)
            if not grant.covers(call.tool, call.arguments, agent=call.agent, now=self.now()):
                return None
            spent = grant.spend()
            use = GrantUse(
                owner=grant.owner,
                key=key,
                grant_id=grant_id,
                call_digest=digest,
                used_at=self.now(),
                expires_at=grant.expires_at,
            )
            order = UseGrant(actor=get_actor(principal), grant=spent, call=_build_log_entry(call, digest))
            return spent if await self._commit(case, order, spent, use) else None

    async def _get_current(self, grant_id: str) -> tuple[Case, Grant]:
        """Read the case, then the grant: if the grant changes in between, the case's version is outdated."""
        first = await self._store.get_grant(grant_id)
        case = await self._store.get_case(first.case_id) if first is not None else None
        grant = await self._store.get_grant(grant_id)
        if case is None or grant is None:
            raise CaseNotFound("Grant not found.")
        return case, grant

    async def _commit(self, case: Case, order: Command, grant: Grant, use: GrantUse | None = None) -> bool:
        step = apply(case, order, now=self.now(), salt=random_values.generate_salt())
        if not step.events:
            return False
        update = CaseUpdate(
            step=step, due_at=get_due_at(step.case, keep_for=self._keep_for), grants=(grant,), grant_use=use
        )
        await self._store.update_case(update)
        if self._observe is not None:
            self._observe(update)
        return True

    def _get_lock(self, case_id: str) -> asyncio.Lock:
        """Return the lock of a case in this process; between processes, the case's version decides."""
        return self._turns.setdefault(case_id, asyncio.Lock())


def _get_person(answer: Answer) -> str:
    known = answer.responded_by
    return (known and (known.email or known.name)) or answer.actor


def _build_log_entry(call: GrantedCall, digest: str) -> dict[str, Any]:
    logged = {
        "id": call.id,
        "tool": call.tool,
        "agent": call.agent,
        "thread_id": call.thread_id,
        "digest": digest,
    }
    small = len(msgspec.json.encode(call.arguments)) <= MAX_LOGGED_BYTES
    return {**logged, "arguments": call.arguments} if small else logged


def _compute_call_digest(call: GrantedCall) -> str:
    shown = [call.id, call.tool, call.arguments, call.agent, call.thread_id]
    return hashlib.sha256(msgspec.json.encode(shown, order="deterministic")).hexdigest()


def _compute_digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
