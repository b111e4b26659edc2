"""The review type confirmation: all items are confirmed, or none."""

from typing import Any

import pytest

from placet.errors import InvalidAction, InvalidSubmission, ValidationFailed
from placet.reviews.confirmation.review_type import Confirmation
from tests.reviews.offers import offer

KIND = Confirmation()
MAILS = [{"id": "one", "label": "To Ada", "size": 3}, {"id": "two", "label": "To Ben"}, "three"]


def check(action: str, data: dict[str, Any], **context: Any) -> dict[str, Any]:
    return KIND.check(offer(KIND, context), action, data)


def test_a_bare_press_confirms_everything_by_name() -> None:
    asked = offer(KIND, {"items": MAILS})
    assert KIND.build_inline_data(asked, "confirm") == {"confirmed_items": ["one", "two", "three"]}
    assert KIND.build_inline_data(asked, "cancel") == {}
    assert KIND.build_inline_data(offer(KIND, {}), "confirm") == {}
    assert check("confirm", {}) == {}


@pytest.mark.parametrize("data", [{}, {"confirmed_items": None}, {"note": "All of them"}])
@pytest.mark.parametrize("allow_partial", [True, False])
def test_saying_nothing_of_the_items_confirms_none_of_them(data: dict[str, Any], allow_partial: bool) -> None:
    with pytest.raises(InvalidSubmission) as refusal:
        check("confirm", data, items=MAILS, allow_partial=allow_partial)
    assert refusal.value.details["unconfirmed"] == ["one", "two", "three"]


@pytest.mark.parametrize("name", ["items", "items_to_confirm"])
def test_items_are_found_under_their_common_names(name: str) -> None:
    assert check("confirm", {"confirmed_items": ["two", "one", "three"]}, **{name: MAILS}) == {
        "confirmed_items": ["two", "one", "three"]
    }


@pytest.mark.parametrize(("ticked", "missing"), [(["one"], ["two", "three"]), ([], ["one", "two", "three"])])
def test_an_unconfirmed_item_is_refused_by_name(ticked: list[str], missing: list[str]) -> None:
    with pytest.raises(InvalidSubmission, match=f"every item.*{missing[-1]}") as refusal:
        check("confirm", {"confirmed_items": ticked}, items=MAILS)
    assert refusal.value.details["unconfirmed"] == missing


def test_some_are_enough_where_the_service_allows_it() -> None:
    partial = {"items": MAILS, "allow_partial": True}
    assert check("confirm", {"confirmed_items": ["two"]}, **partial) == {"confirmed_items": ["two"]}
    with pytest.raises(InvalidSubmission, match="at least one item") as refusal:
        check("confirm", {"confirmed_items": []}, **partial)
    assert refusal.value.details["unconfirmed"] == ["one", "two", "three"]


@pytest.mark.parametrize(
    ("ticked", "complaint"),
    [
        (["one", "two", "three", "four"], "These were not offered: four"),
        (["one", "one", "two", "three"], "Named more than once: one"),
        ("one", "must be a list of ids"),
        ([1], "Every id must be non-empty text"),
    ],
)
def test_items_that_were_not_offered_are_refused(ticked: Any, complaint: str) -> None:
    with pytest.raises(InvalidSubmission, match=complaint):
        check("confirm", {"confirmed_items": ticked}, items=MAILS)


def test_items_cannot_be_confirmed_where_there_are_none() -> None:
    assert check("confirm", {"confirmed_items": []}) == {}
    with pytest.raises(InvalidSubmission, match="not offered: one"):
        check("confirm", {"confirmed_items": ["one"]})


def test_cancelling_needs_nothing_and_keeps_only_the_note() -> None:
    data = {"confirmed_items": ["one"], "confirm_word": "no", "note": "Not today"}
    assert check("cancel", data, items=MAILS, confirm_word="send") == {"note": "Not today"}


def test_a_typed_word_is_compared_and_dropped() -> None:
    assert check("confirm", {"confirm_word": " send "}, confirm_word="send") == {}


