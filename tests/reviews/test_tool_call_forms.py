"""The form in which a person changes a call's arguments: made from any schema, and true to what was sent."""

import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placet.reviews.registry import SAMPLES
from placet.reviews.tool_calls.fields import ArgumentField, ArgumentForm, build_form
from placet.reviews.tool_calls.schema import read_subschema
from placet.reviews.tool_calls.secrets import MASK, mask_secrets
from placet.text.wording import Message
from tests.reviews.offers import offer

BOOKING: dict[str, Any] = {
    "type": "object",
    "$defs": {"Class": {"enum": ["first", "second"], "description": "Of the carriage."}},
    "properties": {
        "from": {"type": "string"},
        "seats": {"type": "integer"},
        "price": {"type": "number"},
        "window": {"type": "boolean"},
        "carriage": {"$ref": "#/$defs/Class"},
        "via": {"type": "array", "items": {"type": "string"}},
        "rows": {"type": "array", "items": {"type": "integer"}},
        "bike": {"type": "object", "properties": {"kind": {"type": "string"}, "size": {"type": "integer"}}},
        "legs": {"type": "array", "items": {"type": "object"}},
        "discount": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
        "note": {"type": "string"},
        "pin": {"type": "string", "format": "password"},
    },
    "required": ["from", "seats"],
}
SENT: dict[str, Any] = {
    "from": "Ulm",
    "seats": 2,
    "price": 19.5,
    "window": True,
    "carriage": "second",
    "via": ["Bonn", "Köln"],
    "rows": [4, 5],
    "bike": {"kind": "city", "size": 56},
    "legs": [{"train": "ICE 1"}],
    "discount": None,
    "pin": "47-11-63",
    "extra": {"deep": {"deeper": 1}},
}


def make_call_form(schema: dict[str, Any] | None, arguments: dict[str, Any]) -> ArgumentForm:
    form = build_form(schema, arguments)
    assert form is not None
    return form


def fields_by_name(form: ArgumentForm) -> dict[str, ArgumentField]:
    return {field.name: field for field in form.fields}


def apply_edits(form: ArgumentForm, **typed: str) -> dict[str, Any]:
    arguments, wrong = form.apply_edits({name.replace("__", "/"): text for name, text in typed.items()})
    assert wrong == {}
    return arguments


def find_errors(schema: dict[str, Any], arguments: dict[str, Any], **typed: str) -> dict[str, Message]:
    return make_call_form(schema, arguments).apply_edits(typed)[1]


def test_every_argument_gets_the_box_that_suits_it() -> None:
    found = fields_by_name(make_call_form(BOOKING, SENT))
    assert {name: field.control for name, field in found.items()} == {
        "from": "line",
        "seats": "number",
        "price": "number",
        "window": "choice",
        "carriage": "choice",
        "via": "list",
        "rows": "list",
        "bike/kind": "line",
        "bike/size": "number",
        "legs": "json",
        "discount": "number",
        "pin": "secret",
        "extra/deep": "json",
        "note": "line",
    }
    assert found["carriage"].choices == ("first", "second")
    assert found["carriage"].hint == "Of the carriage."
    assert found["via"].original == "Bonn\nKöln"
    assert found["pin"].original == ""


def test_what_is_left_alone_stays_exactly_as_it_was_sent() -> None:
    form = make_call_form(BOOKING, SENT)
    assert apply_edits(form) == SENT
    assert form.apply_edits({field.name: field.original for field in form.fields}) == (SENT, {})


def test_typed_texts_become_values_of_their_type() -> None:
    form = make_call_form(BOOKING, SENT)
    changed = apply_edits(
        form,
        seats="3",
        price="20",
        window="false",
        carriage='"first"',
        via="Bonn\n\n Trier ",
        rows="7\n8",
        bike__size="60",
        legs='[{"train": "RE 5"}]',
        discount="25",
        note="Quiet, please",
        pin="08-15-27",
    )
    assert changed == {
        **SENT,
        "seats": 3,
        "price": 20,
        "window": False,
        "carriage": "first",
        "via": ["Bonn", "Trier"],
        "rows": [7, 8],
        "bike": {"kind": "city", "size": 60},
        "legs": [{"train": "RE 5"}],
        "discount": 25,
        "note": "Quiet, please",
        "pin": "08-15-27",
    }
    assert list(changed) == [*SENT, "note"]


