"""The review type approval: approve, edit or reject."""

from typing import Any

import pytest

from placet.errors import InvalidAction, InvalidSubmission
from placet.reviews.approval.review_type import Approval
from tests.reviews.offers import offer

KIND = Approval()
LETTER: dict[str, Any] = {
    "artifact": {"subject": "Hello", "body": "One\r\ntwo", "pages": 3},
    "order": "A shelf",
}


def check(action: str, data: dict[str, Any], context: dict[str, Any] | None = None) -> dict[str, Any]:
    return KIND.check(offer(KIND, context), action, data)


def test_inline_buttons_never_offer_edit() -> None:
    assert KIND.inline_for(LETTER) == ("approve", "reject")


@pytest.mark.parametrize("action", ["approve", "reject"])
def test_a_bare_press_is_an_answer(action: str) -> None:
    assert check(action, {}) == {}


def test_feedback_is_kept_and_blank_feedback_is_not() -> None:
    assert check("approve", {"feedback": "Fine", "edits": {}}) == {"feedback": "Fine"}
    assert check("approve", {"feedback": "  ", "edits": None}) == {}


@pytest.mark.parametrize("data", [{"feedback": "Shorter"}, {"edits": {"subject": "Hi"}}])
def test_an_edit_says_what_should_change(data: dict[str, Any]) -> None:
    assert check("edit", data) == data


@pytest.mark.parametrize("data", [{}, {"feedback": " \n"}, {"edits": {}}, {"feedback": "", "edits": {}}])
def test_an_edit_without_edits_or_feedback_is_refused(data: dict[str, Any]) -> None:
    with pytest.raises(InvalidSubmission, match="Say what should change") as refusal:
        check("edit", data)
    assert refusal.value.details["fields"].keys() == {"feedback"}
    assert refusal.value.details["missing"] == ["edits"]


@pytest.mark.parametrize("action", ["approve", "reject"])
def test_an_approval_of_something_else_than_was_shown_is_refused(action: str) -> None:
    with pytest.raises(InvalidSubmission, match=r"^edits: You made changes"):
        check(action, {"edits": {"subject": "Other"}})


@pytest.mark.parametrize("action", ["foo", "select", "", "x-next", "Approve"])
def test_an_action_of_another_kind_is_refused_by_name(action: str) -> None:
    with pytest.raises(InvalidAction, match=r"it offers approve, edit, reject\."):
        check(action, {})


def test_an_action_that_this_offer_leaves_out_is_refused() -> None:
    with pytest.raises(InvalidAction, match="it offers approve, reject"):
        KIND.check(offer(KIND, actions=("approve", "reject")), "edit", {"feedback": "x"})


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        ({"approved": True}, "does not ask for: approved"),
        ({"feedback": 5}, "feedback: This must be text"),
        ({"feedback": "x" * 10_001}, "feedback: Shorten this to 10,000 characters; it has 10,001"),
        ({"edits": ["subject"]}, "edits: This must be an object"),
        ({"edits": "subject"}, "edits: This must be an object"),
    ],
)
def test_data_that_does_not_fit_is_refused_by_name(data: dict[str, Any], complaint: str) -> None:
    with pytest.raises(InvalidSubmission, match=complaint):
        check("edit", data)


@pytest.mark.parametrize("name", ["artifact", "draft", "content", "document", "preview"])
def test_the_artifact_is_found_under_its_common_names(name: str) -> None:
    substance = KIND.build_page_content(offer(KIND, {name: "The text", "order": "A shelf"}), {})
    assert substance["artifact"] == "The text"
    assert substance["facts"] == {"order": "A shelf"}


def test_without_an_artifact_the_context_is_what_is_reviewed() -> None:
    substance = KIND.build_page_content(offer(KIND, {"order": "A shelf"}), {})
    assert (substance["artifact"], substance["editable"], substance["facts"]) == (
        {"order": "A shelf"},
        [],
        {},
    )


def test_an_untouched_page_sends_no_edits() -> None:
    pairs = [("feedback", ""), ("edit.subject", "Hello"), ("edit.body", "One\r\ntwo"), ("shown", "abc")]
    data = KIND.form_data(offer(KIND, LETTER), pairs)
    assert KIND.check(offer(KIND, LETTER), "approve", data) == {}


def test_text_changed_on_the_page_becomes_edits() -> None:
    pairs = [("feedback", "Softer"), ("edit.subject", "Hi"), ("edit.body", "One\r\ntwo"), ("edit.cc", "me")]
    assert KIND.form_data(offer(KIND, LETTER), pairs) == {"feedback": "Softer", "edits": {"subject": "Hi"}}


def test_a_plain_text_is_edited_under_its_own_name() -> None:
    pairs = [("edit.draft", "New")]
    assert KIND.form_data(offer(KIND, {"draft": "Old"}), pairs) == {"edits": {"draft": "New"}}


def test_text_with_hidden_characters_is_not_offered_for_editing() -> None:
    hidden = {"artifact": {"plain": "a", "hidden": "a\u202eb", "nul": "a\x00b"}}
    substance = KIND.build_page_content(offer(KIND, hidden), {})
    assert [part["name"] for part in substance["editable"]] == ["plain"]
    assert KIND.form_data(offer(KIND, hidden), [("edit.nul", "a\ufffdb")]) == {}


def test_what_was_typed_is_shown_again() -> None:
    substance = KIND.build_page_content(offer(KIND, LETTER), {"edits": {"subject": "Hi"}})
    assert [part["typed"] for part in substance["editable"]] == ["Hi", "One\ntwo", "3"]


