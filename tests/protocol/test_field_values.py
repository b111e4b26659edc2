import math
from datetime import date

import pytest

from placet.protocol.field_values import build_missing_answer_problem, is_blank, parse_date, validate_answer
from placet.protocol.fields import FIELD_TYPES, Field, Option, Validation

OPTIONS = (Option(value="de", label="Germany"), Option(value="fr", label="France"))


def field(type_, **rules):
    options = OPTIONS if type_ in ("select", "multiselect") else ()
    return Field(key="k", label="K", type=type_, options=options, validation=Validation(**rules))


def code(asked, value):
    found = validate_answer(asked, value)
    return None if found is None else found.code


@pytest.mark.parametrize("value", [None, "", " ", "\t\n", "\u3000", [], ()])
def test_empty_values_are_blank(value):
    assert is_blank(value)


@pytest.mark.parametrize("value", [0, 0.0, False, "0", [""], {}, [[]], "a "])
def test_zero_and_no_are_answers(value):
    assert not is_blank(value)


@pytest.mark.parametrize(
    ("type_", "expected"),
    [
        ("text", "required"),
        ("number", "required"),
        ("boolean", "required_yes_no"),
        ("select", "required_option"),
        ("multiselect", "required_options"),
        ("x-colour", "required"),
    ],
)
def test_a_missing_answer_is_asked_for_in_words_that_fit(type_, expected):
    assert build_missing_answer_problem(field(type_)).code == expected


@pytest.mark.parametrize(
    ("type_", "value"),
    [
        ("text", "Žofie 東京 👩‍👩‍👧"),
        ("textarea", "two\nlines\tand a tab"),
        ("number", 12),
        ("number", -12.5),
        ("number", 2**53 - 1),
        ("date", "2024-02-29"),
        ("date", "0001-01-01"),
        ("email", "name.surname+tag@mail.example.com"),
        ("email", "jörg@bücher.example"),
        ("url", "https://example.com/a?b=c#d"),
        ("url", "http://[::1]:8000/"),
        ("url", "https://bücher.example/straße"),
        ("boolean", False),
        ("boolean", True),
        ("select", "de"),
        ("multiselect", ["fr", "de"]),
        ("range", 0),
        ("range", 100),
        ("x-colour", "#fff"),
        ("x-colour", True),
        ("x-colour", 1.5),
    ],
)
def test_a_fitting_answer_passes(type_, value):
    assert code(field(type_), value) is None


@pytest.mark.parametrize(
    ("type_", "value", "expected"),
    [
        ("text", 5, "not_text"),
        ("text", ["a"], "not_text"),
        ("text", {"a": 1}, "not_text"),
        ("text", True, "not_text"),
        ("text", "a\nb", "several_lines"),
        ("text", "a\u2028b", "several_lines"),
        ("text", "a\x00b", "control_characters"),
        ("text", "\ud800", "control_characters"),
        pytest.param("text", "a" * 10_001, "too_long", id="long text"),
        ("textarea", "a\x1b[2Jb", "control_characters"),
        pytest.param("textarea", "a" * 10_001, "too_long", id="long textarea"),
        ("number", "12", "not_a_number"),
        ("number", True, "not_a_number"),
        ("number", math.nan, "not_a_number"),
        ("number", math.inf, "too_large"),
        ("number", -math.inf, "too_small"),
        pytest.param("number", 10**4000, "too_large", id="huge number"),
        ("number", 2**53, "too_large"),
        ("number", [1], "not_a_number"),
        ("date", "2026-02-30", "not_a_date"),
        ("date", "2026-2-3", "not_a_date"),
        ("date", "20260203", "not_a_date"),
        ("date", "2026-W05-2", "not_a_date"),
        ("date", "2026-02-03T00:00:00Z", "not_a_date"),
        ("date", "２０２６-02-03", "not_a_date"),
        ("date", "2026-02-03\n", "not_a_date"),
        ("date", "0000-01-01", "not_a_date"),
        ("date", 20260203, "not_a_date"),
        ("email", "name", "not_an_email"),
        ("email", "name@", "not_an_email"),
        ("email", "@example.com", "not_an_email"),
        ("email", "name@example", "not_an_email"),
        ("email", "a b@example.com", "not_an_email"),
        ("email", "a@b@example.com", "not_an_email"),
        ("email", "Name <name@example.com>", "not_an_email"),
        ("email", ".a@example.com", "not_an_email"),
        ("email", "a..b@example.com", "not_an_email"),
        ("email", "a@-example.com", "not_an_email"),
        ("email", "a@example..com", "not_an_email"),
        ("email", "a@example.com\nbcc:x@example.com", "not_an_email"),
        ("email", "a\u200b@example.com", "not_an_email"),
        ("email", "a" * 65 + "@example.com", "not_an_email"),
        pytest.param("email", "a@" + "a.b" * 100_000, "not_an_email", id="huge email"),
        ("email", 7, "not_an_email"),
        ("url", "example.com", "not_a_url"),
        ("url", "//example.com", "not_a_url"),
        ("url", "https://", "not_a_url"),
        ("url", "https://:80/", "not_a_url"),
        ("url", "https://...", "not_a_url"),
        ("url", "https://[::1", "not_a_url"),
        ("url", "https://example.com:99999/", "not_a_url"),
        ("url", "https://exa mple.com", "not_a_url"),
        ("url", "https://example.com/\nx", "not_a_url"),
        ("url", "https:\\\\example.com", "not_a_url"),
        ("url", "javascript:alert(1)", "not_a_url"),
        ("url", "data:text/html,x", "not_a_url"),
        ("url", "ftp://example.com", "not_a_url"),
        pytest.param("url", "https://example.com/" + "a" * 2048, "not_a_url", id="long url"),
        ("url", None, "not_a_url"),
        ("boolean", "true", "not_yes_no"),
        ("boolean", 1, "not_yes_no"),
        ("select", "at", "not_an_option"),
        ("select", ["de"], "not_an_option"),
        ("select", "Germany", "not_an_option"),
        ("select", {}, "not_an_option"),
        ("multiselect", "de", "not_options"),
        ("multiselect", ["de", "at"], "not_options"),
        ("multiselect", ["de", 1], "not_options"),
        ("multiselect", [["de"]], "not_options"),
        ("multiselect", ["de", "de"], "repeated_option"),
        ("multiselect", {"de": True}, "not_options"),
        ("range", 101, "too_large"),
        ("range", -1, "too_small"),
        ("range", "50", "not_a_number"),
        ("x-colour", ["a"], "not_text"),
        ("x-colour", {}, "not_text"),
        ("x-colour", math.nan, "not_a_number"),
        ("x-colour", "\ud800", "control_characters"),
    ],
)
def test_a_misfit_is_named(type_, value, expected):
    assert code(field(type_), value) == expected


