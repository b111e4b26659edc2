"""What all review types have in common: any input gives an answer or a clear refusal."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from placet.cases.case import Offer
from placet.cases.review_rules import ReviewRules
from placet.desk.draft import draft_from
from placet.errors import InvalidSubmission, RequestError
from placet.reviews.registry import REVIEW_TYPES, load_custom_type
from placet.reviews.review_type import ReviewType
from tests.reviews.offers import offer

KINDS = [*REVIEW_TYPES.values(), load_custom_type()]

SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(), max_size=20)
NAMES = st.sampled_from(
    [
        "options",
        "items",
        "items_to_confirm",
        "params",
        "form",
        "artifact",
        "draft",
        "confirm_word",
        "allow_partial",
        "irreversible",
        "min",
        "max",
        "multiple",
        "id",
        "title",
        "label",
        "fields",
        "steps",
        "key",
        "type",
        "required",
        "selected",
        "selected_ids",
        "feedback",
        "edits",
        "confirmed_items",
        "note",
        "reason",
        "modified_params",
        "error",
        "answer",
    ]
)
JSON = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(NAMES | st.text(max_size=5), inner, max_size=5)
    ),
    max_leaves=25,
)
OBJECTS = st.dictionaries(NAMES | st.text(max_size=5), JSON, max_size=6)
PAIRS = st.lists(
    st.tuples(
        st.sampled_from(
            ["step", "asked", "selected", "confirmed_items", "note", "param.a", "edit.a", "field.a"]
        )
        | st.text(max_size=5),
        st.text(max_size=10),
    ),
    max_size=8,
)

kinds = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)


def check_port_type(kind: ReviewType) -> ReviewRules:
    return kind


@kinds
@given(context=OBJECTS, data=JSON, action=st.text(max_size=10) | st.none())
def test_arbitrary_json_is_judged_or_refused(
    kind: ReviewType, context: dict[str, Any], data: Any, action: str | None
) -> None:
    """An offer has a context that its type accepted when the case was opened."""
    try:
        context = kind.prepare(context)
    except RequestError:
        return
    asked = Offer(type=kind.name, prompt="?", message="?", context=context, actions=kind.actions or ("go",))
    for chosen in (action, *asked.actions):
        try:
            kept = kind.check(asked, chosen, data)  # type: ignore[arg-type]
        except RequestError:
            continue
        assert isinstance(kept, dict)
        assert msgspec.json.decode(msgspec.json.encode(kept)) == kept


@kinds
@given(context=OBJECTS, pairs=PAIRS, values=OBJECTS)
def test_whatever_can_be_asked_can_be_shown_and_posted(
    kind: ReviewType, context: dict[str, Any], pairs: list[tuple[str, str]], values: dict[str, Any]
) -> None:
    try:
        context = kind.prepare(context)
    except RequestError:
        return
    asked = Offer(type=kind.name, prompt="?", message="?", context=context, actions=kind.actions or ("go",))
    assert set(kind.inline_for(context)) <= set(kind.inline_actions)
    for move in (*asked.actions, "x-next", "x-back"):
        turn = kind.handle_post(asked, move, pairs, values)
        kind.build_page_content(asked, turn.values)
    kind.build_page_content(asked, values)
    kind.form_data(asked, pairs)


@kinds
def test_the_example_can_be_opened_and_shown(kind: ReviewType) -> None:
    draft = draft_from(kind.example())
    assert draft.type.startswith(kind.name)
    asked = offer(kind, draft.context, actions=draft.actions or kind.actions)
    assert kind.build_page_content(asked, {})["facts"]
    assert set(draft.inline_actions or ()) <= set(kind.inline_for(draft.context))


@kinds
def test_an_example_is_ones_own_to_change(kind: ReviewType) -> None:
    kind.example()["context"].clear()
    assert kind.example()["context"]


@kinds
@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        ([], "data must be an object"),
        ("text", "data must be an object"),
        (None, "data must be an object"),
        ({"note": 2**53}, "a number beyond"),
        ({"note": -(2**70)}, "a number beyond"),
        ({"note": float("nan")}, "not JSON"),
        ({"note": float("inf")}, "a number beyond"),
        ({"note": "a\x00b"}, "control characters"),
        ({"note": "\ud800"}, "half a character"),
        ({"\x1b[31m": 1}, "control characters"),
        ({5: 1}, "a key that is not text"),
        ({"note": object()}, "not JSON"),
        ({"note": ["x" * 1000] * 300}, "larger than 256 KiB"),
        ({"note": "x" * (256 * 1024)}, "larger than 256 KiB"),
        ({"note": "€" * (100 * 1024)}, "larger than 256 KiB"),
        ({f"{number:05}": "" for number in range(30_000)}, "larger than 256 KiB"),
    ],
)
def test_unsound_data_is_refused_before_it_is_read(kind: ReviewType, data: Any, complaint: str) -> None:
    asked = offer(kind, {}, actions=kind.actions or ("go",))
    with pytest.raises(InvalidSubmission, match=complaint):
        kind.check(asked, asked.actions[0], data)


@kinds
@pytest.mark.parametrize("depth", [33, 100, 100_000])
def test_data_nested_too_deep_is_refused(kind: ReviewType, depth: int) -> None:
    nested: Any = 1
    for _ in range(depth):
        nested = [nested]
    asked = offer(kind, {}, actions=kind.actions or ("go",))
    with pytest.raises(InvalidSubmission, match="deeper than 32"):
        kind.check(asked, asked.actions[0], {"note": nested})
    while isinstance(nested, list):  # taken apart by hand, since the interpreter frees it recursively
        nested = nested[0]


@kinds
def test_the_answer_can_be_told_again(kind: ReviewType) -> None:
    asked = offer(kind, kind.example()["context"], actions=("go",))
    told = kind.summarize_answer(asked, {"note": "Fine", "feedback": "Good"})
    assert all(isinstance(label, str) for label, _ in told)
