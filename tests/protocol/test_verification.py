"""Verification policies: when they ask, what meets them, and which of them are no policies."""

from typing import Any

import msgspec
import pytest

from placet.protocol.verification import VerificationPolicy, encode_evidence, find_unmet_branches, satisfies
from tests.protocol.policies import evidence, policy, require_branches, verified_evidence

HUMAN = {"proof_type": "proof_of_human"}


@pytest.mark.parametrize(
    ("mode", "required_for", "path", "asks"),
    [
        ("required", ["inline_submit"], "inline_submit", True),
        ("required", ["inline_submit"], "browser_submit", False),
        ("required", ["browser_submit", "inline_submit"], "browser_submit", True),
        ("step_up", ["inline_submit"], "inline_submit", True),
        ("step_up", ["browser_submit"], "inline_submit", False),
        ("optional", ["inline_submit"], "inline_submit", False),
        ("optional", ["browser_submit"], "browser_submit", False),
    ],
)
def test_a_policy_asks_on_the_paths_it_names_unless_it_is_optional(
    mode: str, required_for: list[str], path: Any, asks: bool
) -> None:
    assert policy(mode=mode, required_for=required_for).requires_evidence(path) is asks


@pytest.mark.parametrize(
    ("need", "finding", "holds"),
    [
        ({}, {}, True),
        ({"proof_type": "x-passport"}, {}, False),
        ({"provider": "mark"}, {}, True),
        ({"provider": "other"}, {}, False),
        ({"min_assurance": "low"}, {}, False),
        ({"min_assurance": "low"}, {"assurance_level": "low"}, True),
        ({"min_assurance": "medium"}, {"assurance_level": "low"}, False),
        ({"min_assurance": "medium"}, {"assurance_level": "high"}, True),
        ({"presentation_formats": ["jwt", "zkp"]}, {}, True),
        ({"presentation_formats": ["zkp"]}, {}, False),
        ({"presentation_formats": []}, {}, False),
    ],
)
def test_a_proof_meets_a_need_in_kind_provider_assurance_and_form(
    need: dict[str, Any], finding: dict[str, Any], holds: bool
) -> None:
    requirement = require_branches([HUMAN | need]).requirements.any_of[0].all_of[0]
    assert satisfies(requirement, evidence().format, verified_evidence(**finding)) is holds


def test_one_branch_that_holds_is_enough() -> None:
    two_ways = require_branches([HUMAN | {"provider": "other"}], [HUMAN])
    assert find_unmet_branches(two_ways, [(evidence().format, verified_evidence())]) == ()


def test_a_branch_holds_only_as_a_whole() -> None:
    both = require_branches(
        [HUMAN, {"proof_type": "x-passport", "provider": "state", "min_assurance": "high"}]
    )
    assert find_unmet_branches(both, [(evidence().format, verified_evidence())]) == ("x-passport:state:high",)
    assert find_unmet_branches(both, []) == ("proof_of_human and x-passport:state:high",)


def test_what_is_missing_is_named_by_branch() -> None:
    either = require_branches([HUMAN | {"provider": "one"}], [HUMAN | {"provider": "two"}])
    assert find_unmet_branches(either, [(evidence().format, verified_evidence())]) == (
        "proof_of_human:one",
        "proof_of_human:two",
    )


def test_evidence_is_the_same_evidence_however_it_is_bound_or_ordered() -> None:
    one = evidence(presentation={"a": 1, "b": 2}, binding={"case_id": "review_1"})
    other = evidence(presentation={"b": 2, "a": 1}, binding={"case_id": "review_2"}, format="zkp")
    assert encode_evidence(one) == encode_evidence(other)
    assert encode_evidence(one) != encode_evidence(evidence(presentation={"a": 1, "b": 3}))
    assert encode_evidence(one) != encode_evidence(evidence(presentation={"a": 1, "b": 2}, provider="other"))


@pytest.mark.parametrize(
    "changes",
    [
        {"mode": "sometimes"},
        {"required_for": []},
        {"required_for": ["by_letter"]},
        {"requirements": {"any_of": []}},
        {"requirements": {"any_of": [{"all_of": []}]}},
        {"requirements": {"any_of": [{"all_of": [{"proof_type": "selfie"}]}]}},
        {"binding": {"case_id": True, "action": True, "freshness_seconds": 0, "single_use": True}},
        {"binding": {"case_id": True, "action": True, "single_use": True}},
        {
            "binding": {
                "case_id": True,
                "action": True,
                "freshness_seconds": 300,
                "single_use": True,
                "expires_at": "2026-01-01T00:00:00",
            }
        },
        {"fallback": {"on_missing": "approve", "on_invalid": "approve"}},
        {"surprise": 1},
    ],
    ids=lambda changes: str(changes)[:60],
)
def test_a_policy_that_makes_no_sense_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(msgspec.ValidationError):
        policy(**changes)


@pytest.mark.parametrize("key", ["mode", "required_for", "requirements", "binding", "fallback"])
def test_no_part_of_a_policy_can_be_left_out(key: str) -> None:
    whole = msgspec.to_builtins(policy())
    del whole[key]
    with pytest.raises(msgspec.ValidationError, match=key):
        msgspec.convert(whole, VerificationPolicy)
