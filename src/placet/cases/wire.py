"""A case on the wire: the 202 body, the poll response, and the callback body."""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from msgspec import UNSET, Struct
from msgspec.structs import replace

from placet.cases.case import Case, Offer, Subject
from placet.cases.events import Event
from placet.errors import CaseNotFound
from placet.protocol.forms import form_to_wire, parse_form
from placet.protocol.hitl_object import HitlObject, HumanInputRequired
from placet.protocol.poll import PollResponse, Status
from placet.protocol.versions import convert_type, list_absent_fields

_SERVICE = Subject().entry_point


class CaseLinks(Struct, frozen=True, kw_only=True):
    """The URLs of one case with their tokens. They exist only when the case is created."""

    review_url: str
    poll_url: str
    events_url: str
    submit_url: str | None = None
    submit_token: str | None = None


def build_human_input_required(
    case: Case, offer: Offer, links: CaseLinks, *, warnings: tuple[str, ...] = ()
) -> HumanInputRequired:
    """Return the 202 body for a new case, with the fields of its protocol version."""
    data = _describe_caller(case, offer)
    if warnings:
        data["warnings"] = list(warnings)
    if offer.affirmative_actions:  # the protocol's `hitl` object has no field for them
        data["affirmative_actions"] = list(offer.affirmative_actions)
    type = convert_type(case.type, version=case.spec_version)
    if type != case.type:
        data["type"] = case.type
    hitl = HitlObject(
        spec_version=case.spec_version,
        case_id=case.id,
        review_url=links.review_url,
        poll_url=links.poll_url,
        events_url=links.events_url,
        callback_url=case.callback_url,
        type=type,
        prompt=offer.prompt,
        timeout=offer.timeout,
        default_action=case.default_action,
        created_at=case.created_at,
        expires_at=case.expires_at,
        context=_build_wire_context(offer) or None,
        reminder_at=case.reminders[0] if len(case.reminders) == 1 else case.reminders or None,
        previous_case_id=case.previous_case_id,
        surface=offer.surface,
        submit_url=links.submit_url,
        submit_token=links.submit_token,
        inline_actions=offer.inline_actions if links.submit_url else None,
        verification_policy=offer.verification_policy,
    )
    absent = dict.fromkeys(list_absent_fields(case.spec_version, of="hitl"))
    return HumanInputRequired(
        message=offer.message,
        data=data or UNSET,
        hitl=replace(hitl, **absent) if absent else hitl,
    )


def _describe_caller(case: Case, offer: Offer) -> dict[str, Any]:
    """Return the service's name as declared, and the principal's name, which the server has verified."""
    names: dict[str, Any] = {}
    if offer.service:
        names["service"] = {"name": offer.service}
    if case.owner and case.subject.entry_point == _SERVICE:
        names["principal"] = {"name": case.owner}
    return names


def _build_wire_context(offer: Offer) -> dict[str, Any]:
    """Return what the agent gets of the context, as the published schemas allow it."""
    context = offer.context
    if offer.page_only:
        context = {name: value for name, value in context.items() if name not in offer.page_only}
    if "form" not in context:
        return context
    return {**context, "form": form_to_wire(parse_form(context["form"]))}


def build_poll_response(case: Case) -> PollResponse:
    """Return the poll response, with the fields of the case's state and protocol version."""
    return _POLLS[case.status](case)


def _describe_live_state(case: Case) -> PollResponse:
    return PollResponse(
        status=case.status.value,
        case_id=case.id,
        created_at=case.created_at,
        opened_at=case.opened_at,
        expires_at=case.expires_at,
        progress=case.progress,
        reminder_sent_at=case.reminder_sent_at,
        next_case_id=case.next_case_id,
    )


def _build_completed(case: Case) -> PollResponse:
    decision = case.decision
    if decision is None:
        raise CaseNotFound("This case's content was erased at the end of its retention.")
    without_context = "submission_context" in list_absent_fields(case.spec_version, of="poll")
    return PollResponse(
        status="completed",
        case_id=case.id,
        created_at=case.created_at,
        opened_at=case.opened_at,
        expires_at=case.expires_at,
        completed_at=case.closed_at,
        result=decision.result,
        responded_by=decision.responded_by,
        submission_context=None if without_context else decision.submission,
        reminder_sent_at=case.reminder_sent_at,
        next_case_id=case.next_case_id,
    )


def _build_expired(case: Case) -> PollResponse:
    return PollResponse(
        status="expired",
        case_id=case.id,
        created_at=case.created_at,
        opened_at=case.opened_at,
        expired_at=case.closed_at,
        default_action=case.default_action,
        next_case_id=case.next_case_id,
    )


def _build_cancelled(case: Case) -> PollResponse:
    return PollResponse(
        status="cancelled",
        case_id=case.id,
        created_at=case.created_at,
        opened_at=case.opened_at,
        cancelled_at=case.closed_at,
        reason=case.reason,
        next_case_id=case.next_case_id,
    )


_POLLS: Mapping[Status, Callable[[Case], PollResponse]] = {
    Status.PENDING: _describe_live_state,
    Status.OPENED: _describe_live_state,
    Status.IN_PROGRESS: _describe_live_state,
    Status.COMPLETED: _build_completed,
    Status.EXPIRED: _build_expired,
    Status.CANCELLED: _build_cancelled,
}


def build_callback_body(case: Case, event: Event) -> bytes:
    """Return the body of a callback: the event's name, status and time, then its data."""
    data = msgspec.json.decode(event.data or b"{}")
    head = {"event": event.type, "status": case.status.value, "timestamp": event.at}
    return msgspec.json.encode({**head, **data})
