"""Verification at the desk: when evidence is asked for, nothing but verified evidence answers."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from placet.cases.case import Case
from placet.errors import (
    AlreadyClosed,
    CaseExpired,
    RequestError,
    ValidationFailed,
    VerificationFailed,
    VerificationRequired,
)
from placet.ports.store import Store
from placet.protocol.verification import Evidence, SubmitPath, VerificationPolicy, VerifiedEvidence
from placet.testing.desk import ACME, DeskForTests, OpenedCase, create_desk_for_tests
from tests.protocol.policies import evidence, policy, proof_sources, require_branches, verified_evidence

pytestmark = pytest.mark.anyio

Findings = VerifiedEvidence | None | Exception
FOUND = verified_evidence(bound_to_case=True, bound_to_action=True, fresh=True, assurance_level="medium")


class Verifier:
    """A provider's verifier that finds what it is told to find."""

    sources = proof_sources("proof_of_human")

    def __init__(self, finding: Findings = FOUND, meanwhile: Callable[[], object] | None = None) -> None:
        self.finding = finding
        self.meanwhile = meanwhile
        self.asked: list[Evidence] = []

    async def verify(
        self, evidence: Evidence, *, case: Case, action: str, policy: VerificationPolicy
    ) -> VerifiedEvidence | None:
        self.asked.append(evidence)
        if self.meanwhile:
            self.meanwhile()
        if isinstance(self.finding, Exception):
            raise self.finding
        return self.finding


@pytest.fixture
def verifier() -> Verifier:
    return Verifier()


@pytest.fixture
def kit(store: Store, verifier: Verifier) -> DeskForTests:
    return create_desk_for_tests(store=store, verifier=verifier)


async def open_with_policy(kit: DeskForTests, rule: VerificationPolicy, **fields: Any) -> OpenedCase:
    """An approval under this policy."""
    raw: dict[str, Any] = {"verification_policy": rule, "inline_actions": ["approve", "reject"]}
    return await kit.open(**raw | fields)


def build_bound_evidence(opened: OpenedCase, action: str = "approve", **changes: Any) -> Evidence:
    """Evidence for approving this case, as its policy wants it bound."""
    return evidence(binding={"case_id": opened.id, "action": action}, **changes)


async def attempt(
    kit: DeskForTests, opened: OpenedCase, path: SubmitPath, *proofs: Evidence
) -> type[RequestError] | None:
    """How approving by this path ends: None if it was taken, else the refusal, and then the case is open."""
    human = kit.human(opened)
    try:
        await (human.press if path == "inline_submit" else human.answer)("approve", evidence=proofs)
    except RequestError as refusal:
        return type(refusal)
    return None


BAD: dict[str, Findings] = {
    "nothing": None,
    "an outage": ConnectionError("provider down"),
    "another proof": replace(FOUND, proof_type="x-selfie"),
    "another provider": replace(FOUND, provider="other"),
    "not bound to the case": replace(FOUND, bound_to_case=False),
    "silent about the case": replace(FOUND, bound_to_case=None),
    "not bound to the action": replace(FOUND, bound_to_action=False),
    "stale": replace(FOUND, fresh=False),
    "silent about freshness": replace(FOUND, fresh=None),
}


@pytest.mark.parametrize("path", ["inline_submit", "browser_submit"])
@pytest.mark.parametrize("mode", ["required", "step_up"])
async def test_required_path_accepts_only_valid_evidence(
    kit: DeskForTests, verifier: Verifier, mode: str, path: SubmitPath
) -> None:
    opened = await open_with_policy(kit, policy(mode=mode, required_for=[path]))
    assert await attempt(kit, opened, path) is VerificationRequired
    for finding in BAD.values():
        verifier.finding = finding
        assert await attempt(kit, opened, path, build_bound_evidence(opened)) is VerificationFailed
    assert (await kit.poll(opened.id))["status"] == "pending"
    verifier.finding = FOUND
    assert await attempt(kit, opened, path, build_bound_evidence(opened)) is None
    context = (await kit.poll(opened.id))["submission_context"]
    assert context["verification_result"] == {
        "satisfied": True,
        "verified_evidence": [
            {
                "proof_type": "proof_of_human",
                "provider": "mark",
                "assurance_level": "medium",
                "bound_to_case": True,
                "bound_to_action": True,
                "fresh": True,
                "single_use_enforced": True,
                "verified_at": "2026-01-01T06:00:00Z",
            }
        ],
    }


async def test_path_without_requirement_accepts_and_records_missing_evidence(kit: DeskForTests) -> None:
    opened = await open_with_policy(kit, policy(required_for=["inline_submit"]))
    assert await attempt(kit, opened, "browser_submit") is None
    context = (await kit.poll(opened.id))["submission_context"]
    assert context["verification_result"] == {
        "satisfied": False,
        "missing_requirements": ["proof_of_human:mark"],
    }


