"""The review type input: forms, steps and typed answers."""

from typing import Any

import pytest

from placet.errors import InvalidAction, InvalidForm, InvalidInput, InvalidSubmission
from placet.reviews.form_post import BACK, NEXT
from placet.reviews.input.review_type import Input
from tests.reviews.offers import offer

KIND = Input()
FIELDS = [
    {"key": "name", "label": "Name", "type": "text", "required": True},
    {"key": "age", "label": "Age", "type": "number", "validation": {"min": 0, "max": 150}},
    {"key": "secret", "label": "Secret", "type": "text", "sensitive": True},
    {
        "key": "tags",
        "label": "Tags",
        "type": "multiselect",
        "options": [{"value": "a", "label": "Ay"}, {"value": "b", "label": "Bee"}],
    },
]
FLAT = {"form": {"fields": FIELDS}, "place": "Porto"}
WIZARD: dict[str, Any] = {
    "form": {
        "steps": [
            {
                "title": "First",
                "fields": [
                    {
                        "key": "way",
                        "label": "Way",
                        "type": "select",
                        "required": True,
                        "options": [
                            {"value": "train", "label": "Train"},
                            {"value": "plane", "label": "Plane"},
                        ],
                    },
                    {
                        "key": "passport",
                        "label": "Passport",
                        "type": "text",
                        "required": True,
                        "sensitive": True,
                        "conditional": {"field": "way", "operator": "eq", "value": "plane"},
                    },
                    {
                        "key": "card",
                        "label": "Card",
                        "type": "text",
                        "conditional": {"field": "way", "operator": "eq", "value": "train"},
                    },
                ],
            },
            {
                "title": "Second",
                "fields": [{"key": "nights", "label": "Nights", "type": "number", "required": True}],
            },
            {"title": "Check", "fields": []},
        ]
    }
}


def post(step: int, asked: str, **fields: str) -> list[tuple[str, str]]:
    hidden = [("step", str(step)), *(("asked", key) for key in asked.split())]
    return [*hidden, *((f"field.{key}", value) for key, value in fields.items())]


def test_an_input_is_never_inline() -> None:
    assert KIND.inline_for(FLAT) == ()


def test_answers_that_fit_are_kept() -> None:
    data = {"name": "Ada", "age": 36, "tags": ["a"]}
    assert KIND.check(offer(KIND, FLAT), "submit", data) == data


def test_answers_that_do_not_fit_are_refused_by_name() -> None:
    with pytest.raises(InvalidInput) as refusal:
        KIND.check(offer(KIND, FLAT), "submit", {"age": 200, "tags": ["c"], "more": 1})
    assert refusal.value.details["fields"].keys() == {"name", "age", "tags", "more"}


def test_a_form_that_makes_no_sense_cannot_be_asked() -> None:
    nonsense: list[Any] = [{}, [], "form", {"fields": []}, {"fields": FIELDS, "steps": []}]
    for form in nonsense:
        with pytest.raises(InvalidForm):
            KIND.prepare({"form": form})


def test_another_action_is_refused() -> None:
    with pytest.raises(InvalidAction, match="it offers submit"):
        KIND.check(offer(KIND, FLAT), NEXT, {})


def test_without_a_form_any_flat_answers_fit() -> None:
    free = offer(KIND, {"question": "Where?"})
    data = {"answer": "Here", "sure": True, "count": 2, "gone": None}
    assert KIND.check(free, "submit", data) == {"answer": "Here", "sure": True, "count": 2}
    assert KIND.form_data(free, [("answer", "Here"), ("shown", "x")]) == {"answer": "Here"}
    assert KIND.handle_post(free, "submit", [("answer", "Here")], {}).ready


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        ({}, "answer: Write an answer"),
        ({"answer": " "}, "answer: Write an answer"),
        ({"answer": {"deep": 1}}, "nothing nested: answer"),
        ({"a": 1, "b": [1]}, "nothing nested: b"),
        ({str(number): 1 for number in range(201)}, "at most 200 answers; these are 201"),
    ],
)
def test_without_a_form_nested_or_empty_answers_are_refused(data: dict[str, Any], complaint: str) -> None:
    with pytest.raises(InvalidInput, match=complaint):
        KIND.check(offer(KIND, {}), "submit", data)


def test_a_post_becomes_typed_answers_and_what_is_unticked_is_empty() -> None:
    data = KIND.form_data(offer(KIND, FLAT), post(0, "name age tags", name="Ada", age="36", other="x"))
    assert data == {"name": "Ada", "age": 36, "tags": None}


