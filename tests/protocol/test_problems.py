from string import Formatter

import pytest

from placet.protocol.answer_problems import CATALOGUE, build_problem


def test_a_problem_has_a_code_words_and_what_a_translation_needs():
    found = build_problem("too_long", maximum=40)
    assert (found.code, found.message) == ("too_long", "Shorten this to at most 40 characters.")
    assert found.params == {"maximum": "40"}


@pytest.mark.parametrize(("value", "shown"), [(5, "5"), (5.0, "5"), (0.5, "0.5"), (-3.25, "-3.25")])
def test_numbers_are_shown_as_people_write_them(value, shown):
    assert build_problem("too_small", minimum=value).message == f"Write {shown} or more."


@pytest.mark.parametrize("message", CATALOGUE.values())
def test_messages_are_sentences_that_ask_for_bounds_only(message):
    assert message[0].isupper()
    assert message.endswith(".")
    assert {name for _, name, _, _ in Formatter().parse(message) if name} <= {"minimum", "maximum"}
