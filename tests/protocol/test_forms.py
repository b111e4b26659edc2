import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from placet.errors import InvalidForm
from placet.protocol.fields import FIELD_TYPES, Field, Validation
from placet.protocol.forms import Form, collect_defaults, form_to_wire, parse_form

CHOICES = [{"value": "full", "label": "Full-time"}, {"value": "part", "label": "Part-time"}]


def text(key="name", **more):
    return {"key": key, "label": "Name", "type": "text", **more}


def single_field_form(**more):
    """A form of one field."""
    return {"fields": [text(**more)]}


def refusal(raw):
    with pytest.raises(InvalidForm) as caught:
        parse_form(raw)
    msgspec.json.encode(caught.value.body())
    return caught.value


def onboarding():
    return {
        "session_id": "form_1",
        "steps": [
            {"title": "You", "description": "Who you are", "fields": [text("name", required=True)]},
            {
                "title": "Work",
                "fields": [
                    {"key": "kind", "label": "Kind", "type": "select", "options": CHOICES},
                    {
                        "key": "salary",
                        "label": "Salary",
                        "type": "range",
                        "sensitive": True,
                        "default_ref": "https://pay.example/salary",
                        "validation": {"min": 40_000, "max": 200_000},
                        "conditional": {"field": "kind", "operator": "eq", "value": "full"},
                    },
                ],
            },
            {"title": "Check and send", "fields": []},
        ],
    }


def test_a_wizard_is_read_in_the_order_of_its_steps():
    form = parse_form(onboarding())
    assert [field.key for field in form.every_field] == ["name", "kind", "salary"]
    assert [len(group) for group in form.groups] == [1, 2, 0]
    assert form.steps is not None
    assert form.steps[0].description == "Who you are"
    assert form.session_id == "form_1"


def test_a_form_without_steps_is_one_group():
    form = parse_form(single_field_form())
    assert len(form.groups) == 1
    assert form.every_field[0].label == "Name"


def test_a_sound_form_travels_as_it_came():
    assert form_to_wire(parse_form(onboarding())) == onboarding()


@pytest.mark.parametrize("type_", [*FIELD_TYPES, "x-file-upload", "x-Colour.v2"])
def test_every_type_is_understood(type_):
    options = CHOICES if "select" in type_ else []
    parse_form({"fields": [{"key": "k", "label": "K", "type": type_, "options": options}]})


def test_bounds_of_dates_are_kept_here_and_left_out_of_the_published_form():
    raw = single_field_form(type="date", validation={"min": "2026-01-01", "max": "2026-12-31"}, required=True)
    form = parse_form(raw)
    assert form.every_field[0].bounds == ("2026-01-01", "2026-12-31")
    assert form_to_wire(form) == single_field_form(type="date", required=True)


def test_numeric_bounds_are_published():
    raw = single_field_form(type="number", validation={"min": 0, "max": 5})
    assert form_to_wire(parse_form(raw)) == raw


