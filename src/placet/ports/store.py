"""The durable store, in the words of cases; engines and SQL stay behind it.

Every write is one transaction. A write that returns is on disk; a write that raises changed nothing.
"""

from collections.abc import Callable, Collection, Sequence
from datetime import datetime, timedelta
from typing import Literal, Protocol

from msgspec import Struct

from placet.cases.case import Case, Offer
from placet.cases.events import Event
from placet.cases.grant import Grant, GrantUse
from placet.cases.machine import Step
from placet.ports.inbox_store import InboxStore
from placet.ports.relay_store import RelayStore
from placet.protocol.poll import Status

KEEP_NOTICES_FOR = timedelta(days=7)
DeliveryState = Literal["waiting", "delivered", "failed"]


class Replay(Struct, frozen=True, kw_only=True):
    """The first answer to an Idempotency-Key, sealed: whoever has the key again can open it."""

    owner: str
    key_digest: str
    request_digest: str
    sealed_answer: bytes
    expires_at: datetime


class Delivery(Struct, frozen=True, kw_only=True):
    """One message owed to a machine: sent at least once, until it is settled."""

    id: str
    case_id: str
    """Empty for one that no case owes; its content is forgotten as soon as it is settled."""
    event: str
    owner: str
    courier: str
    target: str
    body: bytes
    created_at: datetime
    next_at: datetime | None
    state: DeliveryState = "waiting"
    attempts: int = 0
    last_status: int | None = None
    last_error: str | None = None
    settled_at: datetime | None = None


class Endpoint(Struct, frozen=True, kw_only=True):
    """An address that receives callbacks, with its secret and, during rotation, the one before."""

    owner: str
    url: str
    secret: str
    previous_secret: str | None = None
    previous_until: datetime | None = None
    disabled_at: datetime | None = None
    created_at: datetime


class ApiKey(Struct, frozen=True, kw_only=True):
    """A key that opens the API; only its digest is kept. Keys of one name are one principal."""

    id: str
    name: str
    digest: str
    scopes: tuple[str, ...]
    created_at: datetime
    expires_at: datetime | None = None
    revoked_at: datetime | None = None

    def valid(self, now: datetime) -> bool:
        """Whether the key opens anything at this moment."""
        return self.revoked_at is None and (self.expires_at is None or now < self.expires_at)


class Draft(Struct, frozen=True, kw_only=True):
    """What a person has filled in so far, kept so that they can go on elsewhere."""

    case_id: str
    values: dict[str, object]
    step: int
    saved_at: datetime


class Filing(Struct, frozen=True, kw_only=True):
    """All that is written when a case is opened."""

    case: Case
    offer: Offer
    events: tuple[Event, ...]
    due_at: datetime | None
    replay: Replay | None = None
    link: Step | None = None
    endpoint: Endpoint | None = None


class Commitment(Struct, frozen=True, kw_only=True):
    """All that is written when a case moves on."""

    step: Step
    due_at: datetime | None
    deliveries: tuple[Delivery, ...] = ()
    spent_evidence: tuple[str, ...] = ()
    clear_draft: bool = False
    grants: tuple[Grant, ...] = ()
    grant_use: GrantUse | None = None


class CaseStore(Protocol):
    """Cases, their offers and their events."""

    async def create(self, filing: Filing) -> None:
        """Write a new case; raises CaseConflict if its id, its replay key or its link's version is taken."""
        ...

    async def commit(self, commitment: Commitment) -> None:
        """Write a step; raises CaseConflict unless the case is still at the expected version.

        Grants, new or changed, move with their case only: its version guards them too.
        """
        ...

    async def erase(self, commitment: Commitment) -> None:
        """Write an erasing step and remove content: the offer, event data, drafts, bodies, patterns."""
        ...

    async def case(self, case_id: str) -> Case | None:
        """Where a case stands."""
        ...

    async def case_and_offer(self, case_id: str) -> tuple[Case, Offer] | None:
        """A case with what it shows."""
        ...

    async def events(self, case_id: str, *, after: int = 0) -> Sequence[Event]:
        """The case's events with a sequence above `after`, in order."""
        ...

    async def cases_of(
        self, owner: str | None, *, status: Status | None = None, before: str | None = None, limit: int = 50
    ) -> Sequence[Case]:
        """The owner's cases, newest first; `before` is the id that the last page ended with."""
        ...

    async def due(self, now: datetime, *, limit: int) -> Sequence[Case]:
        """Cases whose due moment has passed, the most overdue first."""
        ...

    async def next_due_at(self) -> datetime | None:
        """The earliest due moment of all cases."""
        ...

    async def replay(self, owner: str, key_digest: str) -> Replay | None:
        """What was first answered to this Idempotency-Key."""
        ...

    async def evidence_spent(self, digests: Sequence[str]) -> bool:
        """Whether any of this evidence has been used before."""
        ...

    async def save_draft(self, draft: Draft) -> None:
        """Keep what was typed so far; the last save stands."""
        ...

    async def draft(self, case_id: str) -> Draft | None:
        """What was typed so far."""
        ...