def test_an_emptied_box_leaves_out_what_may_be_left_out() -> None:
    form = make_call_form(BOOKING, {**SENT, "discount": 10, "note": "x"})
    assert apply_edits(form, price="")["from"] == "Ulm"
    assert "price" not in apply_edits(form, price="")
    assert "window" not in apply_edits(form, window="")
    assert apply_edits(form, discount="")["discount"] is None
    assert apply_edits(form, note="")["note"] == ""
    assert apply_edits(form, via="")["via"] == []
    assert "legs" not in apply_edits(form, legs="")


@pytest.mark.parametrize(
    ("box", "text", "words"),
    [
        ("seats", "two", "whole number"),
        ("seats", "2.5", "whole number"),
        ("seats", "", "Type a number"),
        ("price", "1,50", "Type a number"),
        ("price", "nan", "Type a number"),
        ("carriage", '"third"', "Choose one of the options"),
        ("rows", "1\nx", "whole number"),
        ("legs", "[", "line 1, character 2"),
        ("legs", "[NaN]", "cannot be read as JSON"),
        ("legs", "[" * 100_000, "cannot be read as JSON"),
    ],
)
def test_what_cannot_be_read_is_told_at_its_box(box: str, text: str, words: str) -> None:
    wrong = find_errors(BOOKING, SENT, **{box: text})
    assert list(wrong) == [box]
    assert words in wrong[box]


def test_without_a_schema_the_form_follows_what_was_sent() -> None:
    form = make_call_form(
        None, {"a": "text", "b": 1, "c": False, "d": [1.5], "e": {"f": "x"}, "g": None, "h": []}
    )
    controls = [(field.name, field.control) for field in form.fields]
    assert controls[:5] == [("a", "line"), ("b", "number"), ("c", "choice"), ("d", "list"), ("e/f", "line")]
    assert apply_edits(form, b="2.5")["b"] == 2.5
    assert apply_edits(form, g='{"x": 1}')["g"] == {"x": 1}


def test_a_value_of_another_type_than_promised_can_be_put_right() -> None:
    form = make_call_form(
        BOOKING, {**SENT, "seats": "two", "via": "Bonn", "window": "yes", "carriage": "third"}
    )
    found = fields_by_name(form)
    assert (found["seats"].control, found["via"].control, found["window"].control) == ("json",) * 3
    assert found["carriage"].choices == ("third", "first", "second")
    assert apply_edits(form, seats="2", via='["Bonn"]', window="true") == {
        **SENT,
        "via": ["Bonn"],
        "carriage": "third",
    }


def test_signs_that_nobody_sees_are_written_out() -> None:
    hidden = {"path": "report\u202egnp.exe", "tab": "a\tb"}
    found = fields_by_name(make_call_form({"properties": {"path": {"type": "string"}}}, hidden))
    assert found["path"].control == "json"
    assert found["path"].original == '"report\\u202egnp.exe"'
    assert found["tab"].control == "line"


@pytest.mark.parametrize("name", ["a/b", "a~1b", "~", "", ".", "edit.1", "\u00e9", "<b>", '"'])
def test_any_printable_name_comes_back_from_the_form(name: str) -> None:
    form = make_call_form(None, {name: "x", "other": "y"})
    assert apply_edits(form, **{form.fields[0].name: "z"}) == {name: "z", "other": "y"}


def test_names_that_no_form_could_carry_are_edited_as_json() -> None:
    form = make_call_form(None, {"a\nb": 1})
    assert [(field.name, field.control) for field in form.fields] == [("", "json")]
    assert form.apply_edits({"": '{"a\\nb": 2}'}) == ({"a\nb": 2}, {})
    assert "must be an object" in form.apply_edits({"": "[1]"})[1][""]
    assert "must be an object" in form.apply_edits({"": " "})[1][""]


def test_many_arguments_are_one_box_that_holds_no_secret() -> None:
    many = {f"field_{n}": n for n in range(100)}
    schema = {"properties": {"key": {"type": "string", "writeOnly": True}}}
    form = make_call_form(schema, {**many, "key": "hunter2"})
    (box,) = form.fields
    assert "hunter2" not in box.original
    assert form.apply_edits({"": '{"field_1": 5}'}) == ({"key": "hunter2", "field_1": 5}, {})