async def test_optional_evidence_may_be_left_out(kit: DeskForTests) -> None:
    opened = await open_with_policy(kit, policy(mode="optional"))
    assert await attempt(kit, opened, "inline_submit") is None
    result = (await kit.poll(opened.id))["submission_context"]["verification_result"]
    assert result["satisfied"] is False


async def test_optional_evidence_that_is_shown_and_false_is_refused(
    kit: DeskForTests, verifier: Verifier
) -> None:
    opened = await open_with_policy(kit, policy(mode="optional"))
    verifier.finding = None
    assert await attempt(kit, opened, "inline_submit", build_bound_evidence(opened)) is VerificationFailed
    assert await attempt(kit, opened, "inline_submit") is None


async def test_optional_evidence_that_holds_is_recorded(kit: DeskForTests) -> None:
    opened = await open_with_policy(kit, policy(mode="optional"))
    assert await attempt(kit, opened, "inline_submit", build_bound_evidence(opened)) is None
    result = (await kit.poll(opened.id))["submission_context"]["verification_result"]
    assert result["satisfied"] is True


async def test_evidence_without_a_policy_is_ignored(kit: DeskForTests, verifier: Verifier) -> None:
    opened = await kit.open(inline_actions=["approve"])
    assert await attempt(kit, opened, "inline_submit", build_bound_evidence(opened)) is None
    context = (await kit.poll(opened.id))["submission_context"]
    assert context["verification_result"] == {"satisfied": False}
    assert verifier.asked == []


async def test_raw_proofs_are_not_stored(kit: DeskForTests, verifier: Verifier) -> None:
    opened = await open_with_policy(kit, policy())
    await attempt(kit, opened, "inline_submit", build_bound_evidence(opened, presentation="the-proof-itself"))
    case = await kit.desk.get_owned_case(opened.id, ACME)
    told = repr([case, await kit.desk.list_events(opened.id)])
    assert len(verifier.asked) == 1
    assert "the-proof-itself" not in told


async def test_without_a_verifier_evidence_is_refused(store: Store) -> None:
    kit = create_desk_for_tests(store=store)
    with pytest.raises(ValidationFailed, match="proof_of_human:mark"):
        await open_with_policy(kit, policy(fallback={"on_missing": "reject", "on_invalid": "reject"}))
    opened = await open_with_policy(kit, policy())
    assert await attempt(kit, opened, "inline_submit", build_bound_evidence(opened)) is VerificationFailed
    assert await attempt(kit, opened, "browser_submit") is None


@pytest.mark.parametrize(
    "binding",
    [
        {},
        {"case_id": "review_other", "action": "approve"},
        {"action": "approve"},
        {"case_id": None, "action": "approve"},
        {"case_id": ["{id}"], "action": "approve"},
        {"case_id": "{id}", "action": "reject"},
        {"case_id": "{id}"},
        {"case_id": True, "action": True},
    ],
)
async def test_evidence_for_something_else_is_not_even_verified(
    kit: DeskForTests, verifier: Verifier, binding: dict[str, Any]
) -> None:
    opened = await open_with_policy(kit, policy())
    named = {key: opened.id if value == "{id}" else value for key, value in binding.items()}
    assert await attempt(kit, opened, "inline_submit", evidence(binding=named)) is VerificationFailed
    assert verifier.asked == []


async def test_evidence_may_omit_bindings_that_the_policy_does_not_require(
    kit: DeskForTests, verifier: Verifier
) -> None:
    loose = {"case_id": False, "action": False, "freshness_seconds": 60, "single_use": False}
    opened = await open_with_policy(kit, policy(binding=loose))
    verifier.finding = verified_evidence(fresh=True)
    assert await attempt(kit, opened, "inline_submit", evidence()) is None


async def test_a_challenge_must_come_back(kit: DeskForTests) -> None:
    binding = {
        "case_id": True,
        "action": True,
        "freshness_seconds": 60,
        "single_use": True,
        "challenge": "c-1",
    }
    opened = await open_with_policy(kit, policy(binding=binding))
    assert await attempt(kit, opened, "inline_submit", build_bound_evidence(opened)) is VerificationFailed
    proof = evidence(binding={"case_id": opened.id, "action": "approve", "challenge": "c-1"})
    assert await attempt(kit, opened, "inline_submit", proof) is None


async def test_policy_may_expire_before_its_case(kit: DeskForTests) -> None:
    end = kit.clock() + timedelta(minutes=5)
    binding = {
        "case_id": True,
        "action": True,
        "freshness_seconds": 60,
        "single_use": True,
        "expires_at": end.isoformat(),
    }
    opened = await open_with_policy(kit, policy(binding=binding))
    kit.clock.advance(timedelta(minutes=5))
    assert await attempt(kit, opened, "inline_submit", build_bound_evidence(opened)) is VerificationFailed


