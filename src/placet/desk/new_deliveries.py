"""The outbox deliveries of a step: callbacks and releases when a case closes (ruling 18)."""

from collections.abc import Callable

import msgspec
from msgspec import Struct

from placet.cases.case import Case
from placet.cases.events import Event
from placet.cases.machine import CaseStep
from placet.cases.wire import callback_body
from placet.ports.outbox_store import Delivery
from placet.protocol.stream import FINAL

WEBHOOK, RELAY = "webhook", "relay"


class Release(Struct, frozen=True, kw_only=True):
    """Notifies the relay that the case of a held message has closed."""

    hold_id: str
    case_id: str


def build_deliveries(step: CaseStep, message_id: Callable[[], str]) -> tuple[Delivery, ...]:
    """Return the deliveries to write in the transaction of the step. Their bodies do not change later."""
    if step.case.callback_url is None and step.case.subject.entry_point != RELAY:
        return ()
    closing = [event for event in step.events if event.type in FINAL]
    return tuple(owed for event in closing for owed in _owed(step.case, event, message_id))


def _owed(case: Case, event: Event, message_id: Callable[[], str]) -> list[Delivery]:
    owed = []
    if case.callback_url is not None:
        body = callback_body(case, event)
        owed.append(_delivery(case, event, message_id(), WEBHOOK, case.callback_url, body))
    if case.subject.entry_point == RELAY and case.subject.ref is not None:
        # Each hold is a separate target: a slow agent delays only its own deliveries.
        target = f"{RELAY}:{case.subject.ref}"
        body = msgspec.json.encode(Release(hold_id=case.subject.ref, case_id=case.id))
        owed.append(_delivery(case, event, message_id(), RELAY, target, body))
    return owed


def _delivery(case: Case, event: Event, id: str, courier: str, target: str, body: bytes) -> Delivery:
    return Delivery(
        id=id,
        case_id=case.id,
        event=event.type,
        owner=case.owner or "",
        courier=courier,
        target=target,
        body=body,
        created_at=event.at,
        next_at=event.at,
    )
