"""The outbox deliveries of a step: callbacks, and releases when a case closes (ruling 18)."""

from collections.abc import Callable

import msgspec
from msgspec import Struct

from placet.cases.case import Case
from placet.cases.events import Event
from placet.cases.machine import CaseStep
from placet.cases.wire import build_callback_body
from placet.ports.outbox_store import Delivery
from placet.protocol.stream import FINAL, HANDED_BACK

WEBHOOK, RELAY = "webhook", "relay"
CALLED_BACK = FINAL | {HANDED_BACK}
"""The events that callbacks report to the owner."""


class HoldRelease(Struct, frozen=True, kw_only=True):
    """Notifies the relay that the case of a held message has closed."""

    hold_id: str
    case_id: str


def build_deliveries(step: CaseStep, message_id: Callable[[], str]) -> tuple[Delivery, ...]:
    """Return the deliveries to write in the transaction of the step. Their bodies do not change later."""
    if step.case.callback_url is None and step.case.subject.entry_point != RELAY:
        return ()
    reported = [event for event in step.events if event.type in CALLED_BACK]
    return tuple(owed for event in reported for owed in _build_for_event(step.case, event, message_id))


def _build_for_event(case: Case, event: Event, message_id: Callable[[], str]) -> list[Delivery]:
    owed = []
    if case.callback_url is not None:
        body = build_callback_body(case, event)
        owed.append(_build_delivery(case, event, message_id(), WEBHOOK, case.callback_url, body))
    is_closed = event.type in FINAL
    if is_closed and case.subject.entry_point == RELAY and case.subject.ref is not None:
        # Each hold is a separate target: a slow agent delays only its own deliveries.
        target = f"{RELAY}:{case.subject.ref}"
        body = msgspec.json.encode(HoldRelease(hold_id=case.subject.ref, case_id=case.id))
        owed.append(_build_delivery(case, event, message_id(), RELAY, target, body))
    return owed


def _build_delivery(case: Case, event: Event, id: str, courier: str, target: str, body: bytes) -> Delivery:
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
