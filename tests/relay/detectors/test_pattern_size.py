"""Short patterns that would take all memory once they are written out."""

import pytest

from placet.relay.detectors.regex import RejectedPattern, compile_pattern, estimate_expanded_size


@pytest.mark.parametrize(
    ("pattern", "size"),
    [
        ("abc", 3),
        (r"\b\d{3}-\d{2}-\d{4}\b", 13),
        ("a{1000}", 1000),
        ("a{1000,}", 1000),
        ("(?:ab){50}c", 101),
        ("((a{10}){10}){10}", 1000),
        ("(a{10}){0,5}b", 11),
        ("a{2}{3}", 6),
        (r"[a{90}\]{90}]{2}", 2),
        (r"\p{L}{7}\{90}", 11),
        ("(a{10})(?#remark){10}", 100),
        ("(a{10})(?i){10}", 100),
        ("(?P<name>a{5})(?=b{5})(?<!c)(?i:d)", 12),
        ("a(?:b", 2),
    ],
)
def test_pattern_size_counts_expanded_repetitions(pattern: str, size: int):
    assert estimate_expanded_size(pattern) == size


@pytest.mark.parametrize(
    "pattern",
    [
        "(?:a{1000}){1000}",
        "(?:(?:(?:a{100}){100}){100}){100}",
        "(?=x)(?:(?:[ab]c){1000}){1000}",
        "a{999999}",
        "(?=(?:(?:a{500}){0,500}){500})b",
        "(?x)(?: a { 1000 } ) {1000} (?=b)",
        "(?=b)(?x:a)(?:a{1000}) {1000}",
        r"(?=b)(?:[]{1}]\]{1000}){1000}",
    ],
)
def test_oversized_pattern_is_refused(pattern: str):
    with pytest.raises(RejectedPattern, match="after its repetitions are expanded"):
        compile_pattern(pattern)


@pytest.mark.parametrize(
    "pattern",
    [
        r"(?=.*\d{4})[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){3,7}",
        r"(?<![A-Za-z0-9])eyJ[A-Za-z0-9_-]{20,}\.[A-Za-z0-9_-]{20,}\.[A-Za-z0-9_-]{20,}",
        "a{5000}",
        r"\p{L}{1000}\p{L}{1000}",
    ],
)
def test_ordinary_pattern_is_accepted(pattern: str):
    assert compile_pattern(pattern).timed
