"""The review type selection."""

from typing import Any

import pytest

from placet.errors import InvalidAction, InvalidSelection, InvalidSubmission, ValidationFailed
from placet.reviews.selection.review_type import Selection
from tests.reviews.offers import offer

KIND = Selection()
ROOMS = [
    {"id": "loft", "title": "Loft", "seats": 24},
    {"id": "hall", "title": "Hall"},
    {"id": "hut", "title": "Hut"},
]


def check(data: Any, **context: Any) -> dict[str, Any]:
    return KIND.check(offer(KIND, {"options": ROOMS, **context}), "select", data)


def test_a_selection_is_never_inline() -> None:
    assert KIND.inline_for({"options": ROOMS}) == ()


def test_any_number_of_options_may_be_picked_unless_said_otherwise() -> None:
    assert check({"selected": ["hut", "loft"], "note": "Both"}) == {
        "selected": ["hut", "loft"],
        "note": "Both",
    }


@pytest.mark.parametrize("name", ["selected", "selected_ids", "selected_jobs", "selected_rooms"])
def test_common_names_of_a_selection_become_one(name: str) -> None:
    assert check({name: ["hall"]}) == {"selected": ["hall"]}


@pytest.mark.parametrize("name", ["options", "choices", "items", "candidates", "jobs", "results"])
def test_options_are_found_under_their_common_names(name: str) -> None:
    substance = KIND.build_page_content(offer(KIND, {name: ROOMS, "budget": 450}), {})
    assert [option["id"] for option in substance["options"]] == ["loft", "hall", "hut"]
    assert substance["facts"] == {"budget": 450}


def test_ids_and_titles_are_found_under_their_common_names() -> None:
    mixed = ["plain", {"value": "v", "label": "V"}, {"key": 7, "name": "K", "size": 2}, {"id": "bare"}]
    options = KIND.build_page_content(offer(KIND, {"options": mixed}), {})["options"]
    assert [(option["id"], option["title"], option["details"]) for option in options] == [
        ("plain", "plain", {}),
        ("v", "V", {}),
        ("7", "K", {"size": 2}),
        ("bare", "bare", {}),
    ]


def test_options_that_were_not_offered_are_refused_by_name() -> None:
    with pytest.raises(InvalidSelection, match=r"^selected: These were not offered: barn, shed\.") as refusal:
        check({"selected": ["loft", "barn", "shed"]})
    assert refusal.value.details["unknown"] == ["barn", "shed"]


def test_an_option_picked_twice_is_refused_by_name() -> None:
    with pytest.raises(InvalidSelection, match="Named more than once: loft") as refusal:
        check({"selected": ["loft", "hall", "loft"]})
    assert refusal.value.details["duplicates"] == ["loft"]


@pytest.mark.parametrize(
    ("limits", "picked", "complaint"),
    [
        ({}, [], "at least one"),
        ({"min_selections": 2}, ["hut"], "at least 2; you chose 1"),
        ({"max_selections": 2}, ["hut", "loft", "hall"], "at most 2; you chose 3"),
        ({"min": 2, "max": 2}, ["hut"], "exactly 2; you chose 1"),
        ({"min": 0, "max": 1}, ["hut", "hall"], "at most one; you chose 2"),
        ({"multiple": False}, ["hut", "hall"], "exactly one; you chose 2"),
        ({"multiple": False, "max": 1}, [], "at least one"),
    ],
)
def test_too_many_or_too_few_are_refused_with_the_number(
    limits: dict[str, Any], picked: list[str], complaint: str
) -> None:
    with pytest.raises(InvalidSelection, match=complaint):
        check({"selected": picked}, **limits)


def test_none_can_be_picked_where_the_service_allows_it() -> None:
    assert check({"selected": []}, min_selections=0) == {"selected": []}
    assert check({}, min=0, max=None) == {"selected": []}


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        (
            {"selected": ["hut"], "selected_ids": ["hut"]},
            "Name the selection once, not as selected, selected_ids",
        ),
        ({"selected": ["hut"], "selected_count": 1}, "does not ask for: selected_count"),
        ({"selected": "hut"}, "must be a list of ids"),
        ({"selected": [1]}, "Every id must be non-empty text"),
        ({"selected": ["hut", " "]}, "Every id must be non-empty text"),
        ({"selected": {"hut": True}}, "must be a list of ids"),
        ({"picked": ["hut"]}, "does not ask for: picked"),
    ],
)
def test_malformed_selection_is_refused(data: dict[str, Any], complaint: str) -> None:
    with pytest.raises(InvalidSelection, match=complaint):
        check(data)


def test_a_note_too_long_is_refused() -> None:
    with pytest.raises(InvalidSubmission, match="note: Shorten"):
        check({"selected": ["hut"], "note": "x" * 10_001})