@pytest.mark.parametrize("data", [{}, {"confirm_word": ""}, {"confirm_word": "Send"}, {"confirm_word": 5}])
def test_without_the_typed_word_nothing_is_confirmed(data: dict[str, Any]) -> None:
    with pytest.raises(InvalidSubmission, match=r"^confirm_word: "):
        check("confirm", data, confirm_word="send")


def test_a_word_to_type_leaves_only_cancel_inline() -> None:
    assert KIND.inline_for({}) == ("confirm", "cancel")
    assert KIND.inline_for({"confirm_word": "send"}) == ("cancel",)


@pytest.mark.parametrize("data", [{"confirmed": True}, {"confirmed_count": 3}])
def test_unknown_keys_are_refused_by_name(data: dict[str, Any]) -> None:
    with pytest.raises(InvalidSubmission, match=f"does not ask for: {next(iter(data))}"):
        check("confirm", data)


def test_another_action_is_refused() -> None:
    with pytest.raises(InvalidAction, match="it offers confirm, cancel"):
        check("approve", {})


@pytest.mark.parametrize(
    ("context", "path"),
    [
        ({"items": [{"label": "Nameless"}]}, "context.items[0]"),
        ({"items": ["a", "a"]}, "context.items[1]"),
        ({"items_to_confirm": []}, "context.items_to_confirm"),
        ({"confirm_word": ""}, "context.confirm_word"),
        ({"confirm_word": " x "}, "context.confirm_word"),
        ({"confirm_word": 5}, "context.confirm_word"),
        ({"confirm_word": "se\u200bnd"}, "context.confirm_word"),
        ({"confirm_word": "x" * 101}, "context.confirm_word"),
        ({"allow_partial": "yes"}, "context.allow_partial"),
        ({"irreversible": 1}, "context.irreversible"),
    ],
)
def test_invalid_items_are_refused_at_opening(context: dict[str, Any], path: str) -> None:
    with pytest.raises(ValidationFailed) as refusal:
        KIND.prepare(context)
    assert refusal.value.details["path"] == path


def test_a_page_with_nothing_ticked_confirms_nothing() -> None:
    asked = offer(KIND, {"items": MAILS})
    data = KIND.form_data(asked, [("note", ""), ("csrf_like", "x")])
    assert data["confirmed_items"] == []
    with pytest.raises(InvalidSubmission, match="every item"):
        KIND.check(asked, "confirm", data)


def test_the_page_sends_ticks_and_the_typed_word() -> None:
    asked = offer(KIND, {"items": MAILS, "confirm_word": "send", "warning": "For good", "extra": 1})
    pairs = [("confirmed_items", "one"), ("confirmed_items", "two"), ("confirm_word", "send")]
    data = KIND.form_data(asked, pairs)
    assert data == {"confirmed_items": ["one", "two"], "confirm_word": "send"}
    substance = KIND.build_page_content(asked, data)
    assert [item["picked"] for item in substance["items"]] == [True, True, False]
    assert (substance["warning"], substance["facts"]) == ("For good", {"extra": 1})


@pytest.mark.parametrize(
    ("typed", "advice"), [("", "Type “Send” to confirm"), ("send", "Capital"), ("go", "another word")]
)
def test_a_wrong_word_is_told_what_to_type(typed: str, advice: str) -> None:
    with pytest.raises(InvalidSubmission, match=advice) as refusal:
        check("confirm", {"confirm_word": typed}, confirm_word="Send")
    assert "“Send”" in refusal.value.details["fields"]["confirm_word"]


def test_a_suggested_reason_goes_with_the_note() -> None:
    asked = offer(KIND, {"presets": ["Checked with Ada"]})
    assert KIND.form_data(asked, [("preset", "1"), ("note", "")]) == {"note": "Checked with Ada"}
    assert KIND.build_page_content(asked, {})["facts"] == {}


def test_missing_ticks_and_a_wrong_word_are_told_at_once() -> None:
    with pytest.raises(InvalidSubmission) as refusal:
        check("confirm", {"confirmed_items": ["one"], "confirm_word": "no"}, items=MAILS, confirm_word="send")
    assert refusal.value.details["fields"].keys() == {"confirmed_items", "confirm_word"}
