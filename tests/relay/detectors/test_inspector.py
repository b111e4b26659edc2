"""The whole look at a message: which detectors are asked, in which order, and what their failures do."""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from placet.errors import SettingsError, ValidationFailed
from placet.ports.detector import CLEAN, Match, PreparedRules, Rule, Scan, Scannable
from placet.relay.detectors.policy_evaluator import PolicyEvaluator
from placet.relay.detectors.regex import RegexDetector
from placet.relay.detectors.registry import DetectorRegistry, load_entry_points
from placet.relay.policy.evaluation import Outcome
from placet.relay.policy.policy import MESSAGE_LEGS, parse_policy_draft
from placet.relay.policy.policy_set import PolicySet
from placet.testing.contracts.detector import DetectorContract, DetectorSample
from tests.relay.detectors.sample_evaluator import WAY, build_evaluator, evaluate_texts
from tests.relay.policies.samples import (
    NOW,
    build_binding,
    build_entity_draft,
    build_group,
    build_plugin_draft,
    build_policy,
    build_regex_draft,
    build_regex_policy,
)


class WordDetector:
    """A plug-in that looks for the words of its options."""

    type = "x-words"
    within = timedelta(seconds=1)

    def __init__(self) -> None:
        self.asked = 0
        self.trouble: Any = None
        self.closed = False

    def check(self, rule: Rule) -> None:
        if not rule.options.get("words"):
            raise ValidationFailed("Name at least one word.", path="options.words")

    def prepare(self, rules: Sequence[Rule]) -> PreparedRules:
        if self.trouble == "cannot prepare":
            raise RuntimeError("no")
        return _WordRules(self, rules)

    async def aclose(self) -> None:
        self.closed = True


class _WordRules:
    def __init__(self, detector: WordDetector, rules: Sequence[Rule]) -> None:
        self._detector = detector
        self._rules = rules

    async def scan(self, pieces: Sequence[Scannable], *, wanted: frozenset[int] | None = None) -> Scan:
        self._detector.asked += 1
        if self._detector.closed:
            raise RuntimeError("closed")
        if isinstance(self._detector.trouble, BaseException):
            raise self._detector.trouble
        if self._detector.trouble == "hangs":
            await asyncio.Event().wait()
        if self._detector.trouble is not None:
            return self._detector.trouble
        matches = [
            Match(rule=number, piece=place, start=start, end=start + len(word), entity="WORD")
            for number, rule in enumerate(self._rules)
            if wanted is None or number in wanted
            for place, piece in enumerate(pieces)
            for word in rule.options["words"]
            if (start := piece.text.find(word)) >= 0
        ]
        return Scan(matches=matches) if matches else CLEAN


@pytest.fixture
def words() -> WordDetector:
    return WordDetector()


@pytest.fixture
async def patterns() -> AsyncIterator[RegexDetector]:
    detector = RegexDetector()
    yield detector
    await detector.aclose()


class TestWords(DetectorContract):
    @pytest.fixture
    def detector(self) -> WordDetector:
        return WordDetector()

    @pytest.fixture
    def sample(self) -> DetectorSample:
        return DetectorSample(
            rule=Rule(options={"words": ["fool"]}),
            text="you fool!",
            found="fool",
            clean="my friend ",
            wrong=Rule(),
        )


@pytest.mark.anyio
async def test_registered_plug_in_is_used(words: WordDetector):
    found = build_evaluator([build_policy(build_plugin_draft("x-words", words=["fool"]))], words)
    assert (await evaluate_texts(found, "you fool")).outcome is Outcome.BLOCK
    assert (await evaluate_texts(found, "my friend")).outcome is Outcome.PASS


class _OverloadedRules(_WordRules):
    """Has methods that happen to be called as some of the relay's own."""

    def is_clear(self, message: object) -> str:
        return "yes, of its history"

    def scan_inline(self, *pages: object) -> Scan:
        return CLEAN


class OverloadedDetector(WordDetector):
    def prepare(self, rules: Sequence[Rule]) -> PreparedRules:
        return _OverloadedRules(self, rules)


class SinglePieceMessage:
    """A message in one piece."""

    plain = b'{"text":"you fool"}'