def test_what_is_not_a_number_is_kept_as_typed() -> None:
    data = KIND.form_data(offer(KIND, FLAT), post(0, "name age", name="Ada", age="old"))
    fields = KIND.build_page_content(offer(KIND, FLAT), data)["steps"][0]["fields"]
    assert {field["key"]: field["typed"] for field in fields}["age"] == "old"


@pytest.mark.parametrize(
    ("typed", "read"),
    [
        ("12,5", 12.5),
        (",5", 0.5),
        ("-0,125", -0.125),
        ("٣٦", 36),
        ("١٢٫٥", 12.5),
        ("−4", -4),
        ("1,000", "1,000"),
        ("1.000,5", "1.000,5"),
        ("1,2,3", "1,2,3"),
        ("x,5", "x,5"),
    ],
)
def test_numbers_are_read_as_phones_let_people_type_them(typed: str, read: object) -> None:
    assert KIND.form_data(offer(KIND, FLAT), post(0, "age", age=typed))["age"] == read


def test_a_saved_sensitive_answer_never_returns_to_the_page() -> None:
    substance = KIND.build_page_content(offer(KIND, FLAT), {"secret": "hunter2"})
    field = next(field for field in substance["steps"][0]["fields"] if field["key"] == "secret")
    assert (field["typed"], field["saved"]) == ("", True)
    assert "hunter2" not in str(substance)


def test_an_empty_sensitive_box_leaves_the_saved_answer() -> None:
    asked = "name age secret tags"
    sent = [*post(0, asked, name="Ada", secret=""), ("saved", "secret")]
    turn = KIND.handle_post(offer(KIND, FLAT), "submit", sent, {"secret": "hunter2"})
    assert turn.ready
    assert turn.values["secret"] == "hunter2"


@pytest.mark.parametrize("typed", ["", " "])
def test_a_secret_that_somebody_else_saved_meanwhile_is_not_sent(typed: str) -> None:
    sent = post(0, "name age secret tags", name="Ada", secret=typed)
    turn = KIND.handle_post(offer(KIND, FLAT), "submit", sent, {"secret": "planted"})
    assert turn.ready
    assert not (turn.values["secret"] or "").strip()


def test_problems_keep_the_person_on_the_step() -> None:
    turn = KIND.handle_post(offer(KIND, FLAT), "submit", post(0, "name age secret tags", age="old"), {})
    assert not turn.ready
    assert turn.problems.keys() == {"name", "age"}
    assert turn.values["age"] == "old"


def test_a_wizard_goes_forward_back_and_to_the_answer() -> None:
    asked = offer(KIND, WIZARD)
    first = KIND.handle_post(asked, NEXT, post(0, "way card", way="train", card=""), {})
    assert (first.ready, first.step, first.problems) == (False, 1, {})
    assert first.progress is not None
    assert (first.progress.current_step, first.progress.total_steps) == (2, 3)
    second = KIND.handle_post(asked, NEXT, post(1, "nights", nights="3"), first.values)
    assert (second.ready, second.step) == (False, 2)
    back = KIND.handle_post(asked, BACK, post(2, ""), second.values)
    assert (back.ready, back.step, back.values) == (False, 1, second.values)
    done = KIND.handle_post(asked, "submit", post(2, ""), second.values)
    assert done.ready
    assert KIND.check(asked, "submit", done.values) == {"way": "train", "nights": 3}


def test_an_answer_that_brings_up_a_question_asks_it_without_blame() -> None:
    asked = offer(KIND, WIZARD)
    turn = KIND.handle_post(asked, NEXT, post(0, "way", way="plane"), {})
    assert (turn.step, turn.problems, turn.more_asked) == (0, {}, True)
    fields = KIND.build_page_content(asked, turn.values)["steps"][0]["fields"]
    assert [field["key"] for field in fields] == ["way", "passport"]
    again = KIND.handle_post(asked, NEXT, post(0, "way passport", way="plane", passport=""), turn.values)
    assert (again.step, again.problems) == (0, {"passport": "Fill this in."})


def test_the_last_step_cannot_be_reached_around_the_others() -> None:
    turn = KIND.handle_post(offer(KIND, WIZARD), "submit", post(2, ""), {"way": "train"})
    assert (turn.ready, turn.step) == (False, 1)
    assert turn.problems.keys() == {"nights"}