async def test_evidence_is_spent_by_the_answer_it_carried(kit: DeskForTests) -> None:
    loose = {"case_id": False, "action": False, "freshness_seconds": 60, "single_use": True}
    first, second = [await open_with_policy(kit, policy(binding=loose)) for _ in range(2)]
    assert await attempt(kit, first, "inline_submit", evidence()) is None
    reordered = evidence(format="zkp", binding={"case_id": second.id})
    assert await attempt(kit, second, "inline_submit", reordered) is VerificationFailed
    assert await attempt(kit, second, "inline_submit", evidence(presentation="fresh proof")) is None


async def test_evidence_that_failed_is_not_spent(kit: DeskForTests, verifier: Verifier) -> None:
    opened = await open_with_policy(kit, policy())
    verifier.finding = None
    assert await attempt(kit, opened, "inline_submit", build_bound_evidence(opened)) is VerificationFailed
    verifier.finding = FOUND
    assert await attempt(kit, opened, "inline_submit", build_bound_evidence(opened)) is None


async def test_reusable_evidence_may_be_used_again(kit: DeskForTests) -> None:
    loose = {"case_id": False, "action": False, "freshness_seconds": 60, "single_use": False}
    for _ in range(2):
        opened = await open_with_policy(kit, policy(binding=loose))
        assert await attempt(kit, opened, "inline_submit", evidence()) is None


async def test_the_same_evidence_twice_in_one_answer_is_one(kit: DeskForTests) -> None:
    opened = await open_with_policy(kit, policy())
    assert (
        await attempt(
            kit, opened, "inline_submit", build_bound_evidence(opened), build_bound_evidence(opened)
        )
        is None
    )


async def test_one_false_proof_among_good_ones_is_a_failure(kit: DeskForTests, verifier: Verifier) -> None:
    opened = await open_with_policy(kit, policy())
    stranger = build_bound_evidence(opened, provider="other")
    assert (
        await attempt(kit, opened, "inline_submit", build_bound_evidence(opened), stranger)
        is VerificationFailed
    )


async def test_evidence_must_meet_a_whole_branch_in_the_form_it_asks_for(kit: DeskForTests) -> None:
    human = {"proof_type": "proof_of_human", "presentation_formats": ["zkp"]}
    opened = await open_with_policy(kit, require_branches([human]))
    assert (
        await attempt(kit, opened, "inline_submit", build_bound_evidence(opened, format="jwt"))
        is VerificationFailed
    )
    assert await attempt(kit, opened, "inline_submit", build_bound_evidence(opened, format="zkp")) is None
    high = await open_with_policy(
        kit, require_branches([{"proof_type": "proof_of_human", "min_assurance": "high"}])
    )
    proof = build_bound_evidence(high, presentation="other")
    assert await attempt(kit, high, "inline_submit", proof) is VerificationFailed


async def test_a_refusal_names_the_way_to_the_page(kit: DeskForTests) -> None:
    opened = await open_with_policy(kit, policy())
    with pytest.raises(VerificationRequired) as refusal:
        await kit.human(opened).press("approve")
    assert (refusal.value.status, refusal.value.code) == (403, "verification_required")
    assert refusal.value.details["review_url"] == f"https://placet.example/review/{opened.id}"


async def test_a_deadline_that_passes_while_verifying_is_a_deadline(
    kit: DeskForTests, verifier: Verifier
) -> None:
    opened = await open_with_policy(kit, policy(), timeout="1h")
    verifier.meanwhile = lambda: kit.clock.advance(timedelta(hours=1))
    assert await attempt(kit, opened, "inline_submit", build_bound_evidence(opened)) is CaseExpired
    await kit.sweep.run_once()
    assert "result" not in await kit.poll(opened.id)


async def test_an_answer_that_comes_while_verifying_wins(kit: DeskForTests, verifier: Verifier) -> None:
    opened = await open_with_policy(kit, policy())
    human = kit.human(opened)
    answers: list[Case] = []

    class Rival(Verifier):
        async def verify(self, *args: Any, **kwargs: Any) -> VerifiedEvidence | None:
            answers.append(await human.answer("reject"))
            return FOUND

    rival = create_desk_for_tests(store=kit.store, clock=kit.clock, verifier=Rival())
    assert await attempt(rival, opened, "inline_submit", build_bound_evidence(opened)) is AlreadyClosed
    assert (await kit.poll(opened.id))["result"]["action"] == "reject"


async def test_the_same_evidence_in_two_cases_at_once_answers_one(kit: DeskForTests) -> None:
    loose = {"case_id": False, "action": False, "freshness_seconds": 60, "single_use": True}
    first, second = [await open_with_policy(kit, policy(binding=loose)) for _ in range(2)]
    outcomes: list[type[RequestError] | None] = []

    class Rival(Verifier):
        async def verify(self, *args: Any, **kwargs: Any) -> VerifiedEvidence | None:
            outcomes.append(await attempt(kit, second, "inline_submit", evidence()))
            return verified_evidence(fresh=True)

    rival = create_desk_for_tests(store=kit.store, clock=kit.clock, verifier=Rival())
    outcomes.append(await attempt(rival, first, "inline_submit", evidence()))
    assert outcomes == [None, VerificationFailed]
