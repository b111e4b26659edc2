import pytest

from placet.protocol.conditions import find_condition_error, is_condition_met
from placet.protocol.fields import Conditional, Field, Option

OPTIONS = (Option(value="full", label="Full-time"), Option(value="part", label="Part-time"))


def make_condition(operator, value):
    return Conditional(field="k", operator=operator, value=value)


def make_field(type_):
    return Field(key="k", label="K", type=type_, options=OPTIONS if "select" in type_ else ())


@pytest.mark.parametrize(
    ("operator", "value", "answer", "met"),
    [
        ("eq", "full", "full", True),
        ("eq", "full", "part", False),
        ("eq", "full", None, False),
        ("eq", "", "", False),
        ("eq", 1, 1.0, True),
        ("eq", 1, True, False),
        ("eq", True, True, True),
        ("eq", True, 1, False),
        ("eq", False, False, True),
        ("eq", False, None, False),
        ("eq", 0, 0, True),
        ("eq", "1", 1, False),
        ("eq", "full", ["part", "full"], True),
        ("eq", "full", ["part"], False),
        ("eq", "full", {"full": 1}, False),
        ("neq", "full", "part", True),
        ("neq", "full", "full", False),
        ("neq", "full", None, True),
        ("neq", "full", [], True),
        ("neq", "full", ["full", "part"], False),
        ("in", ["full", "part"], "part", True),
        ("in", ["full"], "part", False),
        ("in", ["full"], None, False),
        ("in", ["full"], ["part", "full"], True),
        ("in", [1, 2], 2, True),
        ("in", [1], True, False),
        ("gt", 5, 6, True),
        ("gt", 5, 5, False),
        ("gt", 5, True, False),
        ("gt", 5, "6", False),
        ("gt", 5, None, False),
        ("gt", 5, float("nan"), False),
        ("gt", 5, float("inf"), False),
        ("gt", 5, [6], False),
        ("lt", 5, 4.5, True),
        ("lt", 5, 5, False),
        ("gt", "2026-01-31", "2026-02-01", True),
        ("lt", "2026-01-31", "2026-02-01", False),
        ("gt", "2026-01-31", "2026-02-30", False),
        ("gt", "2026-01-31", 99, False),
    ],
)
def test_a_condition_is_met_by_the_answer(operator, value, answer, met):
    assert is_condition_met(make_condition(operator, value), answer) is met


def test_a_flood_of_choices_is_cut_short():
    assert not is_condition_met(make_condition("eq", "full"), ["x"] * 1_000_000 + ["full"])


@pytest.mark.parametrize(
    ("type_", "operator", "value"),
    [
        ("text", "eq", "x"),
        ("email", "in", ["a", "b"]),
        ("number", "gt", 5),
        ("range", "in", [1, 2.5]),
        ("date", "lt", "2026-01-31"),
        ("boolean", "eq", False),
        ("select", "neq", "full"),
        ("multiselect", "in", ["full", "part"]),
        ("x-any", "eq", True),
        ("x-any", "gt", 3),
    ],
)
def test_a_sensible_condition_draws_no_complaint(type_, operator, value):
    assert find_condition_error(make_condition(operator, value), make_field(type_)) is None


@pytest.mark.parametrize(
    ("type_", "operator", "value", "complaint"),
    [
        ("text", "gt", "x", "gt compares numbers and dates; k is a text field"),
        ("select", "lt", "full", "lt compares numbers and dates"),
        ("boolean", "gt", True, "gt compares"),
        ("text", "eq", 5, "value must be text"),
        ("text", "eq", "\ud800", "value must be text"),
        ("text", "eq", None, "value must be text"),
        ("text", "eq", ["x"], "value must be text"),
        ("number", "eq", "5", "value must be a number"),
        ("number", "eq", True, "value must be a number"),
        ("number", "gt", float("inf"), "value must be a number"),
        ("date", "gt", "tomorrow", 'value must be a date such as "2026-01-31"'),
        ("boolean", "eq", "true", "value must be true or false"),
        ("select", "eq", "other", "value must be one of the options"),
        ("select", "in", ["full", "other"], "value must be one of the options"),
        ("multiselect", "eq", ["full"], "value must be one of the options"),
        ("x-any", "eq", {}, "value must be text, a number, true or false"),
        ("x-any", "gt", "3", "value must be"),
        ("text", "in", "x", "in needs a list of 1 to 500 values"),
        ("text", "in", [], "in needs a list"),
        ("text", "in", ["x"] * 501, "in needs a list"),
        ("text", "in", [["x"]], "value must be text"),
    ],
)
def test_a_condition_that_could_never_work_is_named(type_, operator, value, complaint):
    assert (find_condition_error(make_condition(operator, value), make_field(type_)) or "").startswith(
        complaint
    )
