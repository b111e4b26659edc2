import pytest

from placet.protocol.fields import CUSTOM, FIELD_TYPES, Field, Validation


def field(type_, **rules):
    return Field(key="k", label="K", type=type_, validation=Validation(**rules))


@pytest.mark.parametrize("type_", FIELD_TYPES)
def test_a_standard_type_is_its_own_kind(type_):
    assert field(type_).field_type == type_


def test_any_other_type_is_custom():
    assert field("x-colour").field_type == CUSTOM


def test_a_range_without_bounds_slides_from_0_to_100():
    assert field("range").bounds == (0, 100)
    assert field("range", min=5, max=6).bounds == (5, 6)
    assert field("number").bounds == (None, None)


@pytest.mark.parametrize(
    ("rules", "longest"),
    [({}, 10_000), ({"max_length": 5}, 5), ({"pattern": "a"}, 2_000), ({"pattern": "a", "max_length": 9}, 9)],
)
def test_text_has_a_longest_length_even_where_none_is_given(rules, longest):
    assert field("text", **rules).longest == longest
