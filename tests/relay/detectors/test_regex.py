"""Patterns: all of them at once, true places, and none that can stall the relay."""

import asyncio
import time
from collections.abc import AsyncIterator
from datetime import timedelta

import pytest
import re2
from hypothesis import given
from hypothesis import strategies as st

from placet.errors import ValidationFailed
from placet.ports.detector import Rule, Scannable
from placet.relay.detectors.regex import (
    MAX_MATCHES,
    PreparedPatterns,
    RegexDetector,
    RejectedPattern,
    compile_pattern,
)
from placet.relay.policy.evaluation import Outcome
from placet.relay.policy.finding import Finding
from placet.relay.policy.policy import Policy
from placet.testing.contracts.detector import DetectorContract, DetectorSample, scan
from tests.relay.detectors.sample_evaluator import build_evaluator, evaluate_texts
from tests.relay.policies.samples import build_regex_policy

PATIENCE = timedelta(seconds=30)
"""For machines that do other things too."""
DETECTOR = RegexDetector(within=PATIENCE)


def is_sound(pattern: str) -> bool:
    try:
        return compile_pattern(pattern).fast is not None
    except RejectedPattern:
        return False


def find_only_finding(policy: Policy, text: str) -> Finding:
    """The only finding of the only policy."""
    (finding,) = asyncio.run(evaluate_texts(build_evaluator([policy], DETECTOR), text)).findings
    return finding


@pytest.fixture
async def detector() -> AsyncIterator[RegexDetector]:
    detector = RegexDetector(within=PATIENCE)
    yield detector
    await detector.aclose()


class TestRegex(DetectorContract):
    @pytest.fixture
    def sample(self) -> DetectorSample:
        return DetectorSample(
            rule=Rule(what=r"\b\d{3}-\d{2}-\d{4}\b"),
            text="my SSN is 536-22-8764, thanks",
            found="536-22-8764",
            clean="lorem ipsum dolor 12-34 ",
            wrong=Rule(what="(unclosed"),
        )


class TestTimedRegex(DetectorContract):
    """The same with a pattern that RE2 does not take."""

    @pytest.fixture
    def sample(self) -> DetectorSample:
        return DetectorSample(
            rule=Rule(what=r"(?<=SSN is )\d{3}-\d{2}-\d{4}"),
            text="my SSN is 536-22-8764, thanks",
            found="536-22-8764",
            clean="lorem ipsum dolor 536-22-8764 ",
            wrong=Rule(what="(?<=unclosed"),
        )


@pytest.mark.parametrize(
    "pattern",
    [
        r"(a)\1",
        r"foo(?=bar)",
        r"(?<!x)y",
        r"a++b",
        r"(?>ab|a)c",
        r"a{1001}",
        r"(?x) a  b ",
        r"\Aab\Z",
        r"\p{L}{200}",
    ],
)
def test_patterns_outside_re2_run_in_the_timed_engine(pattern: str):
    assert compile_pattern(pattern).timed


@pytest.mark.parametrize(
    "pattern", [r"\bkey\b", r"(?i)secret", r"(?<name>x)y", r"[[:alpha:]]+x", r"\Qa[b[\Ec", "[]x]", "[^]]"]
)
def test_patterns_in_re2_run_in_linear_time(pattern: str):
    assert compile_pattern(pattern).fast is not None


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        ("(", "does not compile"),
        ("[a-z&&[^x]]", "only Java supports"),
        ("[a[bc]]", "inside"),
        ("a*", "empty"),
        (".*", "empty"),
        ("(?=x)|", "empty"),
        ("^|x", "empty"),
        ("a\x00", "control"),
        ("\ud800", "control"),
        ("(" * 1_900 + "(?=a)b" + ")" * 1_900, "does not compile"),
        ("x" * 4_001, "longer"),
        (r"\p{Nonsense}", "does not compile"),
        (r"(?<=a+)[[x]", "inside"),
    ],
)
def test_a_pattern_that_would_mislead_is_refused_with_a_reason(pattern: str, reason: str):
    with pytest.raises(RejectedPattern, match=reason):
        compile_pattern(pattern)
    with pytest.raises(ValidationFailed) as refused:
        RegexDetector().check(Rule(what=pattern))
    assert refused.value.details == {"path": "pattern.regex"}


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        (r"(a+)+$", "a" * 50_000 + "b"),
        (r"(?:(a|aa)+)+$", "a" * 50_000 + "b"),
        (r"^(\w+\s?)+\z", "word " * 5_000 + "!"),
        (r"(.*a){20}", "x" * 20_000),
    ],
)
async def test_no_pattern_of_re2_explodes(detector: RegexDetector, pattern: str, text: str):
    started = time.process_time()
    found = await scan(detector, [Rule(what=pattern + "|never")], text)
    assert not found.unchecked
    assert time.process_time() - started < 5


