"""Everything in this process's memory, for tests and try-outs: the same rules, and gone when it ends."""

import dataclasses
from collections.abc import Collection, Iterable, Sequence
from datetime import datetime, timedelta
from itertools import islice

from msgspec.structs import replace

from placet.cases.case import Case, Offer
from placet.cases.events import Event
from placet.cases.grant import Grant, GrantUse
from placet.cases.machine import Step
from placet.errors import CaseConflict
from placet.ports.case_store import CaseCreation, CaseUpdate, FormDraft, IdempotencyRecord
from placet.ports.endpoint_store import Endpoint
from placet.ports.key_store import ApiKey
from placet.ports.outbox_store import RETAIN_NOTICES_FOR, Delivery
from placet.protocol.poll import Status
from placet.stores.memory_inbox import MemoryInboxStore
from placet.stores.memory_relay import MemoryRelayStore
from placet.stores.telling import Listener, tell


class MemoryStore(MemoryRelayStore, MemoryInboxStore):
    """A Store of plain dictionaries. One event loop may use it; nothing survives it."""

    def __init__(self) -> None:
        super().__init__()
        self._cases: dict[str, Case] = {}
        self._offers: dict[str, Offer] = {}
        self._events: dict[str, list[Event]] = {}
        self._due_at: dict[str, datetime] = {}
        self._drafts: dict[str, FormDraft] = {}
        self._replays: dict[tuple[str, str], IdempotencyRecord] = {}
        self._spent: set[str] = set()
        self._deliveries: dict[str, Delivery] = {}
        self._endpoints: dict[tuple[str, str], Endpoint] = {}
        self._api_keys: dict[str, ApiKey] = {}
        self._signing_keys: dict[str, str] = {}
        self._secrets: dict[str, str] = {}
        self._grants: dict[str, Grant] = {}
        self._grant_uses: dict[tuple[str, str], GrantUse] = {}
        self._listeners: list[Listener] = []

    async def create_case(self, filing: CaseCreation) -> None:
        """Write a new case; raises CaseConflict if its id, its replay key or its link's version is taken."""
        self._check_open()
        self._guard_filing(filing)
        case = filing.case
        self._place(case, filing.due_at)
        self._offers[case.id] = filing.offer
        self._events[case.id] = [*filing.events]
        if filing.idempotency is not None:
            self._replays[filing.idempotency.owner, filing.idempotency.key_digest] = filing.idempotency
        if filing.endpoint is not None:
            self._endpoints.setdefault((filing.endpoint.owner, filing.endpoint.url), filing.endpoint)
        changed = [case.id]
        if filing.link is not None:
            self._move(filing.link, self._due_at.get(filing.link.case.id))
            changed.append(filing.link.case.id)
        self._announce(changed)

    async def update_case(self, commitment: CaseUpdate) -> None:
        """Write a step; raises CaseConflict unless the case is still at the expected version."""
        self._check_open()
        self._guard_commitment(commitment)
        self._write(commitment)
        self._announce([commitment.step.case.id])

    async def erase_case(self, commitment: CaseUpdate) -> None:
        """Write an erasing step and remove content: the offer, event data, drafts, bodies, patterns."""
        self._check_open()
        self._guard_commitment(commitment)
        case_id = commitment.step.case.id
        self._events[case_id] = [replace(event, data=None, salt=None) for event in self._events[case_id]]
        self._write(commitment)
        self._offers.pop(case_id, None)
        self._drafts.pop(case_id, None)
        for delivery in [*self._deliveries.values()]:
            if delivery.case_id == case_id:
                self._blank_if_settled(delivery)
        for grant in [*self._grants.values()]:
            if grant.case_id == case_id:
                self._grants[grant.id] = dataclasses.replace(grant, patterns=None, granted_by="")
        self._announce([case_id])

    async def get_case(self, case_id: str) -> Case | None:
        """Where a case stands."""
        self._check_open()
        return self._cases.get(case_id)

    async def get_case_and_offer(self, case_id: str) -> tuple[Case, Offer] | None:
        """A case with what it shows."""
        self._check_open()
        offer = self._offers.get(case_id)
        return None if offer is None else (self._cases[case_id], offer)

    async def list_events(self, case_id: str, *, after: int = 0) -> Sequence[Event]:
        """The case's events with a sequence above `after`, in order."""
        self._check_open()
        return [event for event in self._events.get(case_id, ()) if event.seq > after]

    async def list_cases(
        self, owner: str | None, *, status: Status | None = None, before: str | None = None, limit: int = 50
    ) -> Sequence[Case]:
        """The owner's cases, newest first; `before` is the id that the last page ended with."""
        self._check_open()
        newest = reversed(self._before(before))
        wanted = (case for case in newest if case.owner == owner and status in (None, case.status))
        return [*islice(wanted, limit)]

    def _before(self, case_id: str | None) -> list[Case]:
        ids = [*self._cases]
        end = len(ids) if case_id is None else ids.index(case_id) if case_id in self._cases else 0
        return [self._cases[id] for id in ids[:end]]

    async def list_due_cases(self, now: datetime, *, limit: int) -> Sequence[Case]:
        """Cases whose due moment has passed, the most overdue first."""
        self._check_open()
        overdue = sorted((at, id) for id, at in self._due_at.items() if at <= now)
        return [self._cases[id] for _, id in overdue[:limit]]

    async def get_next_due_at(self) -> datetime | None:
        """The earliest due moment of all cases."""
        self._check_open()
        return min(self._due_at.values(), default=None)

    async def get_idempotency_record(self, owner: str, key_digest: str) -> IdempotencyRecord | None:
        """What was first answered to this Idempotency-Key."""
        self._check_open()
        return self._replays.get((owner, key_digest))

    async def is_evidence_spent(self, digests: Sequence[str]) -> bool:
        """Whether any of this evidence has been used before."""
        self._check_open()
        return not self._spent.isdisjoint(digests)

    async def save_draft(self, draft: FormDraft) -> None:
        """Keep what was typed so far; the last save stands. Raises CaseConflict once the case is closed."""
        self._check_open()
        case = self._cases.get(draft.case_id)
        if case is None or not case.live:
            raise CaseConflict()
        self._drafts[draft.case_id] = draft

    async def get_draft(self, case_id: str) -> FormDraft | None:
        """What was typed so far."""
        self._check_open()
        return self._drafts.get(case_id)

    async def add_deliveries(self, deliveries: Sequence[Delivery]) -> None:
        """Write deliveries that no case owes, all or none."""
        self._check_open()
        self._deliveries.update((owed.id, owed) for owed in deliveries)

    async def lease_deliveries(
        self, now: datetime, *, lease_for: timedelta, limit: int, except_to: Collection[str] = ()
    ) -> Sequence[Delivery]:
        """Due deliveries to targets outside `except_to`, moved out of others' reach until the lease ends."""
        self._check_open()
        waiting = [
            (owed.next_at, owed)
            for owed in self._deliveries.values()
            if owed.state == "waiting" and owed.next_at is not None and owed.next_at <= now
            if owed.target not in except_to
        ]
        waiting.sort(key=lambda pair: pair[0])
        leased = [replace(owed, next_at=now + lease_for) for _, owed in waiting[:limit]]
        self._deliveries.update((owed.id, owed) for owed in leased)
        return leased

    async def save_delivery_attempt(self, delivery: Delivery, *, disable_endpoint: bool = False) -> None:
        """Write the outcome of one attempt; one that was delivered stays delivered."""
        self._check_open()
        kept = self._deliveries.get(delivery.id)
        if kept is not None and kept.state != "delivered":
            settled = replace(delivery, target=kept.target, body=kept.body)
            self._deliveries[delivery.id] = settled
            if delivery.case_id not in self._offers:
                self._blank_if_settled(settled)
        endpoint = self._endpoints.get((delivery.owner, delivery.target))
        if disable_endpoint and endpoint is not None and endpoint.disabled_at is None:
            disabled_at = delivery.settled_at or delivery.created_at
            await self.save_endpoint(replace(endpoint, disabled_at=disabled_at), after=endpoint)

    async def requeue_delivery(self, delivery_id: str, *, now: datetime) -> Delivery | None:
        """Owe a delivery anew, whatever became of it; None if it is unknown or its content was erased."""
        self._check_open()
        kept = self._deliveries.get(delivery_id)
        if kept is None or not kept.body:
            return None
        again = replace(kept, state="waiting", attempts=0, next_at=now, settled_at=None)
        self._deliveries[delivery_id] = again
        return again

    async def list_deliveries(
        self,
        *,
        owner: str | None = None,
        case_id: str | None = None,
        state: str | None = None,
        limit: int = 50,
    ) -> Sequence[Delivery]:
        """The delivery log, newest first."""
        self._check_open()
        wanted = (
            owed
            for owed in reversed(self._deliveries.values())
            if owner in (None, owed.owner) and case_id in (None, owed.case_id) and state in (None, owed.state)
        )
        return [*islice(wanted, limit)]

    async def get_delivery(self, delivery_id: str) -> Delivery | None:
        """One delivery."""
        self._check_open()
        return self._deliveries.get(delivery_id)

    async def get_next_delivery_at(self) -> datetime | None:
        """When the next waiting delivery is due."""
        self._check_open()
        waiting = (owed.next_at for owed in self._deliveries.values() if owed.state == "waiting")
        return min((at for at in waiting if at is not None), default=None)

    async def get_endpoint(self, owner: str, url: str) -> Endpoint | None:
        """The endpoint of this owner at this address."""
        self._check_open()
        return self._endpoints.get((owner, url))

    async def list_endpoints(self, owner: str) -> Sequence[Endpoint]:
        """All endpoints of an owner."""
        self._check_open()
        owned = [endpoint for endpoint in self._endpoints.values() if endpoint.owner == owner]
        return sorted(owned, key=lambda endpoint: (endpoint.created_at, endpoint.url))

    async def save_endpoint(self, endpoint: Endpoint, *, after: Endpoint | None = None) -> None:
        """Write an endpoint, new or changed `after` this one; raises CaseConflict if that is not there."""
        self._check_open()
        if self._endpoints.get((endpoint.owner, endpoint.url)) != after:
            raise CaseConflict
        self._endpoints[endpoint.owner, endpoint.url] = endpoint

    async def get_api_key(self, digest: str) -> ApiKey | None:
        """The key with this digest, valid or not."""
        self._check_open()
        return next((key for key in self._api_keys.values() if key.digest == digest), None)

    async def list_api_keys(self) -> Sequence[ApiKey]:
        """All keys, oldest first."""
        self._check_open()
        return sorted(self._api_keys.values(), key=lambda key: key.created_at)

    async def save_api_key(self, key: ApiKey) -> None:
        """Write a key, new or changed; raises CaseConflict when another key has its digest."""
        self._check_open()
        if any(other.digest == key.digest and other.id != key.id for other in self._api_keys.values()):
            raise CaseConflict()
        self._api_keys[key.id] = key

    async def list_signing_keys(self) -> Sequence[str]:
        """Serialised signing keys, oldest first."""
        self._check_open()
        return [*self._signing_keys.values()]

    async def save_signing_keys(self, keys: Sequence[tuple[str, str]]) -> None:
        """Write (kid, serialised key) pairs, new or changed, in one transaction."""
        self._check_open()
        self._signing_keys.update(keys)

    async def get_or_create_secret(self, name: str, fresh: str) -> str:
        """The secret of this name; `fresh` becomes it if there is none yet."""
        self._check_open()
        return self._secrets.setdefault(name, fresh)

    async def get_grant(self, grant_id: str) -> Grant | None:
        """One grant, whatever became of it."""
        self._check_open()
        return self._grants.get(grant_id)

    async def list_grants(
        self,
        owner: str | None = None,
        *,
        case_id: str | None = None,
        before: str | None = None,
        limit: int = 50,
    ) -> Sequence[Grant]:
        """Grants of an owner, a case or all, newest first; `before` is the id where the last page ended."""
        self._check_open()
        ids = [*self._grants]
        end = len(ids) if before is None else ids.index(before) if before in self._grants else 0
        newest = (self._grants[id] for id in reversed(ids[:end]))
        wanted = (
            grant for grant in newest if owner in (None, grant.owner) and case_id in (None, grant.case_id)
        )
        return [*islice(wanted, limit)]

    async def list_usable_grants(self, owner: str, tool: str, now: datetime) -> Sequence[Grant]:
        """The owner's grants for this tool that are neither over, revoked nor used up."""
        self._check_open()
        granted = (grant for grant in self._grants.values() if (grant.owner, grant.tool) == (owner, tool))
        return [grant for grant in granted if grant.state(now) == "live"]

    async def get_grant_use(self, owner: str, key: str) -> GrantUse | None:
        """The use that was counted under this key."""
        self._check_open()
        return self._grant_uses.get((owner, key))

    def add_change_listener(self, listener: Listener) -> None:
        """Call `listener` with a case's id after it changed."""
        self._listeners.append(listener)

    async def check_ready(self) -> None:
        """Raises Unavailable once the store is closed."""
        self._check_open()

    async def purge(self, now: datetime) -> int:
        """Forget replays and keys of grants that have run out; returns how many replays."""
        self._check_open()
        kept = {key: replay for key, replay in self._replays.items() if replay.expires_at > now}
        forgotten = len(self._replays) - len(kept)
        self._replays = kept
        self._grant_uses = {key: use for key, use in self._grant_uses.items() if use.expires_at > now}
        self._deliveries = {
            id: owed
            for id, owed in self._deliveries.items()
            if not _forgettable(owed, now - RETAIN_NOTICES_FOR)
        }
        return forgotten

    async def aclose(self) -> None:
        """Serve no longer."""
        self._closed = True

    def _guard_filing(self, filing: CaseCreation) -> None:
        replay, now = filing.idempotency, filing.case.created_at
        if filing.case.id in self._cases:
            raise CaseConflict()
        if replay is not None:
            first = self._replays.get((replay.owner, replay.key_digest))
            if first is not None and first.expires_at > now:
                raise CaseConflict()
        if filing.link is not None:
            self._guard_step(filing.link)

    def _guard_commitment(self, commitment: CaseUpdate) -> None:
        self._guard_step(commitment.step)
        evidence = commitment.spent_evidence
        if len(set(evidence)) < len(evidence) or not self._spent.isdisjoint(evidence):
            raise CaseConflict()
        use = commitment.grant_use
        if use is not None and (use.owner, use.key) in self._grant_uses:
            raise CaseConflict()

    def _guard_step(self, step: Step) -> None:
        case = self._cases.get(step.case.id)
        if case is None or case.version != step.expected_version:
            raise CaseConflict()

    def _write(self, commitment: CaseUpdate) -> None:
        self._move(commitment.step, commitment.due_at)
        self._spent.update(commitment.spent_evidence)
        self._deliveries.update((owed.id, owed) for owed in commitment.deliveries)
        self._grants.update((grant.id, grant) for grant in commitment.grants)
        if commitment.grant_use is not None:
            self._grant_uses[commitment.grant_use.owner, commitment.grant_use.key] = commitment.grant_use
        if commitment.clear_draft:
            self._drafts.pop(commitment.step.case.id, None)

    def _move(self, step: Step, due_at: datetime | None) -> None:
        self._place(step.case, due_at)
        self._events[step.case.id].extend(step.events)

    def _place(self, case: Case, due_at: datetime | None) -> None:
        self._cases[case.id] = case
        self._due_at.pop(case.id, None)
        if due_at is not None:
            self._due_at[case.id] = due_at

    def _blank_if_settled(self, delivery: Delivery) -> None:
        if delivery.state != "waiting":
            self._deliveries[delivery.id] = replace(delivery, target="", body=b"")

    def _announce(self, changed: Iterable[str]) -> None:
        tell(self._listeners, changed)


def _forgettable(delivery: Delivery, before: datetime) -> bool:
    settled_at = delivery.settled_at
    return not delivery.case_id and settled_at is not None and settled_at <= before