def test_defaults_fill_the_form_in():
    form = parse_form(
        {
            "fields": [
                text("a", default="x"),
                text("b"),
                text("c", type="boolean", default=False),
                text("d", default=None),
                text("e", type="multiselect", options=CHOICES, default=["part"]),
                text("f", default=""),
            ]
        }
    )
    assert collect_defaults(form) == {"a": "x", "c": False, "e": ["part"]}


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (None, "form: expected object, got null."),
        ([], "form: expected object, got array."),
        ("form", "form: expected object, got string."),
        ({}, "form: give either fields or steps."),
        ({"fields": [text()], "steps": []}, "form: give either fields or steps."),
        ({"fields": []}, "form: a form takes 1 to 200 fields."),
        ({"steps": []}, "form.steps: a form takes 1 to 20 steps."),
        ({"steps": [{"title": "Empty", "fields": []}]}, "form: a form takes 1 to 200 fields."),
        (
            {"steps": [{"title": str(n), "fields": [text(f"k{n}")]} for n in range(21)]},
            "form.steps: a form takes 1 to 20",
        ),
        ({"fields": [text(f"k{n}") for n in range(201)]}, "form: a form takes 1 to 200 fields."),
        ({"fields": [text()], "pages": []}, "form: `pages` is not a known property."),
        ({"fields": {"a": 1}}, "form.fields: expected array, got object."),
        ({"fields": ["name"]}, "form.fields[0]: expected object, got string."),
        ({"fields": [text()], "session_id": 7}, "form.session_id: expected string, got integer."),
        ({"fields": [text()], "session_id": " "}, "form.session_id: must be 1 to 200"),
        ({"fields": [text()], "session_id": None}, "form.session_id: must not be null"),
        ({"steps": [{"fields": [text()]}]}, "form.steps[0]: `title` is missing."),
        ({"steps": [{"title": "", "fields": [text()]}]}, "form.steps[0].title: must be 1 to 200 characters."),
        ({"steps": [{"title": "a\x00", "fields": [text()]}]}, "form.steps[0].title"),
        (
            {"steps": [{"title": "A", "description": "x" * 2001, "fields": [text()]}]},
            "form.steps[0].description",
        ),
        (
            {"steps": [{"title": "A", "description": None, "fields": [text()]}]},
            "form.steps[0].description: expected string, got null",
        ),
    ],
)
def test_a_misshapen_form_is_refused_with_its_place(raw, message):
    assert refusal(raw).message.startswith(message)


