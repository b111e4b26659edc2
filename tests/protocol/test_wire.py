"""What travels, for every version, type and state: exactly the fields its version defines, and no other."""

from datetime import timedelta
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from placet.cases.case import Case, Decision, Offer
from placet.cases.commands import Erase, Expire, Respond
from placet.cases.machine import apply
from placet.cases.wire import CaseLinks, build_callback_body, build_human_input_required, build_poll_response
from placet.errors import CaseNotFound
from placet.protocol.inline_submit import SubmittedBy
from placet.protocol.poll import Progress, RespondedBy, Result, Signature, Status, SubmissionContext
from placet.protocol.surface import Surface
from placet.protocol.verification import VerificationResult
from placet.protocol.versions import SPEC_VERSIONS
from placet.reviews.registry import REVIEW_TYPES, load_custom_type
from tests.cases.orders import ENDS_AT, OPENS_AT, ORDERS, case_in_status
from tests.protocol.policies import policy, verified_evidence

TYPES = (*REVIEW_TYPES, "x-seating-plan")

REQUIRED_05 = {
    "spec_version",
    "case_id",
    "review_url",
    "poll_url",
    "type",
    "prompt",
    "created_at",
    "expires_at",
}
OPTIONAL_05 = {
    "callback_url",
    "events_url",
    "timeout",
    "default_action",
    "context",
    "reminder_at",
    "previous_case_id",
    "surface",
}
ADDED = {
    "0.6": {"submit_url", "submit_token", "inline_actions"},
    "0.8": {"verification_policy"},
}
POLL_05 = {
    "status",
    "case_id",
    "created_at",
    "opened_at",
    "expires_at",
    "completed_at",
    "expired_at",
    "cancelled_at",
    "result",
    "responded_by",
    "progress",
    "reminder_sent_at",
    "next_case_id",
    "default_action",
    "reason",
}
# From 0.9 on the six states are disjoint; what only one of them has is listed here.
ONLY = {
    "completed_at": {"completed"},
    "result": {"completed"},
    "responded_by": {"completed"},
    "submission_context": {"completed"},
    "expired_at": {"expired"},
    "default_action": {"expired"},
    "cancelled_at": {"cancelled"},
    "reason": {"cancelled"},
    "progress": {"in_progress"},
}
MUST_HAVE = {
    "pending": {"expires_at"},
    "opened": {"opened_at", "expires_at"},
    "in_progress": {"opened_at", "expires_at"},
    "completed": {"completed_at", "result"},
    "expired": {"expired_at", "default_action"},
    "cancelled": {"cancelled_at"},
}


def hitl_fields(version: str) -> set[str]:
    later = [fields for since, fields in ADDED.items() if since <= version]
    return REQUIRED_05.union(OPTIONAL_05, *later)


def poll_fields(version: str) -> set[str]:
    return POLL_05 | ({"submission_context"} if version >= "0.8" else set())


def make_full_offer(type: str) -> Offer:
    kind = REVIEW_TYPES.get(type, load_custom_type())
    example = kind.example()
    return Offer(
        type=type,
        prompt=example["prompt"],
        message=example["message"],
        context=example["context"],
        actions=kind.actions or ("seat", "skip"),
        inline_actions=(kind.actions or ("seat", "skip"))[:1],
        surface=Surface(format="json-render", version="1.0"),
        verification_policy=policy(),
    )


def make_full_case(version: str, type: str) -> Case:
    case, _ = case_in_status(Status.PENDING)
    return replace(
        case,
        type=type,
        spec_version=version,
        previous_case_id="review_before",
        reminders=(OPENS_AT + timedelta(hours=1), OPENS_AT + timedelta(hours=2)),
    )


LINKS = CaseLinks(
    review_url="https://placet.example/review/r?token=t",
    poll_url="https://placet.example/v1/reviews/r/status",
    events_url="https://placet.example/v1/reviews/r/events",
    submit_url="https://placet.example/v1/reviews/r/respond",
    submit_token="s" * 43,
)


def open_response(version: str, type: str) -> dict[str, Any]:
    body = build_human_input_required(make_full_case(version, type), make_full_offer(type), LINKS)
    read: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(body))
    return read


