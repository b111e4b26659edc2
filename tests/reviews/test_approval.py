"""Approving, asking for changes, rejecting."""

from typing import Any

import pytest

from assent.errors import InvalidAction, InvalidSubmission
from assent.reviews.approval.kind import Approval
from tests.reviews.offers import offer

KIND = Approval()
LETTER = {"artifact": {"subject": "Hello", "body": "One\r\ntwo", "pages": 3}, "order": "A shelf"}


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
    substance = KIND.substance(offer(KIND, {name: "The text", "order": "A shelf"}), {})
    assert substance["artifact"] == "The text"
    assert substance["facts"] == {"order": "A shelf"}


def test_without_an_artifact_the_context_is_what_is_reviewed() -> None:
    substance = KIND.substance(offer(KIND, {"order": "A shelf"}), {})
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
    substance = KIND.substance(offer(KIND, hidden), {})
    assert [part["key"] for part in substance["editable"]] == ["plain"]
    assert KIND.form_data(offer(KIND, hidden), [("edit.nul", "a\ufffdb")]) == {}


def test_what_was_typed_is_shown_again() -> None:
    substance = KIND.substance(offer(KIND, LETTER), {"edits": {"subject": "Hi"}})
    assert [part["typed"] for part in substance["editable"]] == ["Hi", "One\r\ntwo"]