@pytest.mark.parametrize(
    ("type_", "rules", "value", "expected"),
    [
        ("text", {"min_length": 2}, "a", "too_short"),
        ("text", {"min_length": 2}, "ab", None),
        ("text", {"max_length": 2}, "abc", "too_long"),
        ("text", {"max_length": 1}, "ab", "one_character"),
        ("text", {"max_length": 1}, "👍", None),
        pytest.param("text", {"max_length": 20_000}, "a" * 20_000, None, id="allowed to be long"),
        ("text", {"pattern": "[A-Z]{2}"}, "DE", None),
        ("text", {"pattern": "[A-Z]{2}"}, "DEU", "wrong_form"),
        pytest.param("text", {"pattern": "a*"}, "a" * 2_001, "too_long", id="long for a pattern"),
        ("email", {"pattern": r".*@example\.com"}, "a@example.org", "wrong_form"),
        ("email", {"max_length": 10}, "abc@example.com", "too_long"),
        ("url", {"pattern": "https://.*"}, "http://example.com", "wrong_form"),
        ("number", {"min": 1, "max": 2.5}, 1, None),
        ("number", {"min": 1, "max": 2.5}, 2.5, None),
        ("number", {"min": 1, "max": 2.5}, 0.999, "too_small"),
        ("number", {"min": 1, "max": 2.5}, 3, "too_large"),
        ("range", {"min": 40_000, "max": 200_000}, 115_000, None),
        ("range", {"min": 40_000, "max": 200_000}, 100, "too_small"),
        ("date", {"min": "2026-01-01", "max": "2026-12-31"}, "2026-12-31", None),
        ("date", {"min": "2026-01-01", "max": "2026-12-31"}, "2025-12-31", "too_early"),
        ("date", {"min": "2026-01-01", "max": "2026-12-31"}, "2027-01-01", "too_late"),
        ("x-money", {"min": 1, "max": 5}, 6, "too_large"),
        ("x-money", {"min": 1, "max": 5}, "3", "not_a_number"),
        ("x-code", {"pattern": "[0-9]+"}, 12, "not_text"),
        ("x-code", {"pattern": "[0-9]+"}, "12a", "wrong_form"),
        ("x-code", {"max_length": 3}, True, "not_text"),
    ],
)
def test_bounds_are_kept(type_, rules, value, expected):
    assert code(field(type_, **rules), value) == expected


@pytest.mark.parametrize(
    ("type_", "rules", "value", "message"),
    [
        ("range", {"min": 40_000.0, "max": 50_000}, 1, "Write 40000 or more."),
        ("date", {"min": "2026-01-01"}, "2020-01-01", "Choose 2026-01-01 or a later date."),
        ("text", {"max_length": 3}, "long", "Shorten this to at most 3 characters."),
    ],
)
def test_messages_name_the_bound_as_a_person_would(type_, rules, value, message):
    found = validate_answer(field(type_, **rules), value)
    assert found is not None
    assert found.message == message


@pytest.mark.parametrize("type_", [*FIELD_TYPES, "x-anything"])
def test_no_message_repeats_the_answer(type_):
    secret = "hunter2-\ud800"
    for value in (secret, [secret], {secret: secret}, [[secret]]):
        found = validate_answer(field(type_), value)
        assert found is not None
        assert "hunter2" not in str(found)


def test_dates_are_calendar_days():
    assert parse_date("2024-02-29") == date(2024, 2, 29)
    assert parse_date(None) is None
