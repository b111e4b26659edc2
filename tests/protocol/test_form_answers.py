import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from placet.errors import InvalidInput
from placet.protocol.fields import FIELD_TYPES
from placet.protocol.form_answers import (
    check_answers,
    find_problems,
    find_visible_fields,
    find_visible_fields_in_step,
)
from placet.protocol.forms import parse_form

KINDS = [{"value": "full", "label": "Full-time"}, {"value": "part", "label": "Part-time"}]
ALL_TYPES = parse_form(
    {
        "fields": [
            {
                "key": type_.replace("-", "_"),
                "label": type_,
                "type": type_,
                "options": KINDS if "select" in type_ else [],
                "sensitive": type_ == "text",
            }
            for type_ in [*FIELD_TYPES, "x-colour"]
        ]
    }
)
FITTING = {
    "text": "a",
    "textarea": "a\nb",
    "number": 1.5,
    "date": "2026-01-31",
    "email": "a@example.com",
    "url": "https://example.com",
    "boolean": False,
    "select": "full",
    "multiselect": ["part"],
    "range": 7,
    "x_colour": "#fff",
}


HUGE_KEYS = [pytest.param("k" * 100_000, id="long text"), pytest.param(10**5000, id="long number")]


def make_field(key, type_="text", **more):
    return {"key": key, "label": key.title(), "type": type_, **more}


def make_conditional(field, operator, value):
    return {"conditional": {"field": field, "operator": operator, "value": value}}


def parse_wizard():
    return parse_form(
        {
            "steps": [
                {
                    "title": "You",
                    "fields": [
                        make_field("name", required=True),
                        make_field("kind", "select", options=KINDS, required=True),
                    ],
                },
                {
                    "title": "Pay",
                    "fields": [
                        make_field(
                            "salary",
                            "number",
                            required=True,
                            sensitive=True,
                            **make_conditional("kind", "eq", "full"),
                        ),
                        make_field("bonus", "number", **make_conditional("salary", "gt", 1000)),
                        make_field("rate", "number", required=True, **make_conditional("kind", "eq", "part")),
                    ],
                },
                {"title": "Check", "fields": []},
            ]
        }
    )


def keys(fields):
    return [field.key for field in fields]


def refusal(form, values):
    with pytest.raises(InvalidInput) as caught:
        check_answers(form, values)
    msgspec.json.encode(caught.value.body())
    return caught.value


@pytest.mark.parametrize(
    ("values", "visible"),
    [
        ({}, ["name", "kind"]),
        ({"kind": "full"}, ["name", "kind", "salary"]),
        ({"kind": "full", "salary": 2000}, ["name", "kind", "salary", "bonus"]),
        ({"kind": "part"}, ["name", "kind", "rate"]),
        ({"kind": ["full"], "salary": {}}, ["name", "kind", "salary"]),
    ],
)
def test_fields_appear_as_their_conditions_are_met(values, visible):
    assert keys(find_visible_fields(parse_wizard(), values)) == visible


def test_field_that_depends_on_a_hidden_field_is_hidden():
    assert keys(find_visible_fields(parse_wizard(), {"kind": "part", "salary": 5000})) == [
        "name",
        "kind",
        "rate",
    ]


def test_hidden_answers_are_dropped():
    data = check_answers(
        parse_wizard(), {"name": "Ada", "kind": "part", "rate": 80, "salary": 5000, "bonus": 1}
    )
    assert data == {"name": "Ada", "kind": "part", "rate": 80}


def test_a_hidden_answer_is_not_judged():
    assert "salary" not in check_answers(
        parse_wizard(), {"name": "A", "kind": "part", "rate": 1, "salary": "much"}
    )


def test_a_hidden_required_field_is_not_missed_but_a_visible_one_is():
    error = refusal(parse_wizard(), {"name": "Ada", "kind": "full"})
    assert error.details["fields"] == {"salary": "Fill this in."}
    assert error.details["codes"] == {"salary": "required"}


def test_answers_of_every_type_are_kept_as_given():
    data = check_answers(ALL_TYPES, FITTING)
    assert data == FITTING
    assert list(data) == [field.key for field in ALL_TYPES.every_field]
    assert data["multiselect"] is not FITTING["multiselect"]


def test_everything_optional_may_be_left_out():
    assert check_answers(ALL_TYPES, {}) == {}


@pytest.mark.parametrize("blank", [None, "", "   ", []])
def test_blank_answers_are_dropped(blank):
    assert check_answers(ALL_TYPES, dict.fromkeys(FITTING, blank)) == {}


