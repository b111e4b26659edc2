"""Decisions about tool calls: what can be asked, what an answer may say, and what is kept of it."""

from typing import Any

import msgspec
import pytest

from placet.cases.case import Offer
from placet.desk.draft import draft_from
from placet.errors import BadRequest, InvalidAction, InvalidSubmission, ValidationFailed
from placet.reviews.registry import REVIEW_TYPES, SAMPLES, load_review_type
from placet.testing.desk import DeskForTests, create_desk_for_tests
from tests.reviews.offers import offer

pytestmark = pytest.mark.anyio

MAIL = {
    "type": "object",
    "properties": {
        "to": {"type": "string", "minLength": 3},
        "copies": {"type": "integer", "minimum": 1},
        "token": {"type": "string", "writeOnly": True},
    },
    "required": ["to"],
    "additionalProperties": False,
}


def call(id: str, **changes: Any) -> dict[str, Any]:
    known = {"id": id, "name": "send_mail", "arguments": {"to": "ada"}, "schema": MAIL, "high_risk": False}
    return {**known, **changes}


def context(*calls: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"tool_calls": list(calls or (call("a"), call("b", arguments={"to": "eve"}))), **more}


def make_offer(*calls: dict[str, Any], **more: Any) -> Offer:
    return offer(SAMPLES["tool_calls"], context(*calls, **more))


def check(shown: Offer, action: str, **data: Any) -> dict[str, Any]:
    return load_review_type(shown).check(shown, action, data)


def check_refused(shown: Offer, action: str, **data: Any) -> BadRequest:
    with pytest.raises(BadRequest) as caught:
        check(shown, action, **data)
    assert caught.value.status == 400
    return caught.value


# Which kind


def test_an_approval_of_tool_calls_is_reviewed_call_by_call_and_any_other_as_before() -> None:
    approval = REVIEW_TYPES["approval"]
    assert approval.variant_for(context()) is SAMPLES["tool_calls"]
    assert approval.variant_for({"artifact": "A letter"}) is approval
    assert load_review_type(make_offer()) is SAMPLES["tool_calls"]
    assert SAMPLES["tool_calls"].name == "approval"
    assert REVIEW_TYPES["input"].variant_for(context()) is REVIEW_TYPES["input"]


# Opening


@pytest.mark.parametrize(
    ("broken", "complaint"),
    [
        ({"tool_calls": {}}, "context.tool_calls"),
        ({"tool_calls": None}, "context.tool_calls"),
        ({"tool_calls": []}, "holds 0 calls"),
        ({"tool_calls": ["send"]}, r"context.tool_calls\[0\]"),
        ({"tool_calls": [call(str(n)) for n in range(201)]}, "holds 201 calls"),
        (context(call("")), "id"),
        (context(call("a", name=7)), "name"),
        (context(call("a", arguments="{}")), "arguments"),
        (context({"id": "a", "name": "x"}), "arguments"),
        (context(call("a", description=["x"])), "description"),
        (context(call("a", path="x")), "path"),
        (context(call("a", high_risk="no")), "high_risk"),
        (context(call("a", allowed_decisions=["approve", "postpone"])), "allowed_decisions"),
        (context(call("a", allowed_decisions=[])), "allowed_decisions"),
        (context(call("a"), call("a")), "'a' comes twice"),
        (context(call("a"), automatic=[{"id": "a", "name": "x", "arguments": {}}]), "'a' comes twice"),
        (context(call("a"), automatic="none"), "context.automatic"),
        (context(call("a", schema=[])), "schema"),
        (
            context(call("a"), call("b", schema={"type": "nonsense"})),
            r"tool_calls\[1\].schema cannot be used",
        ),
        (context(call("a", schema={"$ref": "https://elsewhere.example/s"})), "schema cannot be used"),
        (context(call("a", schema={"$ref": "#/nowhere"})), "schema cannot be used"),
        (context(call("a", schema={"pattern": "(a{1000}){1000}"})), "schema cannot be used"),
    ],
)
async def test_calls_that_cannot_be_asked_are_refused_by_their_place(
    broken: dict[str, Any], complaint: str
) -> None:
    kit = create_desk_for_tests()
    with pytest.raises(ValidationFailed, match=complaint) as caught:
        await kit.open(context=broken)
    assert caught.value.status == 400


async def test_silence_never_approves_a_call() -> None:
    kit = create_desk_for_tests()
    with pytest.raises(ValidationFailed, match="approve is not allowed"):
        await kit.open(context=context(), default_action="approve", allow_default_approve=True)
    opened = await kit.open(context=context(), default_action="reject")
    assert opened.hitl["default_action"] == "reject"


def test_a_button_is_offered_only_for_what_every_call_allows() -> None:
    strict = context(call("a"), call("b", allowed_decisions=["reject", "respond"]))
    assert SAMPLES["tool_calls"].inline_for(context()) == ("approve", "reject")
    assert SAMPLES["tool_calls"].inline_for(strict) == ("reject",)
    with pytest.raises(BadRequest, match="decision must be one of reject, respond"):
        check(offer(SAMPLES["tool_calls"], strict), "approve")