@pytest.mark.parametrize("step", ["99", "-1", "one", "", "1e3", "٣", "9" * 400])
def test_a_step_that_does_not_exist_is_no_way_out(step: str) -> None:
    turn = KIND.handle_post(offer(KIND, WIZARD), NEXT, [("step", step)], {})
    assert not turn.ready
    assert 0 <= turn.step <= 2


def test_going_on_from_the_last_step_is_no_answer() -> None:
    turn = KIND.handle_post(offer(KIND, WIZARD), NEXT, post(2, ""), {"way": "train", "nights": 2})
    assert not turn.ready


def test_answers_are_told_by_their_labels_and_secrets_are_masked() -> None:
    data = {"name": "Ada", "secret": "hunter2", "tags": ["b"]}
    assert KIND.summarize_answer(offer(KIND, FLAT), data) == [
        ("Name", "Ada"),
        ("Secret", "••••••••"),
        ("Tags", ["Bee"]),
    ]


def test_defaults_are_filled_in_until_something_is_typed() -> None:
    form = {"form": {"fields": [{"key": "n", "label": "N", "type": "number", "default": 3}]}}
    asked = offer(KIND, form)
    assert KIND.build_page_content(asked, {})["steps"][0]["fields"][0]["typed"] == "3"
    assert KIND.build_page_content(asked, {"n": 5})["steps"][0]["fields"][0]["typed"] == "5"
    assert KIND.build_page_content(asked, {"n": ""})["steps"][0]["fields"][0]["typed"] == ""


def test_a_form_in_steps_ends_with_a_look_at_all_answers() -> None:
    asked = offer(KIND, {"form": {"steps": WIZARD["form"]["steps"][:2]}})
    first = KIND.handle_post(asked, NEXT, post(0, "way card", way="train", card=""), {})
    second = KIND.handle_post(asked, NEXT, post(1, "nights", nights="3"), first.values)
    assert (second.ready, second.step) == (False, 2)
    mark = KIND.build_page_content(asked, second.values)["reviewed"]
    assert (mark["page"], mark["ours"], mark["complete"]) == (2, True, True)
    done = KIND.handle_post(
        asked, "submit", [("step", "2"), ("reviewed", mark["fingerprint"])], second.values
    )
    assert done.ready


def test_a_long_form_ends_with_a_look_at_all_answers_and_a_short_one_does_not() -> None:
    fields = [{"key": f"f{number}", "label": "F", "type": "text"} for number in range(9)]
    long, short = offer(KIND, {"form": {"fields": fields}}), offer(KIND, {"form": {"fields": fields[1:]}})
    assert KIND.build_page_content(long, {})["reviewed"]["page"] == 1
    assert KIND.build_page_content(short, {})["reviewed"]["page"] == 0
    assert KIND.find_step(short, {}, 1) is None


def test_answers_that_changed_since_they_were_checked_are_checked_again() -> None:
    asked = offer(KIND, WIZARD)
    mark = KIND.build_page_content(asked, {"way": "train", "nights": 3})["reviewed"]["fingerprint"]
    turn = KIND.handle_post(
        asked, "submit", [("step", "2"), ("reviewed", mark)], {"way": "train", "nights": 4}
    )
    assert (turn.ready, turn.step) == (False, 2)
    assert "changed elsewhere" in turn.problems[""]


def test_a_mark_of_the_answers_says_nothing_about_secrets() -> None:
    asked = offer(KIND, WIZARD)
    marks = {
        KIND.build_page_content(asked, {"way": "plane", "passport": secret, "nights": 1})["reviewed"][
            "fingerprint"
        ]
        for secret in ("1234", "4321")
    }
    assert len(marks) == 1


def test_a_person_goes_back_to_any_step_and_forward_only_over_sound_ones() -> None:
    asked = offer(KIND, WIZARD)
    full = {"way": "train", "nights": 3}
    assert KIND.handle_post(asked, "x-step-0", post(2, ""), full).step == 0
    ahead = KIND.handle_post(asked, "x-step-2", post(0, "way card", way="train", card=""), full)
    assert (ahead.ready, ahead.step, ahead.problems) == (False, 2, {})
    held = KIND.handle_post(asked, "x-step-2", post(0, "way card", way="train", card=""), {})
    assert (held.step, set(held.problems)) == (1, {"nights"})
    for odd in ("x-step-", "x-step-99", "x-step--1", "x-step-٣", "x-step-1e1"):
        assert KIND.handle_post(asked, odd, post(2, ""), {}).step <= 2


