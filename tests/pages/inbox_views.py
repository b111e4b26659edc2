"""The inbox in every state: full, sifted, decided, empty, and before anyone has signed in."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from placet.cases.call_receipt import CallExecution
from placet.cases.case import Offer
from placet.cases.execution_outcomes import ExecutionOutcome
from placet.desk.asker import Asker
from placet.pages.page_texts import SIGN_IN_PROBLEMS
from placet.pages.view import InboxRow, InboxView, SignInView
from placet.reviews.registry import load_review_type
from placet.server.inbox_list import TYPE_NAMES, get_type_name

STATUSES = ("pending", "opened", "in_progress")
ENDS = {"completed": "approve", "expired": None, "cancelled": None}


_EXECUTIONS = (
    CallExecution(name="send_email"),
    None,
    CallExecution(
        name="send_email", outcome=ExecutionOutcome.RAN, at=datetime(2026, 5, 6, 9, 28, tzinfo=UTC)
    ),
)


def inbox_views(examples: Mapping[str, Offer], now: datetime) -> dict[str, InboxView | SignInView]:
    """All of them by name."""
    rows = tuple(_row(offer, place, now) for place, offer in enumerate(examples.values()))
    rude = _row(Offer(type="x-" + "y" * 90, prompt="W" * 300, message="?"), 1, now)
    ended = tuple(
        InboxRow(
            case_id=f"review_{status}",
            type="approval",
            prompt="May this reply go out?",
            asker=Asker(role="principal", name="parcel-desk", service="Parcel Desk"),
            status=status,
            expires_at=now,
            closed_at=now - timedelta(minutes=3),
            outcome=outcome,
            person="Ada Byron" if outcome else None,
            execution=execution,
        )
        for (status, outcome), execution in zip(ENDS.items(), _EXECUTIONS, strict=True)
    )
    wrong = {
        f"sign-in-{name}": SignInView(
            static_url="/static", sign_in_url="/inbox/sign-in", page_url="/inbox", problem=name
        )
        for name in SIGN_IN_PROBLEMS
    }
    return {
        "inbox": _inbox(now, rows=(*rows, rude), next_url="/inbox?after=1.x"),
        "inbox-sifted": _inbox(now, rows=rows[:1], type="approval", words="parcel", later=True),
        "inbox-decided": _inbox(now, rows=ended, decided=True),
        "inbox-decided-nothing": _inbox(now, decided=True),
        "inbox-empty": _inbox(now),
        "inbox-not-found": _inbox(now, words="zebra"),
        "inbox-not-found-yet": _inbox(now, words="zebra", next_url="/inbox?after=1.x"),
        "inbox-end": _inbox(now, later=True),
        "sign-in": SignInView(static_url="/static", sign_in_url="/inbox/sign-in", page_url="/inbox"),
        **wrong,
    }


def _row(offer: Offer, place: int, now: datetime) -> InboxRow:
    return InboxRow(
        case_id=f"review_{place}",
        type=get_type_name(offer),
        prompt=offer.prompt,
        note=load_review_type(offer).build_list_note(offer) if offer.context else (),
        asker=Asker(role="principal", name="parcel-desk", service=offer.service, agent=offer.agent),
        status=STATUSES[place % 3],
        expires_at=now + timedelta(minutes=7) * 5**place,
    )


def _inbox(now: datetime, **changes: Any) -> InboxView:
    given: dict[str, Any] = {
        "static_url": "/static",
        "name": "Ada Byron",
        "rows": (),
        "types": TYPE_NAMES,
        "waiting_url": "/inbox",
        "decided_url": "/inbox?show=decided",
        "open_url": "/inbox/open",
        "sign_out_url": "/inbox/sign-out",
        "first_url": "/inbox",
        "csrf": "csrf-token",
        "now": now,
        "state": '"state"',
        "page_url": "/inbox",
    }
    return InboxView(**given | changes)
