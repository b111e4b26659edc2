"""What becomes of a message, given what detectors said."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placet.ports.detector import Match, Scan, Scannable
from placet.relay.policy.evaluation import (
    MAX_FINDINGS,
    DetectorResult,
    Outcome,
    build_clean_evaluation,
    evaluate_scans,
    is_final,
)
from placet.relay.policy.finding import redact_findings
from placet.relay.policy.policy import Leg
from placet.relay.policy.policy_set import AppliedPolicy, PolicySet
from tests.relay.policies.samples import NOW, build_entity_draft, build_policy, build_regex_policy

TEXT = "my SSN is 536-22-8764"
PIECES = [Scannable("message.parts[0].text", TEXT)]


def build_applied_policies(*actions: str) -> tuple[AppliedPolicy, ...]:
    policies = [build_regex_policy("x", action, f"p{n}", name=f"P{n}") for n, action in enumerate(actions)]
    bound = PolicySet.for_everyone(policies, now=NOW)
    return bound.find_applicable(source="a", sink="b", leg=Leg.REQUEST_TO_SINK, at=NOW).policies


def build_match(rule: int, start: int = 10, end: int = 21, **over: Any) -> Match:
    return Match(**{"rule": rule, "piece": 0, "start": start, "end": end, "entity": "US_SSN", **over})


def build_detector_result(rules: int, *matches: Match, first: int = 0, **unchecked: str) -> DetectorResult:
    doubts = {int(name.removeprefix("rule")): reason for name, reason in unchecked.items()}
    places = {number: first + number for number in range(rules)}
    return DetectorResult(
        detector="REGEX_DETECTION", rules=places, scan=Scan(matches=matches, unchecked=doubts)
    )


@pytest.mark.parametrize(
    ("action", "outcome"),
    [
        ("LOG", Outcome.LOG),
        ("WARN", Outcome.WARN),
        ("MASK", Outcome.MASK),
        ("HUMAN_REVIEW_REQUIRED", Outcome.HOLD),
        ("BLOCK", Outcome.BLOCK),
    ],
)
def test_each_action_has_its_outcome(action: str, outcome: Outcome):
    assert (
        evaluate_scans(
            build_applied_policies(action), [build_detector_result(1, build_match(0))], PIECES
        ).outcome
        is outcome
    )


def test_the_strictest_outcome_wins_and_the_first_of_equals_is_named():
    policies = build_applied_policies("LOG", "BLOCK", "HUMAN_REVIEW_REQUIRED", "BLOCK")
    found = evaluate_scans(
        policies, [build_detector_result(4, *(build_match(rule) for rule in range(4)))], PIECES
    )
    assert found.outcome is Outcome.BLOCK
    assert found.decided_by is policies[1]
    assert found.matched == policies


def test_a_finding_says_which_policy_found_what_and_where():
    policies = build_applied_policies("MASK")
    (finding,) = evaluate_scans(
        policies, [build_detector_result(1, build_match(0, score=0.85))], PIECES
    ).findings
    assert finding.text == TEXT[finding.start : finding.end] == "536-22-8764"
    assert (finding.policy_id, finding.policy_name, finding.policy_version) == ("p0", "P0", "1")
    assert (finding.policy_level, finding.score, finding.path) == ("TENANT", 0.85, PIECES[0].path)
    assert redact_findings([finding])[0].text == "[MASKED:US_SSN]"


def test_paths_do_not_reveal_a_matched_member_name():
    (piece,) = PIECES
    places = [f"message.metadata.{piece.text[10:]}", f"message.metadata.{piece.text[10:]}.note"]
    pieces = [Scannable(places[0], piece.text[10:]), Scannable(places[1], "a secret note")]
    matches = [build_match(0, 0, 11), build_match(0, 2, 8, piece=1)]
    found = evaluate_scans(build_applied_policies("LOG"), [build_detector_result(1, *matches)], pieces)
    assert [one.path for one in redact_findings(found.findings)] == ["message.metadata.[MASKED]"] * 2


def test_every_policy_has_an_audit_result():
    policies = build_applied_policies("LOG", "BLOCK", "LOG", "WARN")
    found = evaluate_scans(policies, [build_detector_result(3, build_match(1), rule2="it broke")], PIECES)
    assert found.matched == (policies[1],)
    assert found.clean == (policies[0],)
    assert [(one.applied, one.reason) for one in found.unchecked] == [(policies[2], "it broke")]
    assert found.not_reached == (policies[3],)


@pytest.mark.parametrize("action", ["LOG", "WARN", "MASK", "HUMAN_REVIEW_REQUIRED", "BLOCK"])
def test_a_policy_that_could_not_be_checked_holds_the_message(action: str):
    found = evaluate_scans(
        build_applied_policies(action), [build_detector_result(1, rule0="it took too long")], PIECES
    )
    assert found.outcome is Outcome.HOLD
    assert found.reason == "P0 could not be checked: it took too long."


def test_block_outranks_an_unchecked_policy():
    found = evaluate_scans(
        build_applied_policies("LOG", "BLOCK"),
        [build_detector_result(2, build_match(1), rule0="it broke")],
        PIECES,
    )
    assert found.outcome is Outcome.BLOCK
    assert found.reason == "P1 matched, and its action is BLOCK."


def test_policy_that_fails_after_a_match_is_reported_as_both():
    found = evaluate_scans(
        build_applied_policies("LOG"), [build_detector_result(1, build_match(0), rule0="it broke")], PIECES
    )
    assert found.outcome is Outcome.HOLD
    assert found.matched == tuple(one.applied for one in found.unchecked)


@pytest.mark.parametrize(
    "lie",
    [
        {"start": -1},
        {"end": 22},
        {"start": 12, "end": 11},
        {"piece": 1},
        {"piece": -1},
        {"score": float("nan")},
    ],
)
def test_match_outside_the_message_counts_as_unchecked(lie: dict[str, Any]):
    found = evaluate_scans(
        build_applied_policies("LOG"), [build_detector_result(1, build_match(0, **lie))], PIECES
    )
    assert (found.outcome, found.findings) == (Outcome.HOLD, ())


def test_what_scores_below_the_threshold_is_no_match():
    bound = PolicySet.for_everyone([build_policy(build_entity_draft("US_SSN", 0.7))], now=NOW)
    policies = bound.find_applicable(source="a", sink="b", leg=Leg.REQUEST_TO_SINK, at=NOW).policies
    for score, outcome in ((0.69, Outcome.PASS), (0.7, Outcome.HOLD)):
        assert (
            evaluate_scans(policies, [build_detector_result(1, build_match(0, score=score))], PIECES).outcome
            is outcome
        )


def test_only_an_effective_block_stops_the_evaluation():
    policies = build_applied_policies("BLOCK", "HUMAN_REVIEW_REQUIRED")
    assert is_final(policies, build_detector_result(2, build_match(0)), PIECES)
    assert not is_final(policies, build_detector_result(2, build_match(1)), PIECES)
    assert not is_final(policies, build_detector_result(2, build_match(0, end=99)), PIECES)


def test_a_message_without_findings_passes():
    policies = build_applied_policies("BLOCK")
    assert evaluate_scans(policies, [build_detector_result(1)], PIECES) == build_clean_evaluation(policies)
    assert build_clean_evaluation(policies).reason == "No policy matched."
    assert build_clean_evaluation(()).reason == "No policy applies."


def test_findings_beyond_the_limit_are_covered_by_the_last_one():
    text = "a" * 3 * MAX_FINDINGS
    pieces = [Scannable("p", text)]
    matches = [build_match(0, place, place + 1) for place in reversed(range(len(text)))]
    found = evaluate_scans(build_applied_policies("MASK"), [build_detector_result(1, *matches)], pieces)
    assert len(found.findings) == MAX_FINDINGS
    assert found.findings[-1].end == len(text)
    assert "a" not in found.mask(pieces)[0].text


def mask_text(text: str, *spans: tuple[int, int, str]) -> str:
    pieces = [Scannable("other", "untouched"), Scannable("p", text)]
    matches = [build_match(0, start, end, entity=entity, piece=1) for start, end, entity in spans]
    first, second = evaluate_scans(
        build_applied_policies("MASK"), [build_detector_result(1, *matches)], pieces
    ).mask(pieces)
    assert first == pieces[0]
    return second.text


def test_masks_take_the_place_of_what_was_found():
    assert mask_text(TEXT, (10, 21, "US_SSN")) == "my SSN is [MASKED:US_SSN]"
    assert mask_text("ab", (0, 1, "A"), (1, 2, "B")) == "[MASKED:A][MASKED:B]"


def test_findings_that_overlap_share_a_mask_that_names_the_widest():
    assert mask_text("0123456789", (1, 4, "A"), (3, 9, "B"), (5, 6, "C")) == "0[MASKED:B]9"
    assert mask_text("0123456789", (2, 8, "A"), (2, 8, "B")) == "01[MASKED:A]89"


def test_a_finding_without_width_masks_the_whole_text():
    assert mask_text("some secret", (5, 5, "REGEX")) == "[MASKED:REGEX]"


@pytest.mark.parametrize("entity", ["", "a b", "x]", "\u202e", "E" * 61, "two\nlines"])
def test_mask_never_contains_an_unsafe_name(entity: str):
    assert mask_text("secret", (0, 6, entity)) == "[MASKED]"


def test_only_what_mask_policies_found_is_masked_also_when_the_message_is_held():
    policies = build_applied_policies("MASK", "HUMAN_REVIEW_REQUIRED")
    found = evaluate_scans(policies, [build_detector_result(2, build_match(0, 3, 6), build_match(1))], PIECES)
    assert found.outcome is Outcome.HOLD
    assert found.mask(PIECES)[0].text == "my [MASKED:US_SSN] is 536-22-8764"


@given(
    text=st.text(min_size=1, max_size=40),
    spans=st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40)), max_size=6),
)
def test_no_character_of_a_finding_survives_its_mask(text: str, spans: list[tuple[int, int]]):
    marked = "".join(chr(0xE000 + place) for place in range(len(text)))
    cut = [(min(a, b, len(text)), min(max(a, b), len(text)), "E") for a, b in spans]
    left = mask_text(marked, *cut)
    hidden = {marked[place] for start, end, _ in cut for place in range(start, end)}
    assert not hidden & set(left)
    if all(start < end for start, end, _ in cut):
        assert [one for one in left if one >= "\ue000"] == [one for one in marked if one not in hidden]