@pytest.mark.parametrize("type", TYPES)
@pytest.mark.parametrize("version", SPEC_VERSIONS)
def test_a_202_with_everything_in_it_has_exactly_the_fields_of_its_version(version: str, type: str) -> None:
    body = open_response(version, type)
    assert set(body) == {"status", "message", "data", "hitl"}
    named = {"type": type} if (version, type) == ("0.5", "x-seating-plan") else {}
    assert body["data"] == {"principal": {"name": "acme"}, **named}
    assert set(body["hitl"]) == hitl_fields(version)
    assert body["hitl"]["spec_version"] == version
    assert len(body["hitl"]["prompt"]) <= 500


@pytest.mark.parametrize("version", SPEC_VERSIONS)
def test_a_202_says_who_asks_where_every_version_has_room_for_it(version: str) -> None:
    """Not in the `hitl` object, which takes no further members, but among the answer's own data."""
    named = msgspec.structs.replace(make_full_offer("approval"), service="Parcel Desk")
    body = msgspec.to_builtins(build_human_input_required(make_full_case(version, "approval"), named, LINKS))
    assert list(body) == ["status", "message", "data", "hitl"]
    assert body["data"] == {"service": {"name": "Parcel Desk"}, "principal": {"name": "acme"}}
    assert set(body["hitl"]) == hitl_fields(version)


@pytest.mark.parametrize("version", SPEC_VERSIONS)
def test_a_202_has_data_only_where_there_is_something_to_say(version: str) -> None:
    anonymous = replace(make_full_case(version, "x-seating-plan"), owner=None)
    offer = make_full_offer("x-seating-plan")
    bare = msgspec.to_builtins(build_human_input_required(anonymous, offer, LINKS))
    assert list(bare) == ["status", "message", *(["data"] if version == "0.5" else []), "hitl"]
    told = replace(offer, affirmative_actions=("seat",))
    body = msgspec.to_builtins(build_human_input_required(anonymous, told, LINKS, warnings=("No seats.",)))
    named = {"type": "x-seating-plan"} if version == "0.5" else {}
    assert body["data"] == {"warnings": ["No seats."], "affirmative_actions": ["seat"], **named}
    assert set(body["hitl"]) == set(bare["hitl"]) == hitl_fields(version)


def test_a_custom_type_is_an_input_in_0_5_whose_schema_has_no_others() -> None:
    offer = make_full_offer("x-seating-plan")
    old = build_human_input_required(make_full_case("0.5", "x-seating-plan"), offer, LINKS)
    assert (old.hitl.type, msgspec.to_builtins(old)["data"]["type"]) == ("input", "x-seating-plan")
    new = build_human_input_required(make_full_case("0.6", "x-seating-plan"), offer, LINKS)
    assert (new.hitl.type, "type" in msgspec.to_builtins(new)["data"]) == ("x-seating-plan", False)


@pytest.mark.parametrize("version", SPEC_VERSIONS)
def test_a_202_with_nothing_optional_keeps_what_is_required(version: str) -> None:
    case = replace(
        make_full_case(version, "approval"), previous_case_id=None, reminders=(), callback_url=None
    )
    offer = Offer(type="approval", prompt="Go?", message="Go?")
    links = replace(LINKS, submit_url=None, submit_token=None)
    hitl = msgspec.to_builtins(build_human_input_required(case, offer, links))["hitl"]
    assert set(hitl) == REQUIRED_05 | {"callback_url", "events_url", "timeout", "default_action"}
    assert hitl["callback_url"] is None


def test_one_reminder_is_a_moment_and_several_are_a_list() -> None:
    two = make_full_case("0.9", "approval")
    one = replace(two, reminders=two.reminders[:1])
    offer = make_full_offer("approval")
    assert isinstance(build_human_input_required(two, offer, LINKS).hitl.reminder_at, tuple)
    assert build_human_input_required(one, offer, LINKS).hitl.reminder_at == two.reminders[0]


def test_inline_actions_without_an_address_to_submit_to_do_not_travel() -> None:
    links = replace(LINKS, submit_url=None, submit_token=None)
    hitl = build_human_input_required(
        make_full_case("0.9", "approval"), make_full_offer("approval"), links
    ).hitl
    assert hitl.inline_actions is None


def test_a_form_travels_in_the_shape_the_specification_gives_it() -> None:
    context = open_response("0.9", "input")["hitl"]["context"]
    assert set(context["form"]) in ({"fields"}, {"steps"})


