"""Verification at the desk: when evidence is asked for, nothing but verified evidence answers."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from placet.cases.case import Case
from placet.errors import AlreadyClosed, CaseExpired, RequestError, VerificationFailed, VerificationRequired
from placet.ports.store import Store
from placet.protocol.verification import Evidence, SubmitPath, VerificationPolicy, VerifiedEvidence
from placet.testing.desk import ACME, DeskForTests, OpenedCase, desk_for_tests
from tests.protocol.policies import asking, evidence, found, policy

pytestmark = pytest.mark.anyio

Findings = VerifiedEvidence | None | Exception
FOUND = found(bound_to_case=True, bound_to_action=True, fresh=True, assurance_level="medium")


class Verifier:
    """A provider's verifier that finds what it is told to find."""

    paths: frozenset[SubmitPath] = frozenset({"inline_submit", "browser_submit"})

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
    return desk_for_tests(store=store, verifier=verifier)


async def asked(kit: DeskForTests, rule: VerificationPolicy, **fields: Any) -> OpenedCase:
    """An approval under this policy."""
    raw: dict[str, Any] = {"verification_policy": rule, "inline_actions": ["approve", "reject"]}
    return await kit.open(**raw | fields)


def bound(opened: OpenedCase, action: str = "approve", **changes: Any) -> Evidence:
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
async def test_a_path_that_asks_takes_valid_evidence_and_nothing_else(
    kit: DeskForTests, verifier: Verifier, mode: str, path: SubmitPath
) -> None:
    opened = await asked(kit, policy(mode=mode, required_for=[path]))
    assert await attempt(kit, opened, path) is VerificationRequired
    for finding in BAD.values():
        verifier.finding = finding
        assert await attempt(kit, opened, path, bound(opened)) is VerificationFailed
    assert (await kit.poll(opened.id))["status"] == "pending"
    verifier.finding = FOUND
    assert await attempt(kit, opened, path, bound(opened)) is None
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


async def test_a_path_that_is_not_named_is_free_and_says_what_was_not_shown(kit: DeskForTests) -> None:
    opened = await asked(kit, policy(required_for=["inline_submit"]))
    assert await attempt(kit, opened, "browser_submit") is None
    context = (await kit.poll(opened.id))["submission_context"]
    assert context["verification_result"] == {
        "satisfied": False,
        "missing_requirements": ["proof_of_human:mark"],
    }


async def test_optional_evidence_may_be_left_out(kit: DeskForTests) -> None:
    opened = await asked(kit, policy(mode="optional"))
    assert await attempt(kit, opened, "inline_submit") is None
    result = (await kit.poll(opened.id))["submission_context"]["verification_result"]
    assert result["satisfied"] is False


async def test_optional_evidence_that_is_shown_and_false_is_refused(
    kit: DeskForTests, verifier: Verifier
) -> None:
    opened = await asked(kit, policy(mode="optional"))
    verifier.finding = None
    assert await attempt(kit, opened, "inline_submit", bound(opened)) is VerificationFailed
    assert await attempt(kit, opened, "inline_submit") is None


async def test_optional_evidence_that_holds_is_recorded(kit: DeskForTests) -> None:
    opened = await asked(kit, policy(mode="optional"))
    assert await attempt(kit, opened, "inline_submit", bound(opened)) is None
    result = (await kit.poll(opened.id))["submission_context"]["verification_result"]
    assert result["satisfied"] is True


async def test_evidence_that_nobody_asked_for_proves_nothing(kit: DeskForTests, verifier: Verifier) -> None:
    opened = await kit.open(inline_actions=["approve"])
    assert await attempt(kit, opened, "inline_submit", bound(opened)) is None
    context = (await kit.poll(opened.id))["submission_context"]
    assert context["verification_result"] == {"satisfied": False}
    assert verifier.asked == []


async def test_no_raw_proof_is_kept(kit: DeskForTests, verifier: Verifier) -> None:
    opened = await asked(kit, policy())
    await attempt(kit, opened, "inline_submit", bound(opened, presentation="the-proof-itself"))
    case = await kit.desk.get_owned_case(opened.id, ACME)
    told = repr([case, await kit.desk.events(opened.id)])
    assert len(verifier.asked) == 1
    assert "the-proof-itself" not in told


async def test_without_a_verifier_evidence_cannot_hold(store: Store) -> None:
    kit = desk_for_tests(store=store)
    opened = await asked(kit, policy())
    assert await attempt(kit, opened, "inline_submit", bound(opened)) is VerificationFailed
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
    opened = await asked(kit, policy())
    named = {key: opened.id if value == "{id}" else value for key, value in binding.items()}
    assert await attempt(kit, opened, "inline_submit", evidence(binding=named)) is VerificationFailed
    assert verifier.asked == []


async def test_what_the_policy_does_not_bind_need_not_be_bound(kit: DeskForTests, verifier: Verifier) -> None:
    loose = {"case_id": False, "action": False, "freshness_seconds": 60, "single_use": False}
    opened = await asked(kit, policy(binding=loose))
    verifier.finding = found(fresh=True)
    assert await attempt(kit, opened, "inline_submit", evidence()) is None


async def test_a_challenge_must_come_back(kit: DeskForTests) -> None:
    binding = {
        "case_id": True,
        "action": True,
        "freshness_seconds": 60,
        "single_use": True,
        "challenge": "c-1",
    }
    opened = await asked(kit, policy(binding=binding))
    assert await attempt(kit, opened, "inline_submit", bound(opened)) is VerificationFailed
    proof = evidence(binding={"case_id": opened.id, "action": "approve", "challenge": "c-1"})
    assert await attempt(kit, opened, "inline_submit", proof) is None