@pytest.mark.anyio
@pytest.mark.parametrize(
    "pattern",
    [r"(?=(a+)+$)b?a", r"^(a|aa)+(?!a)$", r"(a+)+\1$", r"(?=(.*a){25}x)a"],
)
async def test_a_pattern_that_backtracks_for_ever_is_stopped_and_holds(detector: RegexDetector, pattern: str):
    policies = [build_regex_policy(pattern, "LOG", "evil"), build_regex_policy("(?<=x)y", "LOG", "good")]
    started = time.process_time()
    found = await evaluate_texts(build_evaluator(policies, detector), "a" * 5_000 + "b")
    assert time.process_time() - started < 15
    assert found.outcome is Outcome.HOLD
    assert [one.applied.policy.policy_id for one in found.unchecked] == ["evil"]
    assert [one.policy.policy_id for one in found.clean] == ["good"]


@pytest.mark.anyio
async def test_a_match_at_every_character_of_ten_megabytes_is_bounded_and_wholly_masked(
    detector: RegexDetector,
):
    text = "a" * 10_000_000
    detector.within = timedelta(seconds=2)
    found = build_evaluator(
        [build_regex_policy("a", "MASK", "p1"), build_regex_policy("a.*b|a", "MASK", "p2")], detector
    )
    started = time.process_time()
    seen = await evaluate_texts(found, text)
    assert time.process_time() - started < 30
    assert len(seen.findings) <= 2 * MAX_MATCHES
    assert seen.outcome in (Outcome.MASK, Outcome.HOLD)
    assert seen.outcome is Outcome.HOLD or "a" not in seen.mask([Scannable("p", text)])[0].text.replace(
        "[MASKED:REGEX]", ""
    )


@pytest.mark.anyio
async def test_a_zero_width_match_counts_and_masks_all(detector: RegexDetector):
    for pattern in (r"\b", r"(?=secret)"):
        seen = await evaluate_texts(
            build_evaluator([build_regex_policy(pattern, "MASK")], detector), "a secret"
        )
        assert seen.outcome is Outcome.MASK, pattern
        assert seen.mask([Scannable("p", "a secret")])[0].text == "[MASKED:REGEX]", pattern


@pytest.mark.anyio
async def test_a_million_pieces_are_checked_or_held_in_bounded_time(detector: RegexDetector):
    detector.within = timedelta(milliseconds=200)
    started = time.process_time()
    seen = await evaluate_texts(
        build_evaluator([build_regex_policy("secret")], detector), *(["x"] * 1_000_000)
    )
    assert time.process_time() - started < 10
    assert seen.outcome is Outcome.HOLD


@pytest.mark.anyio
async def test_ten_thousand_policies_are_looked_for_together(detector: RegexDetector):
    policies = [
        build_regex_policy(rf"\bkey-{place:05}-[a-z]+", "LOG", f"p{place}") for place in range(10_000)
    ]
    found = build_evaluator(policies, detector)
    seen = await evaluate_texts(found, "here is key-04711-abc and key-09999-z")
    assert [one.policy.policy_id for one in seen.matched] == ["p4711", "p9999"]
    assert len(seen.clean) == 9_998


@pytest.mark.anyio
async def test_huge_patterns_are_split_into_sets_that_fit_their_memory(detector: RegexDetector):
    rules = [Rule(what=rf"key{place}[\p{{L}}\p{{N}}]{{20}}z") for place in range(20)]
    text = "key17" + "é" * 20 + "z"
    found = await scan(detector, rules, text)
    assert not found.unchecked
    assert [(match.rule, match.start, match.end) for match in found.matches] == [(17, 0, len(text))]


