import pytest

from placet.text.characters import is_one_line, is_storable


@pytest.mark.parametrize(
    "text", ["", "Grüße\n\tan 東京", "a\r\nb", "soft\x0bbreak", "👩‍👩‍👧", "\u202e", "next\x85line"]
)
def test_words_of_any_language_are_storable(text):
    assert is_storable(text)


@pytest.mark.parametrize("text", ["a\x00b", "\x1b[2J", "\x07", "\x7f", "\x9b31m", "\ud800", "a\udfffb"])
def test_what_breaks_stores_or_drives_terminals_is_not(text):
    assert not is_storable(text)


@pytest.mark.parametrize("text", ["a\nb", "a\rb", "a\x0bb", "a\x0cb", "a\x85b", "a\u2028b", "a\u2029b"])
def test_every_kind_of_line_break_counts(text):
    assert not is_one_line(text)
    assert is_one_line("one line")