@pytest.mark.parametrize(
    ("field", "complaint"),
    [
        ({"key": "k", "type": "text"}, "`label` is missing"),
        (text("1st"), "key must start with a letter"),
        (text(""), "key must start with a letter"),
        (text("a-b"), "key must start with a letter"),
        (text("näme"), "key must start with a letter"),
        (text("a\n"), "key must start with a letter"),
        (text("__proto__"), "key must start with a letter"),
        (text("k" * 101), "key must start with a letter"),
        (text(label=""), "label must be 1 to 200 characters"),
        (text(label="x" * 201), "label must be 1 to 200 characters"),
        (text(label="a\x1b[31m"), "must not hold control characters"),
        (text(hint="\ud800"), "must not hold control characters"),
        (text(hint="x" * 2001), "placeholder and hint take at most 2000"),
        (text(hint=None), "expected string, got null"),
        (text(type="password"), "type 'password' is unknown; use text, textarea"),
        (text(type="x-"), "type 'x-' is unknown"),
        (text(type="X-thing"), "is unknown"),
        (text(type="x-<script>"), "is unknown"),
        (text(type=5), "expected string, got integer"),
        (text(required="yes"), "expected boolean, got string"),
        (text(required=1), "expected boolean, got integer"),
        (text(colour="red"), "`colour` is not a known property"),
        (text(options=CHOICES), "options belong to select and multiselect, not to text"),
        (text(type="select"), "a select needs 1 to 500 options"),
        (text(type="multiselect", options=[]), "a multiselect needs 1 to 500 options"),
        (
            text(type="select", options=[{"value": str(n), "label": "L"} for n in range(501)]),
            "1 to 500 options",
        ),
        (text(type="select", options=[CHOICES[0], CHOICES[0]]), "two options have the same value"),
        (
            text(type="select", options=[{"value": "", "label": "None"}]),
            "an option needs a value and a label",
        ),
        (text(type="select", options=[{"value": "a", "label": " "}]), "an option needs a value and a label"),
        (text(type="select", options=[{"value": "a" * 201, "label": "A"}]), "take at most 200 characters"),
        (text(type="select", options=[{"value": "a\x00", "label": "A"}]), "must not hold control characters"),
        (text(type="select", options=[{"value": 1, "label": "A"}]), "expected string, got integer"),
        (text(type="select", options=["a"]), "expected object, got string"),
        (
            text(type="select", options=[{"value": "a", "label": "A", "hot": True}]),
            "`hot` is not a known property",
        ),
        (text(validation={"min": 1}), "validation.min does not apply to a text field"),
        (text(type="number", validation={"maxLength": 3}), "validation.maxLength does not apply to a number"),
        (
            text(type="textarea", validation={"pattern": "a"}),
            "validation.pattern does not apply to a textarea",
        ),
        (text(type="boolean", validation={"max": 1}), "validation.max does not apply to a boolean"),
        (
            text(type="x-a", validation={"min": 1, "maxLength": 2}),
            "lengths and pattern, or min and max, not both",
        ),
        (text(validation={"minLength": -1}), "validation.maxLength must be 1 to 100000, minLength 0 or more"),
        (text(validation={"maxLength": 0}), "validation.maxLength must be 1 to 100000"),
        (text(validation={"maxLength": 10**9}), "validation.maxLength must be 1 to 100000"),
        (
            text(validation={"minLength": 5, "maxLength": 4}),
            "validation.minLength is above the longest answer (4)",
        ),
        (text(validation={"minLength": 10_001}), "validation.minLength is above the longest answer (10000)"),
        (text(validation={"maxLength": 1.5}), "expected integer, got number"),
        (text(validation={"maxLength": None}), "must not be null"),
        (text(validation={"longest": 1}), "`longest` is not a known property"),
        (text(validation={"pattern": "("}), "validation.pattern does not compile in RE2 syntax"),
        (text(validation={"pattern": "(?=a)b"}), "neither look-around nor back-references"),
        (text(validation={"pattern": "a" * 501}), "validation.pattern is longer than 500 characters"),
        (text(validation={"pattern": "\ud800"}), "validation.pattern must not hold control characters"),
        (text(validation={"pattern": "a+", "maxLength": 2001}), "validation.maxLength must not pass 2000"),
        (text(type="number", validation={"min": 2, "max": 1}), "validation.min is above validation.max"),
        (text(type="number", validation={"min": "2"}), "must be numbers within"),
        (text(type="number", validation={"min": True}), "expected number or string, got boolean"),
        (text(type="number", validation={"min": float("nan")}), "must be numbers within"),
        (text(type="number", validation={"max": 10**30}), "must be numbers within"),
        (text(type="range", validation={"min": 1}), "a range needs both min and max"),
        (text(type="date", validation={"min": 20260101}), 'must be dates such as "2026-01-31"'),
        (text(type="date", validation={"min": "soon"}), 'must be dates such as "2026-01-31"'),
        (text(type="date", validation={"min": "2026-02-01", "max": "2026-01-01"}), "validation.min is above"),
        (text(default=5), "default does not fit the field (not_text)"),
        (text(default=[[]]), "default does not fit the field (not_text)"),
        (text(default="abc", validation={"maxLength": 2}), "default does not fit the field (too_long)"),
        (
            text(type="select", options=CHOICES, default="none"),
            "default does not fit the field (not_an_option)",
        ),
        (text(type="number", default="5"), "default does not fit the field (not_a_number)"),
        (text(default="secret", sensitive=True), "a sensitive field takes no default; use default_ref"),
        (text(default="a", default_ref="https://a.example/"), "give default or default_ref, not both"),
        (text(default_ref="http://a.example/"), "default_ref cannot be called"),
        (text(default_ref="/relative"), "default_ref cannot be called"),
        (text(default_ref="javascript:alert(1)"), "default_ref cannot be called"),
        (text(default_ref="https://user:pw@a.example/"), "default_ref cannot be called"),
        (text(default_ref=""), "default_ref cannot be called"),
    ],
)
def test_an_unsound_field_is_refused_with_its_place(field, complaint):
    error = refusal({"fields": [text("first"), field]})
    assert complaint in error.message
    assert error.details["path"].startswith("form.fields[1]")


def test_a_refusal_names_the_field_and_never_its_default():
    error = refusal(single_field_form(key="pin", default="4711", sensitive=True))
    assert error.details == {"path": "form.fields[0]", "field": "pin"}
    assert "4711" not in str(error.body())


@pytest.mark.parametrize("url", ["http://localhost:8000/x", "http://127.0.0.1/x", "http://[::1]/x"])
def test_a_default_may_come_from_localhost(url):
    parse_form(single_field_form(default_ref=url, sensitive=True))


