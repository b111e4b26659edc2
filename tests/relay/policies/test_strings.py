"""Texts inside data parts: all of them are found, and put back where they were."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from assent.relay.policies.strings import LONGEST_PATH, strings_of, with_strings

VALUE = {"customer": {"ssn": "536-22-8764", "cards": [4111111111111111, True, None]}, "a b": ["x", {"": 1.5}]}


def test_every_text_number_and_name_has_its_path():
    assert [(one.path, one.text) for one in strings_of(VALUE, "message.parts[0].data")] == [
        ("message.parts[0].data.customer (name)", "customer"),
        ('message.parts[0].data["a b"] (name)', "a b"),
        ("message.parts[0].data.customer.ssn (name)", "ssn"),
        ("message.parts[0].data.customer.cards (name)", "cards"),
        ("message.parts[0].data.customer.ssn", "536-22-8764"),
        ("message.parts[0].data.customer.cards[0]", "4111111111111111"),
        ('message.parts[0].data["a b"][0]', "x"),
        ('message.parts[0].data["a b"][1][""] (name)', ""),
        ('message.parts[0].data["a b"][1][""]', "1.5"),
    ]


def test_a_masked_number_becomes_text_and_others_keep_their_type():
    texts = [one.text for one in strings_of(VALUE, "d")]
    texts[5] = "[MASKED:CREDIT_CARD]"
    changed = with_strings(VALUE, texts)
    assert changed["customer"]["cards"] == ["[MASKED:CREDIT_CARD]", True, None]
    assert changed["a b"] == ["x", {"": 1.5}]
    assert VALUE["customer"]["cards"][0] == 4111111111111111  # type: ignore[index]


def test_names_that_are_masked_alike_lose_no_value():
    value = {"536-22-8764": "first", "536-22-8765": "second", "third": "third"}
    changed = with_strings(value, ["[M]", "[M]", "third", "first", "second", "third"])
    assert changed == {"[M]": "first", "[M] (2)": "second", "third": "third"}


def nested(depth: int, leaf: Any) -> Any:
    for level in range(depth):
        leaf = {"k": leaf} if level % 2 else [leaf]
    return leaf


def test_a_value_nested_a_thousand_deep_is_read_and_put_back():
    value = nested(1_000, "536-22-8764")
    found = strings_of(value, "d")
    assert found[-1].text == "536-22-8764"
    assert max(len(one.path) for one in found) <= LONGEST_PATH + len("… (name)")
    changed = with_strings(value, [one.text for one in found[:-1]] + ["gone"])
    for level in reversed(range(1_000)):
        changed = changed["k"] if level % 2 else changed[0]
    assert changed == "gone"


def test_a_hundred_thousand_deep_is_no_harder():
    value = nested(100_000, "x")
    assert strings_of(value, "d")[-1].text == "x"
    while isinstance(value, list | dict):  # taken apart by hand: even letting go of it would recurse
        value = value["k"] if isinstance(value, dict) else value[0]


def test_a_number_of_five_thousand_digits_is_still_a_text():
    assert len(strings_of([10**5_000], "d")[0].text) > 4_000


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=15,
)


@given(json_values)
def test_a_value_with_its_own_texts_is_itself(value: Any):
    assert with_strings(value, [one.text for one in strings_of(value, "d")]) == value