def make_full_poll(version: str, status: Status) -> dict[str, Any]:
    """A poll of a case that has whatever it can have in this state."""
    case = replace(
        case_in_status(status)[0],
        spec_version=version,
        opened_at=None if status is Status.PENDING else OPENS_AT,
        reminder_sent_at=OPENS_AT,
        next_case_id="review_next",
    )
    if status is Status.IN_PROGRESS:
        case = replace(
            case, progress=Progress(current_step=1, total_steps=2, completed_fields=0, total_fields=3)
        )
    if status is Status.COMPLETED:
        case = replace(case, decision=FULL_DECISION)
    read: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(build_poll_response(case)))
    return read


FULL_DECISION = Decision(
    result=Result(
        action="approve",
        data={"feedback": "go"},
        signature=Signature(
            algorithm="ES256", value="h..s", signed_at=ENDS_AT, signer="https://placet.example/jwks.json"
        ),
    ),
    submission=SubmissionContext(
        mode="inline_submit",
        submitted_via="telegram_inline_button",
        submitted_by=SubmittedBy(platform="telegram", platform_user_id="42", display_name="Ada"),
        verification_result=VerificationResult(
            satisfied=True,
            verified_evidence=(verified_evidence(assurance_level="high"),),
            missing_requirements=("x",),
        ),
    ),
    responded_by=RespondedBy(name="Ada", email="ada@example.com"),
    replay_digest="0" * 64,
)


@pytest.mark.parametrize("status", Status)
@pytest.mark.parametrize("version", SPEC_VERSIONS)
def test_a_poll_has_the_fields_of_its_version_and_state_only(version: str, status: Status) -> None:
    body = make_full_poll(version, status)
    forbidden = {field for field, states in ONLY.items() if status not in states}
    assert set(body) <= poll_fields(version) - forbidden
    assert set(body) >= {"status", "case_id", "created_at"} | MUST_HAVE[status]
    assert body["status"] == status


@pytest.mark.parametrize("version", SPEC_VERSIONS)
def test_submission_context_is_sent_since_0_8(version: str) -> None:
    body = make_full_poll(version, Status.COMPLETED)
    assert ("submission_context" in body) == (version >= "0.8")
    assert body["responded_by"] == {"name": "Ada", "email": "ada@example.com"}
    assert set(body["result"]) == {"action", "data", "signature"}
    assert set(body["result"]["signature"]) == {"algorithm", "value", "signed_at", "signer"}


def test_internal_fields_are_not_sent() -> None:
    told = msgspec.json.encode(make_full_poll("0.9", Status.COMPLETED))
    for private in (b"digest", b"owner", b"chain", b"callback", b"acme"):
        assert private not in told


def test_an_expired_case_has_no_result_whatever_its_default_says() -> None:
    """Ruling 6: nothing is executed and nothing is made up."""
    case = replace(case_in_status(Status.PENDING)[0], default_action="approve")
    body = build_poll_response(apply(case, ORDERS[Expire], now=ENDS_AT, salt="grain").case)
    assert (body.status, body.default_action, body.result) == ("expired", "approve", None)


def test_an_erased_result_is_not_found_rather_than_empty() -> None:
    case, _ = case_in_status(Status.COMPLETED)
    with pytest.raises(CaseNotFound):
        build_poll_response(apply(case, ORDERS[Erase], now=ENDS_AT, salt="grain").case)


@pytest.mark.parametrize(
    ("status", "fields"),
    [
        (Status.COMPLETED, {"completed_at", "result"}),
        (Status.EXPIRED, {"expired_at", "default_action"}),
        (Status.CANCELLED, {"cancelled_at", "reason"}),
    ],
)
def test_a_callback_says_what_happened_to_which_case_and_when(status: Status, fields: set[str]) -> None:
    case, events = case_in_status(status)
    body = msgspec.json.decode(build_callback_body(case, events[-1]))
    assert set(body) == {"event", "status", "timestamp", "case_id"} | fields
    assert body["event"] == f"review.{status}"
    assert (body["status"], body["case_id"]) == (status, case.id)


def test_a_callback_carries_the_result_exactly_as_the_poll_does() -> None:
    data = {"big": 9007199254740991, "small": 1e-7, "text": 'ü\u2028"', "nested": [{"a": None}]}
    decision = replace(FULL_DECISION, result=replace(FULL_DECISION.result, data=data))
    case, _ = case_in_status(Status.OPENED)
    step = apply(case, Respond(actor="person", decision=decision), now=OPENS_AT, salt="grain")
    body = msgspec.json.decode(build_callback_body(step.case, step.events[0]))
    polled = msgspec.json.decode(msgspec.json.encode(build_poll_response(step.case)))
    assert body["result"] == polled["result"]
    assert body["completed_at"] == polled["completed_at"]
