"""What a person fills in beside each call, and the decisions that it comes to."""

from time import thread_time
from typing import Any

from placet.reviews.form_post import PostResult
from placet.reviews.registry import SAMPLES
from tests.reviews.offers import offer
from tests.reviews.test_tool_call_forms import BOOKING, SENT


def calls(*given: dict[str, Any]) -> Any:
    known = {"name": "book", "arguments": SENT, "schema": BOOKING, "high_risk": False}
    listed = [{**known, "id": f"call_{n}", **one} for n, one in enumerate(given, start=1)]
    return offer(SAMPLES["tool_calls"], {"tool_calls": listed})


def post_form(shown: Any, move: str, saved: dict[str, Any] | None = None, **typed: str) -> PostResult:
    pairs = [(name.replace("_", ".", 1).replace("__", "."), text) for name, text in typed.items()]
    return SAMPLES["tool_calls"].handle_post(shown, move, pairs, saved or {})


def test_identical_calls_are_decided_once_and_written_for_each() -> None:
    shown = calls({}, {"name": "pay"}, {}, {"path": ["Scout"]}, {})
    listed = SAMPLES["tool_calls"].build_page_content(shown, {})["calls"]
    assert [(call["name"], call["count"]) for call in listed] == [("book", 3), ("pay", 1), ("book", 1)]
    turn = post_form(shown, "edit", decision_1="approve", decision_2="reject", decision_3="approve")
    assert turn.ready
    assert turn.action == "edit"
    assert {id: said["decision"] for id, said in (turn.data or {})["decisions"].items()} == {
        "call_1": "approve",
        "call_2": "reject",
        "call_3": "approve",
        "call_4": "approve",
        "call_5": "approve",
    }


def test_decisions_that_agree_are_sent_as_that_action() -> None:
    shown = calls({}, {"name": "pay"})
    assert post_form(shown, "edit", decision_1="reject", decision_2="reject").action == "reject"
    assert post_form(shown, "approve").action == "approve"
    assert post_form(shown, "approve", decision_1="approve").action == "approve"
    for move in ("approve", "reject", "edit"):
        turn = post_form(shown, move, decision_1="approve", decision_2="approve", note="Go.")
        if turn.ready:
            SAMPLES["tool_calls"].check(shown, turn.action or "", turn.data or {})


def test_a_button_for_all_never_overrules_what_was_decided_beside_a_call() -> None:
    shown = calls({}, {"name": "pay"})
    assert list(post_form(shown, "approve", decision_2="reject").problems) == ["call-2"]
    assert list(post_form(shown, "reject", decision_1="approve").problems) == ["call-1"]
    assert list(post_form(shown, "approve", edit_1__seats="9").problems) == ["call-1"]
    assert list(post_form(shown, "edit", decision_1="approve").problems) == ["call-2"]
    assert list(post_form(shown, "edit", decision_1="edit", decision_2="approve").problems) == ["call-1"]
    assert list(post_form(shown, "nonsense").problems) == ["call-1", "call-2"]


def test_a_misfit_stands_at_its_box() -> None:
    schema = {
        **BOOKING,
        "properties": {
            **BOOKING["properties"],
            "via": {"type": "array", "items": {"type": "string", "maxLength": 4}},
        },
    }
    shown = calls({"schema": schema})
    boxes = [box["path"] for box in SAMPLES["tool_calls"].build_page_content(shown, {})["calls"][0]["fields"]]
    turn = post_form(shown, "edit", decision_1="edit", edit_1__via="Bonn\nTrier")
    assert list(turn.problems) == [f"call-1-edit-{boxes.index(('via',)) + 1}"]
    assert not turn.ready


def test_half_made_decisions_are_kept_and_shown_again() -> None:
    shown = calls({}, {"name": "pay", "allowed_decisions": ["reject", "respond"]})
    typed = [
        ("decision.1", "edit"),
        ("edit.1.seats", "many"),
        ("answer.2", "Done."),
        ("edit.1.pin", "08-15-27"),
    ]
    kept = SAMPLES["tool_calls"].read_draft(shown, typed, {}).values
    first, second = SAMPLES["tool_calls"].build_page_content(shown, kept)["calls"]
    assert (first["decision"], second["decision"], second["answer"]) == ("edit", None, "Done.")
    by_name = {box["name"]: box for box in first["fields"]}
    assert by_name["edit.1.seats"]["typed"] == "many"
    assert by_name["edit.1.pin"]["saved"]
    assert "08-15-27" not in str(first)
    again = SAMPLES["tool_calls"].handle_post(
        shown,
        "edit",
        [*typed[:1], ("edit.1.seats", "3"), ("edit.1.pin", ""), ("decision.2", "reject"), ("saved", "1.pin")],
        kept,
    )
    assert again.ready
    assert (again.data or {})["decisions"]["call_1"]["arguments"] == {**SENT, "seats": 3, "pin": "08-15-27"}
    undone = SAMPLES["tool_calls"].read_draft(shown, [("edit.1.pin", ""), ("emptied", "1.pin")], kept).values
    assert "08-15-27" not in str(undone)


def test_hostile_schemas_and_many_calls_are_shown_in_good_time() -> None:
    wide = {
        "properties": {f"p{n}": {"$ref": "#/$defs/x"} for n in range(2_000)},
        "$defs": {"x": {"$ref": "#"}},
    }
    circle = {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}}
    branching: dict[str, Any] = {"anyOf": [{"$ref": "#"}] * 1_000, "properties": {"a": {"$ref": "#"}}}
    shown = calls(
        *({"schema": one, "arguments": {"a": {"a": [n]}}} for n, one in enumerate([wide, circle, branching]))
    )
    started = thread_time()
    assert len(SAMPLES["tool_calls"].build_page_content(shown, {})["calls"]) == 3
    many = calls(*({"arguments": {**SENT, "seats": n}} for n in range(200)))
    page = SAMPLES["tool_calls"].build_page_content(many, {})
    assert sum(len(call["fields"]) for call in page["calls"]) < 1_200
    assert thread_time() - started < 3
