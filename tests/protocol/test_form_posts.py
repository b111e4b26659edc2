import pytest
from hypothesis import given
from hypothesis import strategies as st

from placet.errors import InvalidInput
from placet.protocol.fields import FIELD_TYPES
from placet.protocol.form_answers import check_answers
from placet.protocol.form_posts import answers_from_strings
from placet.protocol.forms import parse_form

CHOICES = [{"value": "a", "label": "A"}, {"value": "b", "label": "B"}]
FORM = parse_form(
    {
        "fields": [
            *(
                {"key": type_, "label": "L", "type": type_, "options": CHOICES if "select" in type_ else []}
                for type_ in FIELD_TYPES
            ),
            {"key": "colour", "label": "Colour", "type": "x-colour"},
            {"key": "money", "label": "Money", "type": "x-money", "validation": {"min": 0, "max": 9}},
        ]
    }
)


@pytest.mark.parametrize(
    ("key", "text", "value"),
    [
        ("text", " kept as typed ", " kept as typed "),
        ("textarea", "one\r\ntwo\rthree\n", "one\ntwo\nthree\n"),
        ("number", "12", 12),
        ("number", " -12.5 ", -12.5),
        ("number", "1e3", 1000.0),
        ("number", ".5", 0.5),
        ("number", "007", 7),
        ("range", "50", 50),
        ("date", " 2026-01-31 ", "2026-01-31"),
        ("email", " a@example.com\n", "a@example.com"),
        ("url", " https://example.com ", "https://example.com"),
        ("boolean", "on", True),
        ("boolean", "true", True),
        ("boolean", "True", True),
        ("boolean", "false", False),
        ("boolean", "no", False),
        ("select", "a", "a"),
        ("multiselect", "a", ["a"]),
        ("colour", "#fff", "#fff"),
        ("colour", "12", "12"),
        ("money", "5", 5),
    ],
)
def test_text_becomes_what_the_field_means(key, text, value):
    converted = answers_from_strings(FORM, [(key, text)])[key]
    assert converted == value
    assert type(converted) is type(value)
    check_answers(FORM, {key: converted})


@pytest.mark.parametrize(
    ("key", "text", "code"),
    [
        ("number", "12,5", "not_a_number"),
        ("number", "1 000", "not_a_number"),
        ("number", "0x10", "not_a_number"),
        ("number", "1_000", "not_a_number"),
        ("number", "٣", "not_a_number"),
        ("number", "nan", "not_a_number"),
        ("number", "inf", "not_a_number"),
        ("number", "1e999", "not_a_number"),
        pytest.param("number", "9" * 5000, "not_a_number", id="overlong number"),
        ("range", "lots", "not_a_number"),
        ("boolean", "maybe", "not_yes_no"),
        ("date", "31.01.2026", "not_a_date"),
        ("select", "c", "not_an_option"),
        ("multiselect", "c", "not_options"),
        ("money", "five", "not_a_number"),
    ],
)
def test_unconvertible_value_is_kept_and_reported(key, text, code):
    values = answers_from_strings(FORM, [(key, text)])
    assert values[key] in (text, [text])
    with pytest.raises(InvalidInput) as caught:
        check_answers(FORM, values)
    assert caught.value.details["codes"] == {key: code}


def test_repeated_keys_are_several_choices():
    assert answers_from_strings(FORM, [("multiselect", "a"), ("multiselect", "b")]) == {
        "multiselect": ["a", "b"]
    }


def test_an_empty_companion_is_not_a_choice():
    assert answers_from_strings(FORM, [("multiselect", "")]) == {"multiselect": []}


def test_a_hidden_no_before_a_checkbox_gives_way_to_its_yes():
    assert answers_from_strings(FORM, [("boolean", "false"), ("boolean", "true")]) == {"boolean": True}
    assert answers_from_strings(FORM, [("boolean", "false")]) == {"boolean": False}


def test_missing_field_is_not_answered():
    assert answers_from_strings(FORM, []) == {}


def test_an_untouched_form_is_blank_not_wrong():
    posted = answers_from_strings(FORM, [(field.key, "") for field in FORM.every_field])
    assert check_answers(FORM, posted) == {}


def test_unknown_keys_are_kept_for_the_judge():
    assert answers_from_strings(FORM, [("admin", "1"), ("admin", "2")]) == {"admin": "2"}


def test_numbers_with_many_zeros_convert_quickly():
    assert answers_from_strings(FORM, [("number", "1" + "0" * 1_000_000)])["number"] == "1" + "0" * 1_000_000


TEXTS = st.text(st.characters(codec=None)) | st.from_regex(r"[+-]?[0-9]*\.?[0-9]*(e[0-9]+)?", fullmatch=True)
KEYS = st.sampled_from([field.key for field in FORM.every_field]) | st.text(st.characters(codec=None))


@given(st.lists(st.tuples(KEYS, TEXTS)))
def test_no_post_breaks_the_reading_or_the_judging(pairs):
    values = answers_from_strings(FORM, pairs)
    assert set(values) == {key for key, _ in pairs}
    try:
        check_answers(FORM, values)
    except InvalidInput:
        return
