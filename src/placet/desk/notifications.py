"""Whom a case notifies, and the deliveries that its events cause."""

import base64
import hashlib
import hmac
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from typing import Literal

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from placet.cases import events as log
from placet.cases.case import Case
from placet.cases.events import Event
from placet.cases.tokens import TOKEN_LENGTH, digest_token
from placet.desk.draft import CaseDraft
from placet.errors import ValidationFailed
from placet.ports.outbox_store import Delivery, DeliveryFilter, OutboxStore
from placet.ports.recipients import CaseTraits, NotificationKind, RecipientDirectory
from placet.protocol import stream

NOTIFY = "notify"
MAX_RECIPIENTS = 20
MAX_DELIVERIES = 1000
"""How many deliveries of a case are read to find the messages to close."""
MIN_TIME_BEFORE_WARNING = 0.5
"""The share of a case's time that must have passed before its warning; shorter cases have none."""

DeliveryKind = NotificationKind | Literal["closed"]

NOTIFYING: Mapping[str, NotificationKind] = {
    log.CREATED: "new_case",
    stream.REMINDER: "reminder",
    log.EXPIRY_WARNING: "expiry_warning",
}
"""What recipients are notified of, by the event that causes it."""


class Notification(Struct, frozen=True, kw_only=True):
    """The body of a delivery to a person: what to send about which case, and where."""

    id: str
    case_id: str
    kind: DeliveryKind
    recipient: str
    address: str


class CaseNotifications:
    """Chooses the recipients of new cases and plans the deliveries to them.

    `warn_before` is how long before its deadline a case warns; None for no warnings.
    """

    def __init__(
        self,
        *,
        directory: RecipientDirectory,
        outbox: OutboxStore,
        secret: str,
        warn_before: timedelta | None,
        message_id: Callable[[], str],
    ) -> None:
        self.directory = directory
        self._outbox = outbox
        self._key = hashlib.sha256(b"notification links\0" + secret.encode()).digest()
        self._warn_before = warn_before
        self._message_id = message_id

    async def address(self, case: Case, draft: CaseDraft, *, entry_point: str) -> Case:
        """Return the new case with its recipients, each with a review link of their own.

        Raises ValidationFailed if the draft names a recipient that does not exist.
        """
        known = {one.name for one in await self.directory.resolve(draft.notify)}
        if missing := [name for name in draft.notify if name not in known]:
            raise ValidationFailed(f"notify: this server has no recipient {missing[0]!r}.")
        traits = CaseTraits(
            type=case.type, entry_point=entry_point, principal=case.owner, labels=draft.labels
        )
        names = tuple(dict.fromkeys((*draft.notify, *await self.directory.choose(traits))))
        if not names:
            return case
        names = names[:MAX_RECIPIENTS]
        links = (digest_token(self.derive_review_token(case.id, name)) for name in names)
        return replace(
            case,
            recipients=names,
            review_digests=(*case.review_digests, *links),
            warn_at=self._compute_warning(case),
        )

    def derive_review_token(self, case_id: str, recipient: str) -> str:
        """Return the token of a recipient's review link; every message to them has the same link."""
        mac = hmac.digest(self._key, f"{case_id}\0{recipient}".encode(), "sha256")
        return base64.urlsafe_b64encode(mac)[:TOKEN_LENGTH].decode()

    async def plan(self, case: Case, events: Iterable[Event]) -> tuple[Delivery, ...]:
        """Return the deliveries that these events cause, to be written in their transaction."""
        if not case.recipients:
            return ()
        planned: list[Delivery] = []
        for event in events:
            if event.type in NOTIFYING:
                planned += await self._plan_kind(case, event, NOTIFYING[event.type])
            elif event.type in stream.FINAL:
                planned += await self._plan_closing(case, event)
        return tuple(planned)

    async def _plan_kind(self, case: Case, event: Event, kind: NotificationKind) -> list[Delivery]:
        return [
            self._build_delivery(case, event, kind, recipient.name, address)
            for recipient in await self.directory.resolve(case.recipients)
            if kind in recipient.kinds
            for address in recipient.addresses
        ]

    async def _plan_closing(self, case: Case, event: Event) -> list[Delivery]:
        """Return one delivery for each address that was written to: its messages are updated."""
        earlier = await self._outbox.list_deliveries(DeliveryFilter(case_id=case.id), limit=MAX_DELIVERIES)
        notified = [read_notification(one) for one in reversed(earlier) if one.courier == NOTIFY]
        places = dict.fromkeys((one.recipient, one.address) for one in notified if one is not None)
        return [self._build_delivery(case, event, "closed", name, address) for name, address in places]

    def _build_delivery(
        self, case: Case, event: Event, kind: DeliveryKind, recipient: str, address: str
    ) -> Delivery:
        id = self._message_id()
        body = Notification(id=id, case_id=case.id, kind=kind, recipient=recipient, address=address)
        return Delivery(
            id=id,
            case_id=case.id,
            event=event.type,
            owner=case.owner or "",
            courier=NOTIFY,
            # Not the address: the owner of the case may list its deliveries.
            target=f"{NOTIFY}:{recipient}:{address.partition(':')[0]}",
            body=msgspec.json.encode(body),
            created_at=event.at,
            next_at=event.at,
        )

    def _compute_warning(self, case: Case) -> datetime | None:
        if self._warn_before is None:
            return None
        open_for = case.expires_at - case.created_at
        is_short = self._warn_before > open_for * MIN_TIME_BEFORE_WARNING
        return None if is_short else case.expires_at - self._warn_before


def read_notification(delivery: Delivery) -> Notification | None:
    """Return the notification in a delivery, or None if its content was erased."""
    return msgspec.json.decode(delivery.body, type=Notification) if delivery.body else None