@pytest.mark.anyio
async def test_plug_in_is_called_only_through_its_port():
    found = build_evaluator(
        [build_policy(build_plugin_draft("x-words", words=["fool"]))], OverloadedDetector()
    )
    exchange = {name: value for name, value in WAY.items() if name != "at"}
    assert found.inspect_quickly(SinglePieceMessage(), **exchange, now=lambda: NOW) is None
    assert (await evaluate_texts(found, "you fool")).outcome is Outcome.BLOCK


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("trouble", "reason"),
    [
        (RuntimeError("secret text"), "x-words failed (RuntimeError)"),
        (TimeoutError(), "x-words took too long"),
        ("hangs", "x-words took too long"),
        ([], "x-words returned an invalid result"),
        ({}, "x-words returned an invalid result"),
        (Scan(matches=["x"]), "x-words returned an invalid result"),  # type: ignore[list-item]
        (
            Scan(matches=[Match(rule=0, piece=0, start="0", end=1, entity="E")]),  # type: ignore[arg-type]
            "x-words returned an invalid result",
        ),
        (Scan(unchecked={0: "it is unsure"}), "it is unsure"),
        (
            Scan(matches=[Match(rule=0, piece=0, start=0, end=99, entity="E")]),
            "its detector returned a position that is not in the message",
        ),
        ("cannot prepare", "no detector for x-words is ready"),
    ],
)
async def test_any_detector_failure_holds_the_message(
    words: WordDetector, trouble: Any, reason: str, caplog: pytest.LogCaptureFixture
):
    caplog.set_level(logging.CRITICAL)
    words.trouble = trouble
    words.within = timedelta(milliseconds=50)
    seen = await evaluate_texts(
        build_evaluator([build_policy(build_plugin_draft("x-words", "LOG", words=["fool"]))], words), "hello"
    )
    assert seen.outcome is Outcome.HOLD
    assert [one.reason for one in seen.unchecked] == [reason]


@pytest.mark.anyio
async def test_the_log_says_where_a_detector_failed_and_nothing_of_the_message(
    words: WordDetector, caplog: pytest.LogCaptureFixture
):
    words.trouble = RuntimeError("my SSN is 536-22-8764")
    await evaluate_texts(
        build_evaluator([build_policy(build_plugin_draft("x-words", "LOG", words=["fool"]))], words), "hello"
    )
    assert "RuntimeError < test_inspector.py" in caplog.text
    assert "536-22-8764" not in caplog.text


@pytest.mark.anyio
async def test_a_policy_whose_detector_is_gone_holds_every_message(patterns: RegexDetector):
    seen = await evaluate_texts(
        build_evaluator([build_policy(build_plugin_draft("x-gone", "LOG"))], patterns), "hello"
    )
    assert seen.outcome is Outcome.HOLD
    assert seen.reason == "Ask a plug-in could not be checked: no detector for x-gone is ready."


@pytest.mark.anyio
async def test_after_a_block_no_further_detector_sees_the_message(
    patterns: RegexDetector, words: WordDetector
):
    policies = [
        build_policy(build_plugin_draft("x-words", words=["fool"]), "later"),
        build_regex_policy("secret", "BLOCK", "first"),
        build_regex_policy("other", "LOG", "clean"),
    ]
    found = build_evaluator(policies, patterns, words)
    seen = await evaluate_texts(found, "a secret, you fool")
    assert words.asked == 0
    assert [one.policy.policy_id for one in seen.not_reached] == ["later"]
    assert [one.policy.policy_id for one in seen.clean] == ["clean"]
    await evaluate_texts(found, "you fool")
    assert words.asked == 1


@pytest.mark.anyio
async def test_policies_of_all_pairs_compile_together_and_apply_separately(patterns: RegexDetector):
    policies = [build_regex_policy("secret", "BLOCK", "all"), build_regex_policy("money", "BLOCK", "bank")]
    bound = PolicySet(
        policies=policies,
        groups=[build_group("g1", "all"), build_group("g2", "bank")],
        bindings=[build_binding("b1", "g1"), build_binding("b2", "g2", "AGENT", agentId="bank")],
    )
    found = PolicyEvaluator(bound, DetectorRegistry([patterns]))
    pieces = [Scannable("p", "money")]
    for sink, outcome in (("bank", Outcome.BLOCK), ("shop", Outcome.PASS)):
        seen = await found.inspect(pieces, **{**WAY, "sink": sink})
        assert seen.outcome is outcome
    assert [one.policy.policy_id for one in found.applies(**{**WAY, "sink": "shop"})] == ["all"]


