import pytest
from hypothesis import given
from hypothesis import strategies as st

from placet.errors import ChoiceRequired, ValidationFailed
from placet.protocol.choice import require_choice

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.tuples(),
)


@pytest.mark.parametrize(
    ("body", "choice"),
    [
        ({"prefer_hitl": True}, "review"),
        ({"skip_hitl": True}, "skip"),
        ({"prefer_hitl": True, "skip_hitl": False}, "review"),
        ({"prefer_hitl": False, "skip_hitl": True}, "skip"),
        ({"previous_case_id": "review_1"}, "review"),
        ({"previous_case_id": "review_1", "prefer_hitl": False}, "review"),
        ({"previous_case_id": None, "skip_hitl": True}, "skip"),
    ],
)
def test_one_choice_is_taken(body, choice):
    assert require_choice({"query": "Berlin", **body}) == choice


@pytest.mark.parametrize(
    "body", [{}, {"query": "x"}, {"prefer_hitl": False}, {"prefer_hitl": False, "skip_hitl": False}]
)
def test_no_choice_is_asked_for(body):
    with pytest.raises(ChoiceRequired, match="exactly one of prefer_hitl or skip_hitl"):
        require_choice(body)


@pytest.mark.parametrize(
    "body", [{"prefer_hitl": True, "skip_hitl": True}, {"previous_case_id": "review_1", "skip_hitl": True}]
)
def test_both_choices_are_refused_and_nothing_is_skipped(body):
    with pytest.raises(ValidationFailed, match="not both"):
        require_choice(body)


@pytest.mark.parametrize("value", [None, 1, 0, "true", "", [], {}])
@pytest.mark.parametrize("name", ["prefer_hitl", "skip_hitl"])
def test_a_flag_that_is_not_a_boolean_is_refused_by_name(name, value):
    with pytest.raises(ValidationFailed, match=f"{name} must be true or false"):
        require_choice({name: value})


@pytest.mark.parametrize("value", ["", 7, [], True])
def test_a_previous_case_must_be_an_id(value):
    with pytest.raises(ValidationFailed, match="previous_case_id"):
        require_choice({"previous_case_id": value, "skip_hitl": True})


@pytest.mark.parametrize("body", [None, [], "prefer_hitl", 1])
def test_a_body_that_is_no_object_is_refused(body):
    with pytest.raises(ValidationFailed, match="JSON object"):
        require_choice(body)


@given(st.dictionaries(st.sampled_from(["prefer_hitl", "skip_hitl", "previous_case_id"]), JSON))
def test_skipping_always_takes_an_explicit_true_and_nothing_against_it(body):
    try:
        choice = require_choice(body)
    except (ChoiceRequired, ValidationFailed):
        return
    if choice == "skip":
        assert body["skip_hitl"] is True
        assert not body.get("prefer_hitl")
        assert body.get("previous_case_id") is None