async def test_a_policy_can_run_out_before_its_case(kit: DeskForTests) -> None:
    end = kit.clock() + timedelta(minutes=5)
    binding = {
        "case_id": True,
        "action": True,
        "freshness_seconds": 60,
        "single_use": True,
        "expires_at": end.isoformat(),
    }
    opened = await asked(kit, policy(binding=binding))
    kit.clock.advance(timedelta(minutes=5))
    assert await attempt(kit, opened, "inline_submit", bound(opened)) is VerificationFailed


async def test_evidence_is_spent_by_the_answer_it_carried(kit: DeskForTests) -> None:
    loose = {"case_id": False, "action": False, "freshness_seconds": 60, "single_use": True}
    first, second = [await asked(kit, policy(binding=loose)) for _ in range(2)]
    assert await attempt(kit, first, "inline_submit", evidence()) is None
    reordered = evidence(format="zkp", binding={"case_id": second.id})
    assert await attempt(kit, second, "inline_submit", reordered) is VerificationFailed
    assert await attempt(kit, second, "inline_submit", evidence(presentation="fresh proof")) is None


async def test_evidence_that_failed_is_not_spent(kit: DeskForTests, verifier: Verifier) -> None:
    opened = await asked(kit, policy())
    verifier.finding = None
    assert await attempt(kit, opened, "inline_submit", bound(opened)) is VerificationFailed
    verifier.finding = FOUND
    assert await attempt(kit, opened, "inline_submit", bound(opened)) is None


async def test_reusable_evidence_may_be_used_again(kit: DeskForTests) -> None:
    loose = {"case_id": False, "action": False, "freshness_seconds": 60, "single_use": False}
    for _ in range(2):
        opened = await asked(kit, policy(binding=loose))
        assert await attempt(kit, opened, "inline_submit", evidence()) is None


async def test_the_same_evidence_twice_in_one_answer_is_one(kit: DeskForTests) -> None:
    opened = await asked(kit, policy())
    assert await attempt(kit, opened, "inline_submit", bound(opened), bound(opened)) is None


async def test_one_false_proof_among_good_ones_is_a_failure(kit: DeskForTests, verifier: Verifier) -> None:
    opened = await asked(kit, policy())
    stranger = bound(opened, provider="other")
    assert await attempt(kit, opened, "inline_submit", bound(opened), stranger) is VerificationFailed


async def test_evidence_must_meet_a_whole_branch_in_the_form_it_asks_for(kit: DeskForTests) -> None:
    human = {"proof_type": "proof_of_human", "presentation_formats": ["zkp"]}
    opened = await asked(kit, asking([human]))
    assert await attempt(kit, opened, "inline_submit", bound(opened, format="jwt")) is VerificationFailed
    assert await attempt(kit, opened, "inline_submit", bound(opened, format="zkp")) is None
    high = await asked(kit, asking([{"proof_type": "proof_of_human", "min_assurance": "high"}]))
    proof = bound(high, presentation="other")
    assert await attempt(kit, high, "inline_submit", proof) is VerificationFailed


async def test_a_refusal_names_the_way_to_the_page(kit: DeskForTests) -> None:
    opened = await asked(kit, policy())
    with pytest.raises(VerificationRequired) as refusal:
        await kit.human(opened).press("approve")
    assert (refusal.value.status, refusal.value.code) == (403, "verification_required")
    assert refusal.value.details["review_url"] == f"https://placet.example/review/{opened.id}"


async def test_a_deadline_that_passes_while_verifying_is_a_deadline(
    kit: DeskForTests, verifier: Verifier
) -> None:
    opened = await asked(kit, policy(), timeout="1h")
    verifier.meanwhile = lambda: kit.clock.advance(timedelta(hours=1))
    assert await attempt(kit, opened, "inline_submit", bound(opened)) is CaseExpired
    await kit.sweep.once()
    assert "result" not in await kit.poll(opened.id)


async def test_an_answer_that_comes_while_verifying_wins(kit: DeskForTests, verifier: Verifier) -> None:
    opened = await asked(kit, policy())
    human = kit.human(opened)
    answers: list[Case] = []

    class Rival(Verifier):
        async def verify(self, *args: Any, **kwargs: Any) -> VerifiedEvidence | None:
            answers.append(await human.answer("reject"))
            return FOUND

    rival = desk_for_tests(store=kit.store, clock=kit.clock, verifier=Rival())
    assert await attempt(rival, opened, "inline_submit", bound(opened)) is AlreadyClosed
    assert (await kit.poll(opened.id))["result"]["action"] == "reject"


async def test_the_same_evidence_in_two_cases_at_once_answers_one(kit: DeskForTests) -> None:
    loose = {"case_id": False, "action": False, "freshness_seconds": 60, "single_use": True}
    first, second = [await asked(kit, policy(binding=loose)) for _ in range(2)]
    outcomes: list[type[RequestError] | None] = []

    class Rival(Verifier):
        async def verify(self, *args: Any, **kwargs: Any) -> VerifiedEvidence | None:
            outcomes.append(await attempt(kit, second, "inline_submit", evidence()))
            return found(fresh=True)

    rival = desk_for_tests(store=kit.store, clock=kit.clock, verifier=Rival())
    outcomes.append(await attempt(rival, first, "inline_submit", evidence()))
    assert outcomes == [None, VerificationFailed]