# Answers


def test_one_word_decides_every_call() -> None:
    for word in ("approve", "reject"):
        assert check(make_offer(), word) == {"decisions": {"a": {"decision": word}, "b": {"decision": word}}}


def test_mixed_decisions_are_kept_by_call_with_one_note() -> None:
    decisions = {
        "b": {"decision": "edit", "arguments": {"to": "eva", "copies": 2}, "reason": "She married."},
        "a": {"decision": "reject", "reason": "Not to her."},
    }
    kept = check(make_offer(), "edit", decisions=decisions, note="Ask me first.")
    assert kept == {"decisions": decisions, "note": "Ask me first."}
    assert list(kept["decisions"]) == ["a", "b"]


@pytest.mark.parametrize(
    ("action", "decisions", "complaint"),
    [
        ("edit", None, "Send what is decided"),
        ("edit", [], "Send what is decided"),
        ("approve", {"a": {"decision": "approve"}}, "Not decided yet: b"),
        ("edit", {}, "Not decided yet: a, b"),
        ("approve", {}, "Not decided yet: a, b"),
        ("edit", {"a": {"decision": "approve"}, "b": {"decision": "approve"}}, "come to approve"),
        ("approve", {"a": {"decision": "reject"}, "b": {"decision": "reject"}}, "come to reject"),
        ("reject", {"a": {"decision": "reject"}, "b": {"decision": "approve"}}, "come to edit"),
        (
            "approve",
            {"a": {"decision": "approve"}, "b": {"decision": "edit", "arguments": {"to": "eva"}}},
            "edit",
        ),
        (
            "edit",
            {"a": "approve", "b": {"decision": "reject"}},
            "decisions.a: Send an object with a decision",
        ),
        (
            "edit",
            {"a": {"decision": None}, "b": {"decision": "reject"}},
            "decisions.a: decision must be one of",
        ),
        (
            "edit",
            {"a": {"decision": "respond", "answer": "x"}, "b": {"decision": "reject"}},
            "decision must be one of",
        ),
        (
            "edit",
            {"a": {"decision": "approve", "arguments": {"to": "x"}}, "b": {"decision": "reject"}},
            "edit",
        ),
        (
            "edit",
            {"a": {"decision": "approve", "answer": "x"}, "b": {"decision": "reject"}},
            "Only a response",
        ),
        (
            "edit",
            {"a": {"decision": "approve", "name": "rm"}, "b": {"decision": "reject"}},
            "has unknown members: name",
        ),
        ("edit", {"a": {"decision": "edit"}, "b": {"decision": "reject"}}, "needs the arguments"),
        ("edit", {"a": {"decision": "edit", "arguments": "{}"}, "b": {"decision": "reject"}}, "as an object"),
        (
            "edit",
            {"a": {"decision": "reject", "reason": 7}, "b": {"decision": "approve"}},
            "This must be text",
        ),
        (
            "edit",
            {"a": {"decision": "approve"}, "b": {"decision": "approve"}, "c": {"decision": "approve"}},
            "No such call waits here: c",
        ),
    ],
)
def test_a_decision_that_does_not_fit_refuses_them_all(action: str, decisions: Any, complaint: str) -> None:
    error = check_refused(make_offer(), action, decisions=decisions)
    assert isinstance(error, InvalidSubmission)
    assert complaint in error.message
    assert "decisions" in error.details["fields"]


@pytest.mark.parametrize(
    ("arguments", "place", "complaint"),
    [
        ({}, "arguments.to", "The tool needs this."),
        ({"to": "x"}, "arguments.to", "Write at least 3 characters."),
        ({"to": "ada", "copies": 0}, "arguments.copies", "Write 1 or more."),
        ({"to": "ada", "copies": "2"}, "arguments.copies", "Type a whole number here."),
        ({"to": "ada", "cc": "eve"}, "arguments", "does not take these: cc"),
    ],
)
def test_edited_arguments_must_fit_the_tools_schema(
    arguments: dict[str, Any], place: str, complaint: str
) -> None:
    decisions = {"a": {"decision": "edit", "arguments": arguments}, "b": {"decision": "reject"}}
    error = check_refused(make_offer(), "edit", decisions=decisions)
    assert error.details["path"] == f"decisions.a.{place}"
    assert complaint in error.message


def test_without_a_schema_any_arguments_may_be_edited() -> None:
    shown = make_offer(call("a", schema=None))
    decisions = {"a": {"decision": "edit", "arguments": {}}}
    assert check(shown, "edit", decisions=decisions) == {"decisions": decisions}