class OutboxStore(Protocol):
    """Deliveries and the endpoints they go to."""

    async def owe(self, deliveries: Sequence[Delivery]) -> None:
        """Write deliveries that no case owes, all or none."""
        ...

    async def lease_deliveries(
        self, now: datetime, *, lease_for: timedelta, limit: int, except_to: Collection[str] = ()
    ) -> Sequence[Delivery]:
        """Waiting deliveries that are due, moved out of others' reach until the lease ends.

        Those to targets in `except_to` stay where they are: enough is under way to them.
        """
        ...

    async def settle_delivery(self, delivery: Delivery, *, disable_endpoint: bool = False) -> None:
        """Write the outcome of one attempt."""
        ...

    async def requeue_delivery(self, delivery_id: str, *, now: datetime) -> Delivery | None:
        """Owe a delivery anew, whatever became of it; None if it is unknown or its content was erased."""
        ...

    async def deliveries(
        self,
        *,
        owner: str | None = None,
        case_id: str | None = None,
        state: str | None = None,
        limit: int = 50,
    ) -> Sequence[Delivery]:
        """The delivery log, newest first."""
        ...

    async def delivery(self, delivery_id: str) -> Delivery | None:
        """One delivery."""
        ...

    async def next_delivery_at(self) -> datetime | None:
        """When the next waiting delivery is due."""
        ...

    async def endpoint(self, owner: str, url: str) -> Endpoint | None:
        """The endpoint of this owner at this address."""
        ...

    async def endpoints(self, owner: str) -> Sequence[Endpoint]:
        """All endpoints of an owner."""
        ...

    async def save_endpoint(self, endpoint: Endpoint, *, after: Endpoint | None = None) -> None:
        """Write an endpoint, new or changed `after` this one; raises CaseConflict if that is not there."""
        ...


class KeyStore(Protocol):
    """API keys, signing keys and the server's own secret."""

    async def api_key(self, digest: str) -> ApiKey | None:
        """The key with this digest, valid or not."""
        ...

    async def api_keys(self) -> Sequence[ApiKey]:
        """All keys, oldest first."""
        ...

    async def save_api_key(self, key: ApiKey) -> None:
        """Write a key, new or changed."""
        ...

    async def signing_keys(self) -> Sequence[str]:
        """Serialised signing keys, oldest first."""
        ...

    async def save_signing_keys(self, keys: Sequence[tuple[str, str]]) -> None:
        """Write (kid, serialised key) pairs, new or changed, in one transaction."""
        ...

    async def secret(self, name: str, fresh: str) -> str:
        """The server's secret of this name; `fresh` becomes it if there is none yet."""
        ...


class GrantStore(Protocol):
    """What people allowed in advance; written by `commit`, with the case that it belongs to."""

    async def grant(self, grant_id: str) -> Grant | None:
        """One grant, whatever became of it."""
        ...

    async def grants(
        self,
        owner: str | None = None,
        *,
        case_id: str | None = None,
        before: str | None = None,
        limit: int = 50,
    ) -> Sequence[Grant]:
        """Grants of an owner, a case or all, newest first; `before` is the id where the last page ended."""
        ...

    async def usable_grants(self, owner: str, tool: str, now: datetime) -> Sequence[Grant]:
        """The owner's grants for this tool that are neither over, revoked nor used up."""
        ...

    async def grant_use(self, owner: str, key: str) -> GrantUse | None:
        """The use that was counted under this key."""
        ...


class Store(CaseStore, InboxStore, OutboxStore, KeyStore, GrantStore, RelayStore, Protocol):
    """Everything a server keeps."""

    def on_change(self, listener: Callable[[str | None], None]) -> None:
        """Call `listener` in the event loop with a case's id after it changed; None: anything may have."""
        ...

    async def ready(self) -> None:
        """Raises Unavailable when the store cannot serve."""
        ...

    async def purge(self, now: datetime) -> int:
        """Forget replays and keys of grants that have run out; returns how many replays.

        Of deliveries that no case owed, those go that were settled more than `KEEP_NOTICES_FOR` ago.
        """
        ...

    async def aclose(self) -> None:
        """Finish what was accepted and close."""
        ...