def test_a_key_is_used_once_across_all_steps():
    steps = [{"title": "A", "fields": [text("same")]}, {"title": "B", "fields": [text("same")]}]
    error = refusal({"steps": steps})
    assert error.message == "form.steps[1].fields[0]: key 'same' is used by an earlier field."
    assert error.details["field"] == "same"


@pytest.mark.parametrize(
    ("conditional", "complaint"),
    [
        ({"field": "later", "operator": "eq", "value": "x"}, "'later' is not the key of an earlier field"),
        ({"field": "self", "operator": "eq", "value": "x"}, "'self' is not the key of an earlier field"),
        ({"field": "\ud800" * 500, "operator": "eq", "value": "x"}, "is not the key of an earlier field"),
        (
            {"field": "kind", "operator": "eq", "value": "none"},
            "conditional: value must be one of the options",
        ),
        ({"field": "kind", "operator": "in", "value": "full"}, "conditional: in needs a list"),
        ({"field": "kind", "operator": "gt", "value": "full"}, "conditional: gt compares numbers and dates"),
        ({"field": "kind", "operator": "like", "value": "full"}, "conditional.operator"),
        ({"field": "kind", "operator": "eq"}, "`value` is missing"),
        ({"field": "kind", "operator": "eq", "value": None}, "conditional: value must be"),
        ({"field": "kind", "operator": "eq", "value": "full", "not": 1}, "`not` is not a known property"),
        (None, "must not be null"),
    ],
)
def test_a_condition_refers_to_an_earlier_field_and_fits_it(conditional, complaint):
    kind = {"key": "kind", "label": "Kind", "type": "select", "options": CHOICES}
    error = refusal({"fields": [kind, text("self", conditional=conditional), text("later")]})
    assert complaint in error.message


def test_patterns_are_limited_together_but_a_repeated_one_counts_once():
    heavy = [r"[\p{L} .-]{2,50}", r"[\p{L}. -]{3,50}", r"[-\p{L} .]{4,50}", r"[-.\p{L} ]{5,50}"]
    parse_form({"fields": [text(f"k{n}", validation={"pattern": heavy[0]}) for n in range(200)]})
    error = refusal({"fields": [text(f"k{n}", validation={"pattern": p}) for n, p in enumerate(heavy)]})
    assert "the patterns are too large together" in error.message


def test_a_default_nested_beyond_reason_is_refused():
    deep: list = []
    for _ in range(100_000):
        deep = [deep]
    assert "default does not fit" in refusal(single_field_form(default=deep)).message
    condition = {"field": "first", "operator": "eq", "value": deep}
    assert "value must be text" in refusal({"fields": [text("first"), text(conditional=condition)]}).message


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)
NAMES = st.sampled_from(
    [*Field.__struct_encode_fields__, *Validation.__struct_encode_fields__, "fields", "steps"]
)
NEARLY_A_FORM = st.recursive(
    JSON | st.sampled_from([*FIELD_TYPES, "x-a", "eq", "in", "gt", "a", "2026-01-31"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES, inner, max_size=8),
    max_leaves=30,
)
FIELD = st.fixed_dictionaries(
    {"key": st.sampled_from("abcd"), "label": st.just("L"), "type": st.sampled_from([*FIELD_TYPES, "x-a"])},
    optional={
        "required": st.booleans(),
        "default": JSON,
        "options": st.just(CHOICES),
        "validation": st.dictionaries(
            st.sampled_from(["min", "max", "minLength", "maxLength", "pattern"]), JSON
        ),
        "conditional": st.fixed_dictionaries(
            {"field": st.sampled_from("abcd"), "operator": st.sampled_from(["eq", "in", "gt"]), "value": JSON}
        ),
    },
)


@given(JSON | NEARLY_A_FORM | st.fixed_dictionaries({"fields": st.lists(FIELD, max_size=4)}))
def test_arbitrary_json_is_a_sound_form_or_a_refusal(raw):
    try:
        form = parse_form(raw)
    except InvalidForm as error:
        msgspec.json.encode(error.body())
    else:
        assert isinstance(form, Form)
        assert parse_form({"fields": [msgspec.to_builtins(field) for field in form.every_field]}).every_field
        form_to_wire(form)