def test_a_person_may_answer_in_the_tools_place_where_that_is_allowed() -> None:
    shown = make_offer(call("a", allowed_decisions=["approve", "respond"]))
    decisions = {"a": {"decision": "respond", "answer": "It is 21 degrees."}}
    assert check(shown, "edit", decisions=decisions) == {"decisions": decisions}
    assert (
        "in the tool’s place"
        in check_refused(shown, "edit", decisions={"a": {"decision": "respond"}}).message
    )


def test_a_recursive_schema_is_judged_to_its_depth() -> None:
    tree = {"type": "object", "properties": {"name": {"type": "string"}, "child": {"$ref": "#"}}}
    shown = make_offer(call("a", schema=tree, arguments={"name": "root"}))
    good = {"name": "root", "child": {"name": "leaf", "child": {}}}
    assert check(shown, "edit", decisions={"a": {"decision": "edit", "arguments": good}})
    bad = {"child": {"child": {"name": 3}}}
    error = check_refused(shown, "edit", decisions={"a": {"decision": "edit", "arguments": bad}})
    assert error.details["path"] == "decisions.a.arguments.child.child.name"
    assert load_review_type(shown).build_page_content(shown, {})["calls"][0]["fields"]


def test_unknown_actions_and_data_are_refused() -> None:
    with pytest.raises(InvalidAction):
        check(make_offer(), "confirm")
    assert "edits" in check_refused(make_offer(), "approve", edits={}).message
    assert "must be text" in check_refused(make_offer(), "approve", note=["x"]).message


# At the desk


@pytest.fixture
def kit() -> DeskForTests:
    return create_desk_for_tests()


async def test_a_button_in_a_chat_decides_all_calls(kit: DeskForTests) -> None:
    opened = await kit.open(context=context(), inline_actions=["approve", "reject"])
    await kit.human(opened).press("reject")
    poll = await kit.poll(opened.id)
    decided = {"a": {"decision": "reject"}, "b": {"decision": "reject"}}
    assert poll["result"]["action"] == "reject"
    assert poll["result"]["data"] == {"decisions": decided}


async def test_the_event_and_the_callback_carry_every_decision(kit: DeskForTests) -> None:
    opened = await kit.open(context=context(), callback_url="https://agent.example/hooks")
    decisions = {"a": {"decision": "approve"}, "b": {"decision": "reject", "reason": "No."}}
    await kit.human(opened).answer("edit", {"decisions": decisions})
    events = await kit.desk.list_events(opened.id)
    completed = msgspec.json.decode(events[-1].data or b"{}")
    assert completed["result"]["data"]["decisions"] == decisions
    assert (await kit.poll(opened.id)).get("next_case_id") is None
    await kit.outbox.run_once()
    (callback,) = kit.courier.list_requests_to("https://agent.example/hooks")
    assert msgspec.json.decode(callback.body)["result"]["data"]["decisions"] == decisions


# Afterwards


def test_the_page_afterwards_tells_each_decision_and_no_secret() -> None:
    secret = {"to": "ada", "token": "hunter2"}
    shown = make_offer(
        call("a", arguments=secret),
        call("b", arguments=secret),
        call("c", name="look"),
        call("d", name="stop"),
    )
    edited = {"decision": "edit", "arguments": {"to": "eva", "token": "hunter3"}}
    decisions = {
        "a": edited,
        "b": edited,
        "c": {"decision": "approve"},
        "d": {"decision": "reject"},
    }
    kind = load_review_type(shown)
    told = kind.summarize_answer(shown, check(shown, "edit", decisions=decisions, note="Thanks."))
    assert [str(name) for name, _ in told] == [
        "1. send_mail ×2: approved with changes",
        "2. look: approved",
        "3. stop: rejected",
        "note",
    ]
    assert "hunter" not in str(told)
    assert told[0][1]["to"] == "eva"
    assert told[0][1]["token"] != kind.list_original_values(shown)[told[0][0]]["token"]
    assert "hunter" not in str(kind.list_original_values(shown)) + str(kind.extract_comparable(shown))
    assert kind.find_outcome(shown, "edit") == "decide_calls"


def test_the_example_can_be_opened() -> None:
    draft = draft_from(SAMPLES["tool_calls"].example())
    shown = offer(SAMPLES["tool_calls"], draft.context)
    assert load_review_type(shown).build_page_content(shown, {})["facts"]["since"] == "2026-04-06"
    assert load_review_type(shown).recognises(SAMPLES["tool_calls"].example()["context"])


def test_schema_bomb_is_refused_when_the_case_is_opened() -> None:
    steps: dict[str, Any] = {f"l{one}": {"anyOf": [{"$ref": f"#/$defs/l{one + 1}"}] * 2} for one in range(18)}
    schema = {
        "$defs": {**steps, "l18": {"type": "string"}},
        "properties": {"x": {"$ref": "#/$defs/l0"}},
    }
    with pytest.raises(ValidationFailed, match=r"tool_calls\[0\].schema cannot be used: it expands"):
        make_offer(call("a", arguments={"x": "y"}, schema=schema))