NESTED: dict[str, Any] = {
    "draft": {
        "mail": {"subject": "Hello", "copies": 2, "urgent": False},
        "to": [{"name": "Ada"}, {"name": "Eve"}],
        "a/b": "odd",
        "none": None,
    }
}


def test_every_part_of_a_nested_artifact_is_edited_by_the_way_to_it() -> None:
    substance = KIND.build_page_content(offer(KIND, NESTED), {})
    names = ["mail/subject", "mail/copies", "mail/urgent", "to/0/name", "to/1/name", "a~1b"]
    assert [part["name"] for part in substance["editable"]] == names
    assert substance["editable"][3]["path"] == ("to", 0, "name")
    assert not substance["wholly"]


def test_edits_hold_each_changed_field_of_the_artifact_whole() -> None:
    pairs = [
        ("edit.mail/subject", "Hi"),
        ("edit.mail/copies", " 3 "),
        ("edit.to/0/name", "Ada"),
        ("edit.to/1/name", "Eva"),
        ("edit.a~1b", "even"),
    ]
    edits = {
        "mail": {"subject": "Hi", "copies": 3, "urgent": False},
        "to": [{"name": "Ada"}, {"name": "Eva"}],
        "a/b": "even",
    }
    assert KIND.form_data(offer(KIND, NESTED), pairs) == {"edits": edits}
    assert NESTED["draft"]["to"][1] == {"name": "Eve"}
    shown = KIND.build_page_content(offer(KIND, NESTED), {"edits": edits})["editable"]
    assert [part["typed"] for part in shown] == ["Hi", "3", "false", "Ada", "Eva", "even"]
    assert [part["changed"] for part in shown] == [True, True, False, False, True, True]


def test_a_list_is_edited_under_its_own_name() -> None:
    pairs = [("edit.content/1", "drei")]
    assert KIND.form_data(offer(KIND, {"content": ["one", "two"]}), pairs) == {
        "edits": {"content": ["one", "drei"]}
    }


@pytest.mark.parametrize("typed", ["", "three", "1,5", "0x10", "1e400", "９"])
@pytest.mark.parametrize("action", ["edit", "approve", "x-preview"])
def test_a_number_is_not_guessed_from_what_is_none(typed: str, action: str) -> None:
    turn = KIND.handle_post(offer(KIND, LETTER), action, [("edit.pages", typed)], {})
    assert not turn.ready
    assert turn.problems.keys() == {"edits"}
    assert [
        part["problem"] is None
        for part in KIND.build_page_content(offer(KIND, LETTER), turn.values)["editable"]
    ] == [
        True,
        True,
        False,
    ]


def test_a_number_written_otherwise_is_no_change() -> None:
    assert KIND.form_data(offer(KIND, LETTER), [("edit.pages", "3.0")]) == {}


def test_looking_at_changes_answers_nothing_and_loses_nothing() -> None:
    pairs = [("feedback", "Softer"), ("edit.subject", "Hi")]
    turn = KIND.handle_post(offer(KIND, LETTER), "x-preview", pairs, {})
    assert (turn.ready, turn.values) == (False, {"feedback": "Softer", "edits": {"subject": "Hi"}})


def test_undoing_changes_keeps_the_feedback() -> None:
    pairs = [("feedback", "Softer"), ("edit.subject", "Hi")]
    turn = KIND.handle_post(offer(KIND, LETTER), "x-undo", pairs, {})
    assert (turn.ready, turn.values) == (False, {"feedback": "Softer"})


def test_nothing_can_be_edited_where_nobody_can_ask_for_changes() -> None:
    bare = offer(KIND, LETTER, actions=("approve", "reject"))
    assert KIND.build_page_content(bare, {})["editable"] == []
    assert KIND.form_data(bare, [("edit.subject", "Hi")]) == {}


@pytest.mark.parametrize(
    "artifact",
    [
        "x" * 50_001,
        {"long": "x" * 60_000, "short": "y"},
        {"large": {"title": "x", "pages": ["y" * 30_000] * 4}, "short": "y"},
        {f"part {number}": "x" for number in range(41)},
        {"line\nend": "x", "short": "y"},
        {"a": {"b": {"c": {"d": {"e": {"f": {"g": {"h": {"i": "deep"}}}}}}}}},
    ],
)
def test_what_is_too_much_for_a_page_is_left_to_the_feedback(artifact: Any) -> None:
    substance = KIND.build_page_content(offer(KIND, {"artifact": artifact}), {})
    assert not substance["wholly"]
    assert len(substance["editable"]) <= 40


def test_rounds_are_compared_by_the_fields_of_the_artifact_and_the_other_facts() -> None:
    labels = {"presets": ["No"], "action_labels": {"approve": "Send"}}
    assert KIND.extract_comparable(offer(KIND, {**LETTER, **labels})) == {
        **LETTER["artifact"],
        "order": "A shelf",
    }
    assert KIND.extract_comparable(offer(KIND, {"draft": "x", "order": 1})) == {"draft": "x", "order": 1}
    same_name = {"artifact": {"order": "x"}, "order": 1}
    assert KIND.extract_comparable(offer(KIND, same_name)) == same_name


def test_saved_edits_of_another_shape_change_nothing() -> None:
    for edits in ({"mail": "x"}, {"to": {"0": 1}}, {"to": [1, 2]}, "x", {"mail": {"subject": ["x"]}}):
        shown = KIND.build_page_content(offer(KIND, NESTED), {"edits": edits})["editable"]
        assert not any(part["changed"] for part in shown)
