"""The real Presidio, in its process: what it finds, what it refuses, and how it is stopped."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
import spacy

from placet.errors import DetectorBusy, Unavailable, ValidationFailed
from placet.ports.detector import Rule, Scannable
from placet.relay.detectors.presidio import worker as presidio_worker
from placet.relay.detectors.presidio.detector import MODEL_ENTITIES, PATTERN_ENTITIES, PresidioDetector
from placet.relay.detectors.presidio.worker import build_analyzer
from placet.relay.policy.evaluation import Outcome
from placet.testing.contracts.detector import DetectorContract, DetectorSample, scan
from tests.relay.detectors.sample_evaluator import WAY, build_evaluator, evaluate_texts
from tests.relay.policies.samples import build_entity_draft, build_policy
from tests.waiting import PATIENCE_S

SSN = Rule(what="US_SSN", threshold=0.7)
START_UP = timedelta(seconds=60)


@pytest.fixture(scope="module")
def shared_detector() -> Iterator[PresidioDetector]:
    """One process for all tests of this file that leave it alive."""
    detector = PresidioDetector(within=START_UP)
    yield detector
    asyncio.run(detector.aclose())


def kill_processes(detector: PresidioDetector) -> None:
    for process in detector._processes:
        if process._process is not None:
            os.killpg(process._process.pid, signal.SIGKILL)


class TestPresidio(DetectorContract):
    @pytest.fixture
    def detector(self, shared_detector: PresidioDetector) -> PresidioDetector:
        return shared_detector

    @pytest.fixture
    def sample(self) -> DetectorSample:
        return DetectorSample(
            rule=SSN,
            text="my SSN is 536-22-8764",
            found="536-22-8764",
            clean="nothing of note here ",
            wrong=Rule(what="SHOE_SIZE"),
        )

    async def test_a_closed_detector_never_says_that_a_text_is_clean(self, *_: object, **__: object) -> None:
        """With a process of its own: the shared one is still needed."""
        closed = PresidioDetector()
        prepared = closed.prepare([SSN])
        await closed.aclose()
        with pytest.raises(RuntimeError):
            await prepared.scan([Scannable("p", "my SSN is 536-22-8764")])


@pytest.mark.anyio
@pytest.mark.parametrize("written", ["５３６-２２-８７６４", "536\u201322\u20138764", "53\u200b6-22-8764"])
async def test_a_number_is_found_however_it_is_written(
    shared_detector: PresidioDetector, written: str
) -> None:
    found = build_evaluator([build_policy(build_entity_draft("US_SSN"))], shared_detector)
    text = f"my SSN is {written}, thanks"
    evaluation = await evaluate_texts(found, text)
    assert evaluation.outcome is Outcome.HOLD
    [finding] = evaluation.findings
    assert text[finding.start : finding.end] == finding.text == written


@pytest.mark.anyio
async def test_long_text_with_typographic_dashes_is_scanned_once(
    shared_detector: PresidioDetector,
) -> None:
    found = build_evaluator([build_policy(build_entity_draft("US_SSN"))], shared_detector)
    assert (await evaluate_texts(found, "so – far – so – good. " * 6_000)).outcome is Outcome.PASS


@pytest.mark.anyio
async def test_the_words_around_a_number_raise_its_score(shared_detector: PresidioDetector):
    rule = Rule(what="US_SSN")
    scores = [
        (await scan(shared_detector, [rule], text)).matches[0].score
        for text in ("my SSN is 536-22-8764", "536-22-8764")
    ]
    assert scores == [0.85, 0.5]


@pytest.mark.anyio
async def test_the_seeds_policy_holds_a_message_with_a_social_security_number(
    shared_detector: PresidioDetector,
):
    found = build_evaluator([build_policy(build_entity_draft("US_SSN", 0.7))], shared_detector)
    held = await evaluate_texts(found, "hello", "my SSN is 536-22-8764")
    assert held.outcome is Outcome.HOLD
    (finding,) = held.findings
    assert (finding.path, finding.start, finding.end) == ("message.parts[1].text", 10, 21)
    assert (await evaluate_texts(found, "order 536-22-8764")).outcome is Outcome.PASS


@pytest.mark.anyio
@pytest.mark.parametrize(
    "text",
    [
        '{"ssn":"536-22-8764"}',
        "my SSN:536-22-8764",
        "SSN=536-22-8764;",
        "customer_ssn|536-22-8764",
        "<ssn>536-22-8764</ssn>",
        "ssn,536-22-8764",
        "SSN\n536-22-8764",
        "536-22-8764 (SSN)",
        "536-22-8764 is my SSN",
        "socialSecurityNumber:'536-22-8764'",
    ],
)
async def test_seeds_policy_finds_a_number_whose_name_is_glued_to_it(
    shared_detector: PresidioDetector, text: str
):
    found = build_evaluator([build_policy(build_entity_draft("US_SSN", 0.7))], shared_detector)
    evaluation = await evaluate_texts(found, text)
    assert evaluation.outcome is Outcome.HOLD
    assert {one.text for one in evaluation.findings} == {"536-22-8764"}


@pytest.mark.anyio
async def test_dry_run_says_what_would_raise_the_score(shared_detector: PresidioDetector):
    found = build_evaluator([build_policy(build_entity_draft("US_SSN", 0.7))], shared_detector)
    evaluation = await evaluate_texts(found, "order 536-22-8764")
    [near] = evaluation.near_misses
    assert (evaluation.outcome, near.score, near.threshold) == (Outcome.PASS, 0.5, 0.7)
    assert (near.text, near.start) == ("536-22-8764", 6)
    assert near.hint.startswith("One of these words next to it raises the score: social, security, ssn")


@pytest.mark.anyio
@pytest.mark.parametrize("sample", ["123-45-6789", "078-05-1120", "666-12-3456"])
async def test_dry_run_says_that_presidio_ignores_sample_numbers(
    shared_detector: PresidioDetector, sample: str
):
    found = build_evaluator([build_policy(build_entity_draft("US_SSN", 0.7))], shared_detector)
    evaluation = await evaluate_texts(found, f"my SSN is {sample}")
    [near] = evaluation.near_misses
    assert (near.text, near.score) == (sample, 0.0)
    assert "known as a sample" in near.hint


@pytest.mark.anyio
async def test_same_text_is_analyzed_once(shared_detector: PresidioDetector):
    prepared = shared_detector.prepare([SSN])
    pieces = [Scannable("p", "my SSN is 536-22-8764, once")]
    first = await prepared.scan(pieces)
    kill_processes(shared_detector)
    assert await prepared.scan(pieces) == first
    for _ in shared_detector._processes:
        with pytest.raises(Unavailable):
            await prepared.scan([Scannable("p", "another text")])


@pytest.mark.anyio
async def test_overload_is_busy_and_not_doubt(shared_detector: PresidioDetector):
    await scan(shared_detector, [SSN], "warm")
    found = build_evaluator([build_policy(build_entity_draft("US_SSN"))], shared_detector)
    shared_detector.max_wait, wait = timedelta(), shared_detector.max_wait
    try:
        with pytest.raises(DetectorBusy):
            await evaluate_texts(found, "a text that nobody has seen")
    finally:
        shared_detector.max_wait = wait


@pytest.mark.anyio
async def test_many_clean_messages_at_once_pass(shared_detector: PresidioDetector):
    found = build_evaluator([build_policy(build_entity_draft("US_SSN"))], shared_detector)
    texts = [f"clean message {number}: " + "nothing of note here. " * 40 for number in range(64)]
    evaluations = await asyncio.gather(*(evaluate_texts(found, text) for text in texts))
    assert {evaluation.outcome for evaluation in evaluations} == {Outcome.PASS}


@pytest.mark.anyio
async def test_detector_is_starting_until_a_process_has_loaded_presidio():
    detector = PresidioDetector(within=START_UP)
    assert not detector.is_starting
    prepared = detector.prepare([SSN])
    assert detector.is_starting
    await prepared.scan([Scannable("p", "hello")])
    assert not detector.is_starting
    await detector.aclose()


@pytest.mark.anyio
async def test_member_name_is_context_for_its_value(shared_detector: PresidioDetector):
    found = build_evaluator([build_policy(build_entity_draft("US_SSN", 0.7))], shared_detector)
    for path, outcome in (
        ("message.parts[0].data.customerSsn", Outcome.HOLD),
        ("message.parts[0].data.social_security[3]", Outcome.HOLD),
        ("message.parts[0].data.order", Outcome.PASS),
        ("message.ssn.text", Outcome.PASS),
    ):
        seen = await found.inspect([Scannable(path, "536-22-8764")], **WAY)
        assert seen.outcome is outcome, path


@pytest.mark.anyio
async def test_many_findings_in_a_long_text_take_seconds_not_minutes(shared_detector: PresidioDetector):
    text = "my SSN is 536-22-8764, " * 1_000
    started = time.monotonic()
    found = await scan(shared_detector, [SSN], text)
    assert time.monotonic() - started < 2 * PATIENCE_S
    assert {text[match.start : match.end] for match in found.matches} == {"536-22-8764"}
    assert len(found.matches) == 1_000


@pytest.mark.anyio
async def test_a_message_that_is_too_long_for_presidio_is_held(shared_detector: PresidioDetector):
    seen = await evaluate_texts(
        build_evaluator([build_policy(build_entity_draft("US_SSN"))], shared_detector), "a " * 150_000
    )
    assert seen.outcome is Outcome.HOLD
    assert "limit of 200000 characters" in seen.reason


def test_the_table_of_entity_types_is_what_the_analyzer_has():
    engine = build_analyzer(None)
    by_pattern = {
        entity
        for recognizer in engine.registry.recognizers
        if type(recognizer).__name__ != "SpacyRecognizer"
        for entity in recognizer.supported_entities
    }
    assert by_pattern == PATTERN_ENTITIES
    assert set(engine.get_supported_entities("en")) == PATTERN_ENTITIES | MODEL_ENTITIES


@pytest.mark.parametrize("entity", sorted(MODEL_ENTITIES))
def test_entity_type_that_needs_a_model_is_refused_by_name(shared_detector: PresidioDetector, entity: str):
    with pytest.raises(ValidationFailed, match=f"{entity} is found only with a language model"):
        shared_detector.check(Rule(what=entity))


@pytest.mark.anyio
async def test_an_analysis_that_takes_too_long_is_ended_and_the_next_one_follows_at_once(
    shared_detector: PresidioDetector,
):
    await scan(shared_detector, [SSN], "hello")
    found = build_evaluator([build_policy(build_entity_draft("US_SSN"))], shared_detector)
    for attempt in range(3):
        shared_detector.within = timedelta(milliseconds=50)
        seen = await evaluate_texts(found, f"try {attempt}: " + "my SSN is 536-22-8764, " * 8_000)
        assert (seen.outcome, seen.unchecked[0].reason) == (Outcome.HOLD, "PRESIDIO_DETECTION took too long")
        shared_detector.within = START_UP
        started = time.monotonic()
        assert (await scan(shared_detector, [SSN], f"my SSN is 536-22-8764 ({attempt})")).matches
        assert time.monotonic() - started < PATIENCE_S


@pytest.mark.anyio
async def test_dead_worker_process_is_logged_and_restarted(shared_detector: PresidioDetector):
    prepared = shared_detector.prepare([SSN])
    pieces = [Scannable("p", "my SSN is 536-22-8764")]
    assert (await prepared.scan(pieces)).matches
    kill_processes(shared_detector)
    other = [Scannable("p", "my other SSN is 536-22-8764")]
    for _ in shared_detector._processes:
        with pytest.raises(Unavailable):
            await prepared.scan(other)
    assert (await prepared.scan(other)).matches


@pytest.mark.anyio
async def test_a_model_that_is_not_there_holds_messages_and_says_so():
    detector = PresidioDetector(model="no_such_model", within=START_UP)
    with pytest.raises(Unavailable, match="did not start"):
        await scan(detector, [Rule(what="PERSON")], "Ada")
    await detector.aclose()


@pytest.mark.anyio
async def test_with_a_model_its_entity_types_are_found(tmp_path: Path):
    language = spacy.blank("en")
    ruler = language.add_pipe("entity_ruler")
    ruler.add_patterns([{"label": "PERSON", "pattern": "Ada Lovelace"}])  # type: ignore[attr-defined]
    language.to_disk(tmp_path / "model")
    detector = PresidioDetector(model=str(tmp_path / "model"), within=START_UP)
    detector.check(Rule(what="PERSON"))
    (match,) = (await scan(detector, [Rule(what="PERSON")], "I am Ada Lovelace.")).matches
    assert (match.start, match.end, match.entity) == (5, 17, "PERSON")
    await detector.aclose()


def test_a_process_whose_server_is_gone_before_it_is_ready_ends_by_itself():
    command = [sys.executable, "-P", "-m", presidio_worker.__name__]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as worker:
        assert worker.stdin is not None
        assert worker.stdout is not None
        worker.stdin.close()
        worker.stdout.close()
        assert worker.wait(START_UP.total_seconds()) == 0