@pytest.mark.anyio
async def test_a_policy_starts_and_ends_by_the_clock_without_a_new_policy_set(patterns: RegexDetector):
    later, end = NOW + timedelta(hours=1), NOW + timedelta(hours=2)
    bounded = build_regex_policy("x", validFrom=later.isoformat(), validTo=end.isoformat())
    found = build_evaluator([bounded], patterns)
    pieces = [Scannable("p", "x")]
    outcomes = [
        (await found.inspect(pieces, **{**WAY, "at": at})).outcome for at in (NOW, later, end, later, NOW)
    ]
    assert outcomes == [Outcome.PASS, Outcome.BLOCK, Outcome.PASS, Outcome.BLOCK, Outcome.PASS]


@pytest.mark.anyio
async def test_leg_without_policies_is_not_inspected(patterns: RegexDetector):
    found = build_evaluator([build_regex_policy("x", legs={"responseToSource": True})], patterns)
    outcomes = [
        (await found.inspect([Scannable("p", "x")], **{**WAY, "leg": leg})).outcome for leg in MESSAGE_LEGS
    ]
    assert outcomes == [Outcome.PASS, Outcome.PASS, Outcome.PASS, Outcome.BLOCK]


@pytest.mark.anyio
async def test_two_hundred_rules_cost_a_clean_message_microseconds(patterns: RegexDetector):
    policies = [
        build_regex_policy(
            rf"(?i)\b(key{place}|tok{place})[-_][a-z0-9]{{8,{20 + place % 30}}}\b", policy_id=f"p{place}"
        )
        for place in range(200)
    ]
    found = build_evaluator(policies, patterns)
    pieces = [Scannable("p", ("the quick brown fox and key of the token tok12 " * 30)[:1024])]
    times: list[float] = []
    for _ in range(500):
        started = time.process_time()
        assert (await found.inspect(pieces, **WAY)).outcome is Outcome.PASS
        times.append(time.process_time() - started)
    assert sorted(times)[100] < 200e-6  # some 10 µs of work


@pytest.mark.anyio
async def test_draft_error_from_detector_has_full_path(patterns: RegexDetector, words: WordDetector):
    detectors = DetectorRegistry([patterns, words])
    detectors.check(parse_policy_draft(build_regex_draft("x+")))
    for draft, path in (
        (build_regex_draft("("), "policy.config.pattern.regex"),
        (build_plugin_draft("x-words"), "policy.config.options.words"),
        (build_plugin_draft("x-unknown"), "policy.config.type"),
        (build_entity_draft("US_SSN"), "policy.config.type"),
    ):
        with pytest.raises(ValidationFailed) as refused:
            detectors.check(parse_policy_draft(draft))
        assert refused.value.details == {"path": path}


def test_two_detectors_of_one_type_are_refused(words: WordDetector):
    with pytest.raises(SettingsError, match="x-words"):
        DetectorRegistry([words, WordDetector()])


def write_package(folder: Path, name: str, kind: str) -> None:
    """Another package on disk, as an installer leaves it."""
    folder.mkdir()
    (folder / f"plugin_{folder.name}.py").write_text(
        "from tests.relay.detectors.test_inspector import WordDetector\n"
        f"class Plugin(WordDetector):\n    type = {kind!r}\n"
    )
    about = folder / f"{folder.name}-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {folder.name}\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(f"[placet.detectors]\n{name} = plugin_{folder.name}:Plugin\n")


def test_a_plug_in_of_another_package_is_known_by_its_entry_point(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    write_package(tmp_path / "sound", "x-words", "x-words")
    monkeypatch.syspath_prepend(tmp_path / "sound")
    assert [found.type for found in load_entry_points()] == ["x-words"]


@pytest.mark.parametrize(
    ("name", "kind", "problem"),
    [("words", "words", "must start with"), ("x-other", "x-words", "has the type")],
)
def test_plug_in_of_the_wrong_type_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, kind: str, problem: str
):
    write_package(tmp_path / name.replace("-", ""), name, kind)
    monkeypatch.syspath_prepend(tmp_path / name.replace("-", ""))
    with pytest.raises(SettingsError, match=problem):
        load_entry_points()