def test_another_action_is_refused() -> None:
    with pytest.raises(InvalidAction, match="it offers select"):
        KIND.check(offer(KIND, {"options": ROOMS}), "approve", {})


def test_without_options_any_ids_may_be_named() -> None:
    free = offer(KIND, {"search_query": "Engineer", "results": 5})
    assert KIND.check(free, "select", {"selected": ["a", "b"]}) == {"selected": ["a", "b"]}
    for wrong in ([], [""], ["x"] * 2, [str(number) for number in range(1001)]):
        with pytest.raises(InvalidSelection):
            KIND.check(free, "select", {"selected": wrong})


@pytest.mark.parametrize(
    ("context", "path"),
    [
        ({"options": []}, "context.options"),
        ({"options": "loft"}, "context.options"),
        ({"options": {"loft": 1}}, "context.options"),
        ({"options": [{"title": "Nameless"}]}, "context.options[0]"),
        ({"options": ["a", 5]}, "context.options[1]"),
        ({"options": [" "]}, "context.options[0]"),
        ({"options": [{"id": ""}]}, "context.options[0].id"),
        ({"options": [{"id": True}]}, "context.options[0].id"),
        ({"options": [{"id": "x" * 501}]}, "context.options[0].id"),
        ({"options": ["a", {"id": "a"}]}, "context.options[1]"),
        ({"options": [str(number) for number in range(1001)]}, "context.options"),
        ({"jobs": []}, "context.jobs"),
        ({"options": ROOMS, "min": -1}, "context.min"),
        ({"options": ROOMS, "max_selections": "2"}, "context.max_selections"),
        ({"options": ROOMS, "max": True}, "context.max"),
        ({"options": ROOMS, "max": 0}, "context"),
        ({"options": ROOMS, "min": 4}, "context"),
        ({"options": ROOMS, "min": 3, "max": 2}, "context"),
        ({"options": ROOMS, "multiple": "no"}, "context.multiple"),
        ({"options": ROOMS, "multiple": False, "min": 2}, "context.multiple"),
    ],
)
def test_options_that_make_no_choice_cannot_be_asked(context: dict[str, Any], path: str) -> None:
    with pytest.raises(ValidationFailed) as refusal:
        KIND.prepare(context)
    assert refusal.value.details["path"] == path


def test_a_thousand_options_are_fine() -> None:
    many = offer(KIND, {"options": [str(number) for number in range(1000)]})
    assert KIND.check(many, "select", {"selected": ["7"]}) == {"selected": ["7"]}


def test_the_page_sends_what_was_ticked() -> None:
    pairs = [("selected", "hut"), ("selected", "loft"), ("note", "So\r\nthere"), ("shown", "abc")]
    data = KIND.form_data(offer(KIND, {"options": ROOMS}), pairs)
    assert data == {"selected": ["hut", "loft"], "note": "So\nthere"}
    assert [
        option["picked"]
        for option in KIND.build_page_content(offer(KIND, {"options": ROOMS}), data)["options"]
    ] == [
        True,
        False,
        True,
    ]


def test_ids_typed_one_per_line_are_a_selection() -> None:
    pairs = [("selected_text", " a\r\n\r\nb ")]
    assert KIND.form_data(offer(KIND, {}), pairs) == {"selected": ["a", "b"]}


@pytest.mark.parametrize("advice", ["hall", ["hall"]])
def test_what_the_service_recommends_is_marked_and_not_picked(advice: Any) -> None:
    substance = KIND.build_page_content(offer(KIND, {"options": ROOMS, "recommended": advice}), {})
    assert [option["details"].get("recommended") for option in substance["options"]] == [None, True, None]
    assert not any(option["picked"] for option in substance["options"])
    assert substance["facts"] == {}


@pytest.mark.parametrize("advice", ["barn", ["hall", 5], 7, {"hall": 1}])
def test_a_recommendation_of_something_else_stays_a_fact(advice: Any) -> None:
    substance = KIND.build_page_content(offer(KIND, {"options": ROOMS, "recommended": advice}), {})
    assert substance["facts"] == {"recommended": advice}


def test_a_suggested_reason_goes_before_the_note() -> None:
    asked = offer(KIND, {"options": ROOMS, "reason_presets": ["Close by", "Quiet"]})
    assert [preset["label"] for preset in KIND.build_page_content(asked, {})["presets"]] == [
        "Close by",
        "Quiet",
    ]
    pairs = [("selected", "hut"), ("preset", "2"), ("note", "And cheap")]
    assert KIND.form_data(asked, pairs)["note"] == "Quiet\n\nAnd cheap"