def test_a_step_without_a_question_left_is_passed_over() -> None:
    pets = {"key": "pet", "label": "Pet", "type": "text", "conditional": CONDITION}
    steps = [
        {"title": "One", "fields": [{"key": "own", "label": "Own", "type": "boolean", "required": True}]},
        {"title": "Two", "fields": [pets]},
        {"title": "Three", "fields": [{"key": "name", "label": "Name", "type": "text"}]},
    ]
    asked = offer(KIND, {"form": {"steps": steps}})
    assert KIND.handle_post(asked, NEXT, post(0, "own", own="false"), {}).step == 2
    assert KIND.handle_post(asked, NEXT, post(0, "own", own="true"), {}).step == 1
    assert KIND.handle_post(asked, BACK, post(2, "name", name="A"), {"own": False}).step == 0


CONDITION = {"field": "own", "operator": "eq", "value": True}


def test_what_a_review_lists_is_what_is_sent_defaults_included() -> None:
    steps = [
        {"title": "One", "fields": [{"key": "a", "label": "A", "type": "text"}]},
        {"title": "Two", "fields": [{"key": "b", "label": "B", "type": "text", "default": "tea"}]},
    ]
    asked = offer(KIND, {"form": {"steps": steps}})
    ahead = KIND.handle_post(asked, "x-step-2", post(0, "a", a="x"), {})
    assert (ahead.step, ahead.values) == (2, {"a": "x", "b": "tea"})


def test_while_typing_only_the_fields_sent_are_replaced() -> None:
    kept = KIND.read_draft(offer(KIND, WIZARD), post(0, "way", way="plane"), {"nights": 3, "card": "7"})
    assert kept.values == {"nights": 3, "card": "7", "way": "plane"}
    assert (kept.ready, kept.step, kept.asked) == (False, 0, ("way", "passport"))
    assert kept.problems == {"passport": "Fill this in."}
    assert kept.progress is not None
    assert (kept.progress.completed_fields, kept.progress.total_fields) == (2, 3)


def test_while_typing_defaults_on_the_page_count_and_those_of_later_pages_do_not() -> None:
    steps = [
        {
            "title": "One",
            "fields": [{"key": "a", "label": "A", "type": "text", "default": "x", "required": True}],
        },
        {
            "title": "Two",
            "fields": [{"key": "b", "label": "B", "type": "text", "default": "y", "required": True}],
        },
    ]
    kept = KIND.read_draft(offer(KIND, {"form": {"steps": steps}}), post(0, ""), {})
    assert (kept.values, kept.problems) == ({}, {})
    assert kept.progress is not None
    assert kept.progress.completed_fields == 1


def test_a_secret_typed_and_taken_back_is_gone() -> None:
    pairs = [*post(0, "secret", secret=""), ("emptied", "secret"), ("emptied", "stranger")]
    kept = KIND.read_draft(offer(KIND, FLAT), pairs, {"secret": "hunter2"})
    assert kept.values == {"secret": ""}


def test_a_free_answer_is_kept_while_it_is_typed() -> None:
    kept = KIND.read_draft(offer(KIND, {}), [("answer", "He")], {})
    assert (kept.values, kept.ready) == ({"answer": "He"}, False)


def test_a_page_is_reached_only_over_sound_steps() -> None:
    asked = offer(KIND, WIZARD)
    assert [KIND.find_step(asked, {}, wanted) for wanted in (0, 1, 2, 99)] == [0, 0, 0, 0]
    assert [KIND.find_step(asked, {"way": "train"}, wanted) for wanted in (0, 1, 2)] == [0, 1, 1]
    assert KIND.find_step(asked, {"way": "train", "nights": 1}, 99) == 2


def test_a_page_knows_the_questions_that_an_answer_on_it_may_bring_up() -> None:
    every = KIND.build_page_content(offer(KIND, WIZARD), {"way": "plane"})["steps"][0]["every"]
    assert [(field["key"], field["asked"]) for field in every] == [
        ("way", True),
        ("passport", True),
        ("card", False),
    ]


def test_huge_answers_are_refused() -> None:
    with pytest.raises(InvalidSubmission, match="256 KiB"):
        KIND.check(offer(KIND, {}), "submit", {"answer": "x" * 300_000})
