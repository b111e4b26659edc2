"""The contract suite of Detector."""

import asyncio
from collections.abc import Sequence

import pytest
from msgspec import Struct

from placet.errors import ValidationFailed
from placet.ports.detector import Detector, Match, Rule, Scan, Scannable

LIMIT_S = 60
PREFIXES = {
    "nothing": "",
    "accents": "Grüße, señor: ",
    "emoji": "\U0001f600\U0001f468\u200d\U0001f469\u200d\U0001f467 hello ",
    "right to left": "\u202e\u05d0\u05d1\u05d2\u202c ",
    "NUL": "a\x00b ",
    "a lone surrogate": "a\ud800b ",
    "Chinese": "你好世界 ",
    "combining marks": "e\u0301e\u0301 ",
    "length": "lorem ipsum " * 2_000,
}


class DetectorSample(Struct, frozen=True, kw_only=True):
    """Rules and texts for the tests of a detector."""

    rule: Rule
    """A rule that the detector supports."""
    text: str
    """An ordinary text with one match of the rule."""
    found: str
    """The part of the text that matches."""
    clean: str
    """A text without a match."""
    wrong: Rule
    """A rule that the detector refuses."""


async def scan(
    detector: Detector,
    rules: Sequence[Rule],
    *texts: str,
    wanted: frozenset[int] | None = None,
) -> Scan:
    """Prepare the rules and scan the texts, with a time limit."""
    prepared = detector.prepare(rules)
    pieces = [Scannable(f"message.parts[{place}].text", text) for place, text in enumerate(texts)]
    async with asyncio.timeout(LIMIT_S):
        return await prepared.scan(pieces, wanted=wanted)


@pytest.mark.anyio
class DetectorContract:
    """Tests of a detector. Subclass it and provide the fixtures `detector` and `sample`."""

    async def test_a_valid_rule_is_accepted_and_an_invalid_one_refused(
        self, detector: Detector, sample: DetectorSample
    ) -> None:
        detector.check(sample.rule)
        with pytest.raises(ValidationFailed) as refused:
            detector.check(sample.wrong)
        assert refused.value.message.endswith(".")
        assert refused.value.details["path"]

    async def test_the_detector_has_a_timeout(self, detector: Detector) -> None:
        assert detector.within.total_seconds() > 0
        assert detector.type

    @pytest.mark.parametrize("prefix", PREFIXES.values(), ids=PREFIXES)
    async def test_the_position_of_a_match_is_correct_after(
        self, detector: Detector, sample: DetectorSample, prefix: str
    ) -> None:
        text = prefix + sample.text
        found = await scan(detector, [sample.rule], text)
        assert not found.unchecked
        (match,) = self._list_matches_of(found, 0)
        assert text[match.start : match.end] == sample.found
        assert match.score >= sample.rule.threshold
        assert match.entity

    async def test_clean_texts_have_no_findings(self, detector: Detector, sample: DetectorSample) -> None:
        found = await scan(detector, [sample.rule], sample.clean, "", " ", "\x00", "\ud800", "\U0001f600")
        assert not found.matches
        assert not found.unchecked

    async def test_empty_input_has_no_findings(self, detector: Detector, sample: DetectorSample) -> None:
        for rules, texts in (([], [sample.text]), ([sample.rule], []), ([], [])):
            found = await scan(detector, rules, *texts)
            assert not found.matches
            assert not found.unchecked

    async def test_each_match_names_its_text(self, detector: Detector, sample: DetectorSample) -> None:
        found = await scan(detector, [sample.rule], sample.clean, sample.text, sample.clean, sample.text)
        assert sorted(match.piece for match in found.matches) == [1, 3]

    async def test_each_rule_is_answered_by_its_number(
        self, detector: Detector, sample: DetectorSample
    ) -> None:
        found = await scan(detector, [sample.rule, sample.rule, sample.rule], sample.text)
        assert sorted(match.rule for match in found.matches) == [0, 1, 2]

    async def test_only_wanted_rules_are_answered(self, detector: Detector, sample: DetectorSample) -> None:
        rules = [sample.rule] * 3
        found = await scan(detector, rules, sample.text, wanted=frozenset({1}))
        assert [match.rule for match in found.matches] == [1]
        assert not (await scan(detector, rules, sample.text, wanted=frozenset())).matches

    async def test_scans_side_by_side_do_not_mix(self, detector: Detector, sample: DetectorSample) -> None:
        prepared = detector.prepare([sample.rule])
        texts = [sample.text if place % 3 == 0 else sample.clean for place in range(24)]
        async with asyncio.timeout(LIMIT_S):
            found = await asyncio.gather(*(prepared.scan([Scannable("p", text)]) for text in texts))
        assert [bool(one.matches) for one in found] == [place % 3 == 0 for place in range(24)]
        assert not any(one.unchecked for one in found)

    async def test_a_huge_text_is_checked_or_said_to_be_unchecked(
        self, detector: Detector, sample: DetectorSample
    ) -> None:
        text = sample.clean * (5_000_000 // len(sample.clean)) + " " + sample.text
        try:
            found = await scan(detector, [sample.rule], text)
        except (TimeoutError, OSError):
            return
        assert 0 in found.unchecked or self._list_matches_of(found, 0)

    async def test_a_closed_detector_never_says_that_a_text_is_clean(
        self, detector: Detector, sample: DetectorSample
    ) -> None:
        prepared = detector.prepare([sample.rule])
        await detector.aclose()
        long = sample.clean * (200_000 // len(sample.clean)) + " " + sample.text
        for text in (sample.text, long):
            try:
                found = await prepared.scan([Scannable("p", text)])
            except Exception:  # noqa: S112 - whatever it raises holds the message
                continue
            assert 0 in found.unchecked or self._list_matches_of(found, 0)

    @staticmethod
    def _list_matches_of(found: Scan, rule: int) -> list[Match]:
        return [match for match in found.matches if match.rule == rule]
