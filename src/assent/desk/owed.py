"""What a step owes to machines: one delivery per closing event with a callback (ruling 18)."""

from collections.abc import Callable

from assent.cases.machine import Step
from assent.cases.wire import callback_body
from assent.ports.store import Delivery
from assent.protocol.stream import FINAL


def owed_deliveries(step: Step, message_id: Callable[[], str]) -> tuple[Delivery, ...]:
    """Deliveries to write in the step's own transaction; each body is fixed here, once."""
    case = step.case
    if case.callback_url is None:
        return ()
    return tuple(
        Delivery(
            id=message_id(),
            case_id=case.id,
            event=event.type,
            owner=case.owner or "",
            courier="webhook",
            target=case.callback_url,
            body=callback_body(case, event),
            created_at=event.at,
            next_at=event.at,
        )
        for event in step.events
        if event.type in FINAL
    )
