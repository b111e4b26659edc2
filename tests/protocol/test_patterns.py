import pytest

from placet.protocol.patterns import MAX_PATTERN_LENGTH, PatternRefused, matches, measure_pattern


def test_the_whole_text_must_match():
    assert matches("[A-Z]{2}", "DE")
    assert not matches("[A-Z]{2}", "DE1")
    assert matches(r"^\+?[0-9\s-]{7,20}$", "+49 170 1234567")


def test_a_dot_does_not_cross_lines_and_the_end_is_the_end():
    assert not matches("a.b", "a\nb")
    assert not matches("^a$", "a\n")


def test_letters_of_any_script_can_be_asked_for():
    assert matches(r"\p{L}+", "Žofie東京")


@pytest.mark.parametrize("pattern", ["(", "[a-", r"(a)\1", "(?=.*[A-Z]).+", "(?!a)b", "a{2000}", "*a", "a**"])
def test_a_pattern_outside_re2_is_refused(pattern):
    with pytest.raises(PatternRefused, match="RE2 syntax"):
        measure_pattern(pattern)


def test_an_overlong_pattern_is_refused():
    measure_pattern("a" * MAX_PATTERN_LENGTH)
    with pytest.raises(PatternRefused, match="longer than 500"):
        measure_pattern("a" * (MAX_PATTERN_LENGTH + 1))


@pytest.mark.parametrize("pattern", ["\ud800", "a\x00b"])
def test_a_pattern_that_cannot_be_kept_is_refused(pattern):
    with pytest.raises(PatternRefused, match="control characters"):
        measure_pattern(pattern)


def test_a_pattern_that_explodes_is_refused():
    with pytest.raises(PatternRefused):
        measure_pattern(r"((\p{L}{1,30}){1,30}){1,30}")


@pytest.mark.parametrize("pattern", ["(x+x+)+y", "(a|aa)+$", "([a-z]+.?)+[A-Z]", "(.*a.{0,900})*b"])
def test_patterns_that_stall_backtracking_engines_answer(pattern):
    assert not matches(pattern, "x" * 2_000 + "!")