def test_too_large_arguments_have_no_form() -> None:
    assert build_form(None, {"text": "x" * 1_000_000}) is None


# Secrets


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": {"key": {"writeOnly": True}}},
        {"properties": {"key": {"type": "string", "format": "password"}}},
        {"properties": {"key": {"anyOf": [{"format": "password", "type": "string"}, {"type": "null"}]}}},
        {
            "$ref": "#/$defs/A",
            "$defs": {"A": {"properties": {"key": {"$ref": "#/$defs/B"}}}, "B": {"writeOnly": True}},
        },
        {"additionalProperties": {"writeOnly": True}},
        {"patternProperties": {"^k": {"writeOnly": True}}},
        {"allOf": [{"properties": {"key": {"writeOnly": True}}}]},
    ],
)
def test_a_secret_is_masked_wherever_the_schema_says_so(schema: dict[str, Any]) -> None:
    assert mask_secrets({"key": "hunter2"}, read_subschema(schema)) == {"key": MASK}
    form = make_call_form(schema, {"key": "hunter2"})
    assert all("hunter2" not in field.original for field in form.fields)
    assert form.apply_edits({}) == ({"key": "hunter2"}, {})


def test_secrets_deep_inside_are_masked_and_stay_as_they_are() -> None:
    login: dict[str, Any] = {
        "type": "object",
        "properties": {"user": {"type": "string"}, "password": {"format": "password"}},
    }
    schema = {
        "properties": {
            "logins": {"type": "array", "items": login},
            "tree": {"$ref": "#"},
            **login["properties"],
        }
    }
    sent = {"logins": [{"user": "ada", "password": "hunter2"}], "tree": {"tree": {"password": "hunter2"}}}
    assert "hunter2" not in str(mask_secrets(sent, read_subschema(schema)))
    form = make_call_form(schema, sent)
    assert all("hunter2" not in field.original for field in form.fields)
    assert form.apply_edits({field.name: "[]" for field in form.fields if field.control == "kept"})[0] == sent


# Whatever comes

SCALARS = st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=5)
WORDS = st.sampled_from(
    [
        "type",
        "properties",
        "items",
        "anyOf",
        "allOf",
        "$ref",
        "enum",
        "const",
        "required",
        "string",
        "integer",
        "object",
        "array",
        "#",
        "#/properties/a",
        "a",
        "b",
        "null",
        "boolean",
        "writeOnly",
        "additionalProperties",
    ]
)
JSON: Any = st.recursive(
    SCALARS | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=4),
    max_leaves=20,
)
OBJECTS = st.dictionaries(WORDS | st.text(max_size=3), JSON, max_size=4)


@given(schema=OBJECTS, arguments=OBJECTS, text=st.text(max_size=8))
def test_any_schema_makes_a_form_that_loses_nothing(
    schema: dict[str, Any], arguments: dict[str, Any], text: str
) -> None:
    form = make_call_form(schema, arguments)
    assert form.apply_edits({field.name: field.original for field in form.fields}) == (arguments, {})
    form.apply_edits({field.name: text for field in form.fields})
    mask_secrets(arguments, read_subschema(schema))


@given(context=st.dictionaries(st.sampled_from(["tool_calls", "automatic", "agent"]), JSON), values=OBJECTS)
def test_any_context_is_read_or_refused(context: dict[str, Any], values: dict[str, Any]) -> None:
    try:
        prepared = SAMPLES["tool_calls"].prepare({"tool_calls": [], **context})
    except Exception as error:
        assert type(error).__name__ == "ValidationFailed"  # noqa: PT017
        return
    SAMPLES["tool_calls"].build_page_content(offer(SAMPLES["tool_calls"], prepared), values)


def test_a_page_of_many_arguments_and_patterns_does_not_take_many_seconds() -> None:
    patterns: dict[str, Any] = {f"p{number}": {} for number in range(250)}
    arguments = {f"k{number}": 1 for number in range(17_000)}
    call = {"id": "a", "name": "x", "arguments": arguments, "schema": {"patternProperties": patterns}}
    kind = SAMPLES["tool_calls"]
    shown = offer(kind, {"tool_calls": [call]})
    began = time.process_time()
    kind.build_page_content(shown, {})
    kind.extract_comparable(shown)
    assert time.process_time() - began < 5
