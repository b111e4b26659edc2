"""Messages: English text that remembers how it was made."""

from datetime import date

import pytest

from placet.errors import InvalidInput
from placet.http.error_replies import describe_error
from placet.protocol.answer_problems import build_problem
from placet.text.wording import Amount, Message, message, phrase, phrases, plural_message


def test_a_message_is_its_english_text_and_remembers_its_parts():
    said = message("Choose {least} to {most}.", least=1, most=3)
    assert said == "Choose 1 to 3."
    assert (said.template, said.plural, said.parts) == (
        "Choose {least} to {most}.",
        None,
        {"least": 1, "most": 3},
    )


def test_a_message_without_parts_is_taken_as_it_is():
    assert message("Write {braces} if you like.") == "Write {braces} if you like."


@pytest.mark.parametrize(("count", "words"), [(0, "0 files left"), (1, "One file left"), (2, "2 files left")])
def test_a_counted_message_fits_its_number(count, words):
    assert plural_message("One file left", "{count} files left", count=count) == words


def test_parts_may_have_any_name():
    said = message("{template} {plural} {cls}", template="a", plural="b", cls="c")
    assert said == "a b c"


def test_large_amounts_are_readable_in_english():
    assert message("At most {most}.", most=Amount(10_000)) == "At most 10,000."


def test_marks_change_nothing():
    assert phrase("as it is") == "as it is"
    assert phrases("one", "many") == ("one", "many")


def test_a_problem_can_be_said_again_with_its_bounds():
    found = build_problem("too_early", minimum=date(2026, 1, 31))
    assert found.message == "Choose 2026-01-31 or a later date."
    assert isinstance(found.message, Message)
    assert found.message.parts == {"minimum": date(2026, 1, 31)}
    assert build_problem("too_short", minimum=5.0).message == "Write at least 5 characters."


def test_callers_of_the_api_read_messages_as_plain_text():
    wrong = InvalidInput(
        message("This has {count} faults.", count=2), fields={"a": message("Write {n}.", n=1)}
    )
    _, body, _ = describe_error(wrong)
    assert body == b'{"error":"invalid_input","message":"This has 2 faults.","fields":{"a":"Write 1."}}'