@pytest.mark.anyio
async def test_a_rule_that_cannot_be_compiled_any_more_holds_instead_of_passing(detector: RegexDetector):
    found = await scan(detector, [Rule(what="("), Rule(what="x")], "nothing here")
    assert list(found.unchecked) == [0]


@pytest.mark.anyio
async def test_long_messages_do_not_stop_the_loop(detector: RegexDetector):
    prepared = detector.prepare([Rule(what="(?i)secret[a-z]{3,9}"), Rule(what="(?<=x)y")])
    found = await prepared.scan([Scannable("p", "z" * 10_000_000 + "secretabc")])
    assert [(match.rule, match.start) for match in found.matches] == [(0, 10_000_000)]


@pytest.mark.anyio
async def test_a_pattern_that_is_slow_on_the_loop_moves_to_a_thread_and_may_come_back(
    detector: RegexDetector,
):
    prepared = PreparedPatterns([Rule(what=".{900}x")], threads=detector._threads, within_s=5)
    slow = [Scannable("p", "".join(chr(97 + place * place % 23) for place in range(3_000)))]
    await prepared.scan(slow)
    assert prepared._inline == 0
    for _ in range(3):
        assert not (await prepared.scan([Scannable("p", "short")])).matches
    assert prepared._inline > 0


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("pattern", "text", "fits"),
    [
        (r"(?=x)x\p{L}", "xé", True),
        (r"\p{L}{200}", "é" * 200, True),
        (r"(?<=ß)straße", "ßstraße", True),
        (r"(?i)(?<=x)É", "xé", True),
        (r"(?<=x)\d", "x٣", False),
        (r"x\d", "x٣", False),
        (r"(?<=é)\b536", "é536", True),
    ],
)
async def test_both_engines_read_letters_and_digits_alike(
    detector: RegexDetector, pattern: str, text: str, fits: bool
):
    found = await scan(detector, [Rule(what=pattern)], text)
    assert bool(found.matches) is fits
    assert not found.unchecked


@pytest.mark.anyio
async def test_a_flood_of_matches_in_many_pieces_is_bounded_and_holds(detector: RegexDetector):
    policies = [build_regex_policy("a", "LOG", "p1"), build_regex_policy("(?<!x)a", "LOG", "p2")]
    seen = await evaluate_texts(build_evaluator(policies, detector), *(["a" * 900] * 200))
    assert seen.outcome is Outcome.HOLD
    assert {one.reason for one in seen.unchecked} == {"there are more than 50000 matches"}
    assert len(seen.findings) < 60_000


def test_stored_match_is_truncated():
    text = "a" * 10_000_000
    found = find_only_finding(build_regex_policy("a+", "LOG"), text)
    assert (found.end, len(found.text)) == (10_000_000, 1_000)


ATOMS = [
    *("a", "b", "[ab]", ".", r"\d", "(a|b)", "(?:ab)+", "a{2,3}", "b?", r"\b", "^", "$"),
    *("x*", "(?i)A", "é", r"\w+", "[^a]", r"\B", "(?m)^", "(?m)$", r"\s"),
]


@given(st.lists(st.lists(st.sampled_from(ATOMS), min_size=1, max_size=5), min_size=1, max_size=60), st.data())
def test_all_patterns_together_find_what_each_finds_alone(parts: list[list[str]], data: st.DataObject):
    patterns = [pattern for one in parts if is_sound(pattern := "".join(one))]
    text = data.draw(st.text("abAx1é \n-", max_size=25))
    prepared = DETECTOR.prepare([Rule(what=pattern) for pattern in patterns])
    found = asyncio.run(prepared.scan([Scannable("p", text)]))
    assert not found.unchecked
    places = {(match.rule, match.start, match.end) for match in found.matches}
    alone = {
        (number, *one.span())
        for number, pattern in enumerate(patterns)
        for one in re2.finditer(pattern, text)
    }
    assert places <= alone
    assert {rule for rule, *_ in places} == {rule for rule, *_ in alone}
