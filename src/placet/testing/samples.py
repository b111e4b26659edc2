"""Sample cases, events, grants, deliveries and keys for tests of stores."""

from datetime import datetime, timedelta
from itertools import count
from typing import Any

from placet.cases.case import Case, Decision, Offer, compute_offer_digest
from placet.cases.commands import Command, Link, Respond
from placet.cases.grant import Grant
from placet.cases.machine import CaseStep, apply, begin
from placet.ports.case_store import CaseCreation, CaseUpdate, IdempotencyRecord
from placet.ports.endpoint_store import Endpoint
from placet.ports.key_store import ApiKey
from placet.ports.outbox_store import Delivery
from placet.protocol.poll import Result, SubmissionContext
from placet.testing.clock import DAYBREAK

DAY = timedelta(days=1)
_numbers = count(1)


def new_id(prefix: str) -> str:
    """Return a unique id."""
    return f"{prefix}_{next(_numbers):032x}"


def sample_offer(**changes: Any) -> Offer:
    """Return an offer of a small approval."""
    fields: dict[str, Any] = {
        "type": "approval",
        "prompt": "Send the newsletter to 1,200 readers?",
        "message": "A person must approve this first.",
        "context": {"subject": "Spring", "recipients": 1200},
        "actions": ("approve", "reject"),
    }
    return Offer(**fields | changes)


def sample_creation(
    *,
    owner: str | None = "acme",
    offer: Offer | None = None,
    now: datetime = DAYBREAK,
    replay: IdempotencyRecord | None = None,
    link: CaseStep | None = None,
    endpoint: Endpoint | None = None,
    **changes: Any,
) -> CaseCreation:
    """Return the creation of a case; `changes` are fields of the case."""
    offer = offer or sample_offer()
    case_id = changes.pop("id", None) or new_id("review")
    fields: dict[str, Any] = {
        "type": offer.type,
        "spec_version": "0.9",
        "created_at": now,
        "expires_at": now + DAY,
        "default_action": "skip",
        "offer_digest": compute_offer_digest(case_id, offer),
        "review_digests": ("0" * 64,),
    }
    fresh = Case(id=case_id, owner=owner, **fields | changes)
    case, created = begin(fresh, {"type": offer.type}, actor=owner or "anonymous", salt="grain")
    return CaseCreation(
        case=case,
        offer=offer,
        events=(created,),
        due_at=case.expires_at,
        idempotency=replay,
        link=link,
        endpoint=endpoint,
    )


def sample_step(case: Case, command: Command, *, now: datetime | None = None) -> CaseStep:
    """Return the step of a command, by default a minute after the case was created."""
    return apply(case, command, now=now or case.created_at + timedelta(minutes=1), salt="grain")


def sample_update(case: Case, command: Command, *, now: datetime | None = None, **fields: Any) -> CaseUpdate:
    """Return the update of a case by a command; `fields` are fields of the update."""
    step = sample_step(case, command, now=now)
    return CaseUpdate(step=step, **{"due_at": step.case.expires_at} | fields)


def sample_approval(actor: str = "person", *grants: Grant) -> Respond:
    """Return the command that approves a case and gives these grants."""
    decision = Decision(
        result=Result(action="approve", data={"note": "gladly"}),
        submission=SubmissionContext(mode="browser_submit"),
    )
    return Respond(actor=actor, decision=decision, grants=grants)


def sample_grant(case_id: str, **changes: Any) -> Grant:
    """Return a grant for five emails to one company within a day."""
    fields: dict[str, Any] = {
        "id": new_id("grant"),
        "owner": "acme",
        "tool": "send_email",
        "agent": "mailer",
        "patterns": {"to": {"glob": "*@acme.example"}, "copies": {"exact": 1}},
        "uses": 5,
        "granted_at": DAYBREAK,
        "expires_at": DAYBREAK + DAY,
        "granted_by": "ada@acme.example",
        "call_id": "call_1",
    }
    return Grant(case_id=case_id, **fields | changes)


def sample_link_step(earlier: Case, next_case_id: str) -> CaseStep:
    """Return the step that links an earlier case to its follow-up."""
    return sample_step(earlier, Link(actor="acme", next_case_id=next_case_id))


def sample_idempotency_record(
    key: str, *, owner: str = "acme", expires_at: datetime = DAYBREAK + DAY
) -> IdempotencyRecord:
    """Return the stored first response to an Idempotency-Key."""
    return IdempotencyRecord(
        owner=owner,
        key_digest=key,
        request_digest=f"request of {key}",
        sealed_response=b"\x00\xff sealed",
        expires_at=expires_at,
    )


def sample_delivery(case_id: str, *, now: datetime = DAYBREAK, **changes: Any) -> Delivery:
    """Return a callback delivery that is due now."""
    fields: dict[str, Any] = {
        "id": new_id("msg"),
        "event": "review.completed",
        "owner": "acme",
        "courier": "webhook",
        "target": "https://acme.example/callback",
        "body": b'{"event":"review.completed"}',
        "created_at": now,
        "next_at": now,
    }
    return Delivery(case_id=case_id, **fields | changes)


def sample_endpoint(url: str = "https://acme.example/callback", **changes: Any) -> Endpoint:
    """Return a callback endpoint of the sample owner."""
    fields: dict[str, Any] = {"owner": "acme", "secret": "whsec_first", "created_at": DAYBREAK}
    return Endpoint(url=url, **fields | changes)


def sample_api_key(name: str = "acme", **changes: Any) -> ApiKey:
    """Return an API key that may create and read cases."""
    fields: dict[str, Any] = {
        "id": new_id("key"),
        "digest": new_id("digest"),
        "scopes": ("cases:write", "cases:read"),
        "created_at": DAYBREAK,
    }
    return ApiKey(name=name, **fields | changes)