@pytest.mark.parametrize("type_", [*FIELD_TYPES, "x-colour"])
@pytest.mark.parametrize("blank", [None, "", "\u00a0", []])
def test_a_required_field_takes_no_blank(type_, blank):
    options = KINDS if "select" in type_ else []
    form = parse_form({"fields": [make_field("k", type_, required=True, options=options)]})
    assert refusal(form, {"k": blank}).details["codes"]["k"].startswith("required")
    assert refusal(form, {}).details["codes"]["k"].startswith("required")


def test_a_required_yes_or_no_may_be_answered_with_no():
    form = parse_form({"fields": [make_field("sure", "boolean", required=True)]})
    assert check_answers(form, {"sure": False}) == {"sure": False}
    assert refusal(form, {}).details["fields"] == {"sure": "Choose yes or no."}


def test_every_problem_is_reported_at_once_in_the_order_of_the_form():
    error = refusal(ALL_TYPES, {key: {"wrong": True} for key in reversed(FITTING)})
    assert list(error.details["fields"]) == list(FITTING)
    assert error.message == "Some answers are missing or not valid. `fields` says which."


def test_problems_can_be_had_for_translation():
    found = find_problems(ALL_TYPES, {"range": 500})
    assert found["range"].code == "too_large"
    assert found["range"].params == {"maximum": "100"}


def test_unknown_keys_are_refused_by_name():
    error = refusal(parse_wizard(), {"name": "Ada", "kind": "part", "rate": 1, "admin": True})
    assert error.details["fields"] == {"admin": "This form does not ask for this."}
    assert error.details["codes"] == {"admin": "unknown_field"}


@pytest.mark.parametrize("key", ["\ud800", "a\nb", "", "__proto__", 5, None, ("a",), *HUGE_KEYS])
def test_a_hostile_key_is_named_safely(key):
    error = refusal(ALL_TYPES, {key: 1})
    assert len(msgspec.json.encode(error.body())) < 500


def test_a_flood_of_unknown_keys_is_answered_briefly():
    error = refusal(ALL_TYPES, {f"key{n}": n for n in range(100_000)})
    assert len(error.details["fields"]) == 20


@pytest.mark.parametrize("values", [None, [], "text", 5, True, [["name", "Ada"]]])
def test_answers_must_be_an_object(values):
    assert "JSON object" in refusal(ALL_TYPES, values).message


def test_sensitive_answers_stay_out_of_messages_and_logs():
    error = refusal(ALL_TYPES, {"text": "hunter2\x00"})
    assert "hunter2" not in str(error.body())


def test_a_step_looks_back_to_decide_what_it_asks():
    assert keys(find_visible_fields_in_step(parse_wizard(), {"kind": "full"}, 1)) == ["salary"]
    assert keys(find_visible_fields_in_step(parse_wizard(), {"name": "", "kind": "part"}, 1)) == ["rate"]


@pytest.mark.parametrize("step_index", [-1, 3, 10**9])
def test_a_step_that_does_not_exist_is_refused(step_index):
    with pytest.raises(InvalidInput, match="It has 3, counted from 0"):
        find_visible_fields_in_step(parse_wizard(), {}, step_index)


def test_a_form_without_steps_is_one_step():
    assert find_visible_fields_in_step(ALL_TYPES, FITTING, 0) == find_visible_fields(ALL_TYPES, FITTING)


def test_answers_nested_beyond_reason_are_refused():
    deep: list = []
    for _ in range(100_000):
        deep = [deep]
    assert set(refusal(ALL_TYPES, dict.fromkeys(FITTING, deep)).details["fields"]) == set(FITTING)


def test_a_pattern_that_stalls_other_engines_is_judged_at_once():
    form = parse_form({"fields": [make_field("k", validation={"pattern": "(a+)+$"})]})
    assert refusal(form, {"k": "a" * 1_999 + "!"}).details["codes"] == {"k": "wrong_form"}


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(codec=None)),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)
NEAR = st.sampled_from([*FITTING.values(), "part", "kind", "full", 2000, "2026-02-30"])
ANSWERS = st.dictionaries(
    st.sampled_from([*FITTING, "name", "kind", "salary", "bonus", "rate"]) | st.text(),
    JSON | NEAR,
    max_size=12,
)


@given(st.sampled_from([ALL_TYPES, parse_wizard()]), JSON | ANSWERS)
def test_arbitrary_json_is_cleaned_or_refused(form, values):
    try:
        data = check_answers(form, values)
    except InvalidInput as error:
        msgspec.json.encode(error.body())
    else:
        msgspec.json.encode(data)
        assert set(data) <= {field.key for field in find_visible_fields(form, values)}
        assert check_answers(form, data) == data


@given(st.sampled_from([ALL_TYPES, parse_wizard()]), ANSWERS, st.integers(-2, 4))
def test_an_arbitrary_step_is_found_or_refused(form, values, step_index):
    try:
        find_visible_fields_in_step(form, values, step_index)
    except InvalidInput as error:
        msgspec.json.encode(error.body())
