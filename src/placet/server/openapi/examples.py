"""Examples in the API's description: made of the structs themselves, so that they cannot drift."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec
from msgspec.structs import replace

from placet.cases.tokens import TOKEN_LENGTH
from placet.protocol.event_data import EventData
from placet.protocol.hitl_object import HitlObject, HumanInputRequired
from placet.protocol.inline_submit import SubmitReceipt, SubmitRequest, SubmittedBy
from placet.protocol.poll import PollResponse, Result, SubmissionContext
from placet.protocol.review_callback import ReviewCallback
from placet.reviews import BUILT_IN
from placet.server.case_api import CancelRequest, CaseList, CaseSummary
from placet.server.endpoint_api import DeliveryList, DeliveryView, EndpointList, EndpointRequest, EndpointView
from placet.server.grant_api import GrantList, GrantView, UseReply, UseRequest
from placet.server.openapi.models import StreamedEvent

CASE = "review_5f0c1a9e7b3d4c2f8a6e1d0b9c8f7a6e"
BASE = "https://placet.example"
RECEIVER = "https://agent.example/hooks/decisions"
ASKED_AT = datetime(2026, 5, 6, 9, 0, tzinfo=UTC)
ANSWERED_AT = datetime(2026, 5, 6, 9, 12, 30, tzinfo=UTC)
ENDS_AT = datetime(2026, 5, 6, 13, 0, tzinfo=UTC)


def _token(purpose: str) -> str:
    return f"an-example-of-a-{purpose}-token".ljust(TOKEN_LENGTH, "0")


_OPENING = BUILT_IN["approval"].example()
_RESULT = Result(action="approve", data={"feedback": "Kind and clear."})
_PRESSED_BY = SubmittedBy(platform="telegram", platform_user_id="481516", display_name="Mara")

_HITL = HitlObject(
    spec_version="0.9",
    case_id=CASE,
    review_url=f"{BASE}/review/{CASE}?token={_token('review')}",
    poll_url=f"{BASE}/v1/reviews/{CASE}/status",
    events_url=f"{BASE}/v1/reviews/{CASE}/events",
    callback_url=None,
    type="approval",
    prompt=_OPENING["prompt"],
    timeout="4h",
    default_action="reject",
    created_at=ASKED_AT,
    expires_at=ENDS_AT,
    submit_url=f"{BASE}/v1/reviews/{CASE}/respond",
    submit_token=_token("submit"),
    inline_actions=("approve", "reject"),
)
_PENDING = PollResponse(status="pending", case_id=CASE, created_at=ASKED_AT, expires_at=ENDS_AT)
_COMPLETED = PollResponse(
    status="completed",
    case_id=CASE,
    created_at=ASKED_AT,
    expires_at=ENDS_AT,
    completed_at=ANSWERED_AT,
    result=_RESULT,
    submission_context=SubmissionContext(
        mode="inline_submit", submitted_via="telegram_inline_button", submitted_by=_PRESSED_BY
    ),
)
_EXPIRED = PollResponse(
    status="expired", case_id=CASE, created_at=ASKED_AT, expired_at=ENDS_AT, default_action="reject"
)
_CANCELLED = PollResponse(
    status="cancelled", case_id=CASE, created_at=ASKED_AT, cancelled_at=ANSWERED_AT, reason="Sent by phone."
)
_ENDPOINT = EndpointView(
    url=RECEIVER, secrets=("whsec_ZXhhbXBsZS1zZWNyZXQtb2YtMzItYnl0ZXMtMDAwMDA=",), created_at=ASKED_AT
)
_DELIVERY = DeliveryView(
    id="msg_0b1c2d3e4f5061728394a5b6c7d8e9f0",
    case_id=CASE,
    event="review.completed",
    target=RECEIVER,
    state="delivered",
    attempts=1,
    created_at=ANSWERED_AT,
    last_status=200,
    settled_at=ANSWERED_AT,
)

_GRANT = GrantView(
    id="grant_019e1f3a5b7cd1e2f3a4b5c6d7e8f9",
    state="live",
    tool="send_email",
    agent="mailer",
    patterns={"to": {"glob": "*@acme.example"}, "template": {"exact": "weekly-report"}},
    uses=20,
    uses_left=19,
    holds=True,
    granted_at=ANSWERED_AT,
    expires_at=ENDS_AT,
    granted_by="mara@acme.example",
    owner="reports",
    case_id=CASE,
    call_id="call_7d1",
)
_ENDED = replace(_GRANT, state="revoked", holds=False, revoked_at=ENDS_AT, revoked_by="key:reports")


def _plain(**examples: Any) -> Mapping[str, Any]:
    return {name: msgspec.json.decode(msgspec.json.encode(value)) for name, value in examples.items()}


DRAFTS = {name: kind.example() for name, kind in BUILT_IN.items()}
OPENED = _plain(
    opened=HumanInputRequired(
        message=_OPENING["message"], data={"service": {"name": "Example Desk"}}, hitl=_HITL
    )
)
POLLS = _plain(pending=_PENDING, completed=_COMPLETED, expired=_EXPIRED, cancelled=_CANCELLED)
WITHDRAWN = _plain(withdrawn=_CANCELLED)
SUBMISSION = _plain(
    pressed=SubmitRequest(action="approve", submitted_via="telegram_inline_button", submitted_by=_PRESSED_BY)
)
RECEIPT = _plain(taken=SubmitReceipt(status="completed", case_id=CASE, completed_at=ANSWERED_AT))
REASON = _plain(reason=CancelRequest(reason="Sent by phone."))
LISTED = _plain(one=CaseList(cases=(CaseSummary(type="approval", poll=_PENDING),)))
REGISTRATION = _plain(
    register=EndpointRequest(url=RECEIVER), rotate=EndpointRequest(url=RECEIVER, rotate=True)
)
ENDPOINT = _plain(registered=_ENDPOINT)
ENDPOINTS = _plain(one=EndpointList(callbacks=(_ENDPOINT,)))
DELIVERY = _plain(again=_DELIVERY)
DELIVERIES = _plain(one=DeliveryList(deliveries=(_DELIVERY,)))
GRANT = _plain(live=_GRANT)
ENDED = _plain(revoked=_ENDED)
GRANTS = _plain(two=GrantList(grants=(_GRANT, _ENDED)))
USE = _plain(
    call=UseRequest(
        key="thread-12/3/call_9f2",
        call_id="call_9f2",
        tool="send_email",
        arguments={"to": "ola@acme.example", "template": "weekly-report"},
        agent="mailer",
        thread_id="thread-12",
    )
)
USED = _plain(covered=UseReply(grant=_GRANT), not_covered=UseReply(grant=None))
CALLBACK = _plain(
    completed=ReviewCallback(
        event="review.completed",
        status="completed",
        timestamp=ANSWERED_AT,
        case_id=CASE,
        completed_at=ANSWERED_AT,
        result=_RESULT,
    )
)
EVENTS = _plain(
    completed=StreamedEvent(
        id="3",
        event="review.completed",
        data=msgspec.json.encode(EventData(case_id=CASE, completed_at=ANSWERED_AT, result=_RESULT)).decode(),
    )
)
