"""Verification evidence (since 0.8) over HTTP: asked for by the service, judged here, bound and used once."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from placet.cases.case import Case
from placet.protocol.verification import Evidence, VerificationPolicy, VerifiedEvidence
from tests.protocol.policies import proof_sources
from tests.server.running import EXAMPLE, RunningServer, running

SPOKEN = "proof-that-only-the-provider-reads"


class OneProofVerifier:
    """A verifier that believes one presentation, as a provider's service would."""

    sources = proof_sources("proof_of_human")

    async def verify(
        self, evidence: Evidence, *, case: Case, action: str, policy: VerificationPolicy
    ) -> VerifiedEvidence | None:
        if evidence.presentation == "explode":
            raise RuntimeError("the provider is down")
        if not str(evidence.presentation).startswith(SPOKEN):
            return None
        return VerifiedEvidence(
            proof_type=evidence.proof_type,
            provider=evidence.provider,
            assurance_level="medium",
            bound_to_case=True,
            bound_to_action=True,
            fresh=not str(evidence.presentation).endswith("stale"),
        )


@pytest.fixture(scope="module")
def server(tmp_path_factory) -> Iterator[RunningServer]:
    with running(tmp_path_factory.mktemp("verifying"), verifier=OneProofVerifier()) as server:
        yield server


def policy(**changes: Any) -> dict[str, Any]:
    return {
        "mode": "required",
        "required_for": ["inline_submit"],
        "requirements": {"any_of": [{"all_of": [{"proof_type": "proof_of_human", "provider": "mark"}]}]},
        "binding": {"case_id": True, "action": True, "freshness_seconds": 300, "single_use": True},
        "fallback": {"on_missing": "browser_review", "on_invalid": "browser_review"},
        **changes,
    }


def build_evidence(
    hitl: dict, presentation: Any = SPOKEN, *, action: str = "confirm", **changes: Any
) -> dict[str, Any]:
    binding = {"case_id": hitl["case_id"], "action": action}
    return {
        "proof_type": "proof_of_human",
        "provider": "mark",
        "format": "provider_opaque",
        "presentation": f"{presentation} {hitl['case_id']}" if presentation == SPOKEN else presentation,
        "binding": binding,
        **changes,
    }


def ask(server, client, **changes: Any) -> dict[str, Any]:
    return server.open(client, inline_actions=["confirm", "cancel"], verification_policy=policy(**changes))


def assert_refused(server, client, hitl, code: str, evidence: list[dict[str, Any]]) -> None:
    response = server.press(hitl, "confirm", verification_evidence=evidence)
    body = response.json()
    assert (response.status_code, body["error"]) == (403, code)
    assert body["review_url"] == hitl["review_url"].partition("?")[0]
    assert client.get(hitl["poll_url"]).json()["status"] == "pending"


@pytest.mark.spec("0.8-policy")
def test_a_policy_travels_with_the_case(server, client):
    assert ask(server, client)["verification_policy"] == policy()
    assert "verification_policy" not in server.open(client)


@pytest.mark.spec("0.8-policy")
@pytest.mark.parametrize(
    "broken",
    [
        {"mode": "always"},
        {"required_for": []},
        {"required_for": ["telephone"]},
        {"requirements": {"any_of": []}},
        {"requirements": {"any_of": [{"all_of": []}]}},
        {"binding": {"case_id": True, "action": True, "freshness_seconds": 0, "single_use": True}},
        {"binding": {"case_id": True}},
        {"fallback": {"on_missing": "approve", "on_invalid": "reject"}},
        {"surprise": 1},
    ],
    ids=str,
)
def test_a_malformed_policy_is_refused(client, broken):
    draft = {**EXAMPLE, "inline_actions": ["confirm"], "verification_policy": policy(**broken)}
    assert client.post("/v1/cases", json=draft).status_code == 400


@pytest.mark.spec("0.8-required", "0.8-codes", "7.5-403")
def test_required_evidence_that_is_missing_sends_the_person_to_the_page(server, client):
    assert_refused(server, client, ask(server, client), "verification_required", [])


@pytest.mark.spec("0.8-required", "0.8-server-side", "0.8-codes")
@pytest.mark.parametrize(
    "presentation", ["made up", {"also": "made up"}, "explode", f"{SPOKEN} stale"], ids=str
)
def test_evidence_that_the_provider_does_not_confirm_is_refused(server, client, presentation):
    hitl = ask(server, client)
    assert_refused(server, client, hitl, "verification_failed", [build_evidence(hitl, presentation)])


@pytest.mark.spec("0.8-bound")
@pytest.mark.parametrize(
    "binding", [{"case_id": "review_other", "action": "confirm"}, {"action": "confirm"}, {}], ids=str
)
def test_evidence_bound_to_another_case_is_refused(server, client, binding):
    hitl = ask(server, client)
    assert_refused(server, client, hitl, "verification_failed", [build_evidence(hitl, binding=binding)])


@pytest.mark.spec("0.8-bound")
def test_evidence_bound_to_another_action_is_refused(server, client):
    hitl = ask(server, client)
    assert_refused(server, client, hitl, "verification_failed", [build_evidence(hitl, action="cancel")])


@pytest.mark.spec("0.8-bound")
def test_evidence_must_answer_the_challenge_in_time(server, client):
    ends = (server.clock() + timedelta(minutes=1)).isoformat()
    binding = {**policy()["binding"], "challenge": "nonce", "expires_at": ends}
    hitl = ask(server, client, binding=binding)
    assert_refused(server, client, hitl, "verification_failed", [build_evidence(hitl)])
    bound = {"case_id": hitl["case_id"], "action": "confirm", "challenge": "nonce"}
    server.advance(minutes=1)
    assert_refused(server, client, hitl, "verification_failed", [build_evidence(hitl, binding=bound)])


@pytest.mark.spec("0.8-bound")
def test_evidence_is_used_once(server, client):
    first, second = ask(server, client), ask(server, client)
    spent = build_evidence(first)
    assert server.press(first, "confirm", verification_evidence=[spent]).status_code == 200
    again = {**spent, "binding": {"case_id": second["case_id"], "action": "confirm"}}
    assert_refused(server, client, second, "verification_failed", [again])


@pytest.mark.spec("0.8-result", "0.8-no-raw-proof")
def test_the_outcome_is_told_and_the_proof_itself_is_not(server, client):
    hitl = ask(server, client)
    assert server.press(hitl, "confirm", verification_evidence=[build_evidence(hitl)]).status_code == 200
    poll = client.get(hitl["poll_url"])
    result = poll.json()["submission_context"]["verification_result"]
    [found] = result["verified_evidence"]
    assert result["satisfied"] is True
    assert (found["provider"], found["assurance_level"], found["single_use_enforced"]) == (
        "mark",
        "medium",
        True,
    )
    stream = client.get(hitl["events_url"]).text
    assert SPOKEN not in poll.text + stream


@pytest.mark.spec("0.8-result")
def test_a_policy_that_only_offers_tells_that_nothing_was_presented(server, client):
    hitl = ask(server, client, mode="optional")
    assert server.press(hitl, "confirm").status_code == 200
    context = client.get(hitl["poll_url"]).json()["submission_context"]
    assert context["verification_result"]["satisfied"] is False
    assert context["verification_result"]["missing_requirements"] == ["proof_of_human:mark"]


@pytest.mark.spec("0.8-step-up")
def test_a_step_up_asks_as_soon_as_its_path_is_taken(server, client):
    assert_refused(server, client, ask(server, client, mode="step_up"), "verification_required", [])


@pytest.mark.spec("0.8-browser-path")
def test_evidence_for_the_page_is_brought_by_the_page_and_not_by_the_agent(server, client):
    hitl = ask(server, client, required_for=["browser_submit"])
    with server.client() as page:
        address = hitl["review_url"].replace("?", "/respond?")
        missing = page.post(address, json={"action": "confirm"})
        assert (missing.status_code, missing.json()["error"]) == (403, "verification_required")
        brought = {"action": "confirm", "verification_evidence": [build_evidence(hitl)]}
        assert page.post(address, json=brought).status_code == 200
    context = client.get(hitl["poll_url"]).json()["submission_context"]
    assert context["mode"] == "browser_submit"
    assert context["verification_result"]["satisfied"] is True


@pytest.mark.spec("0.8-no-provider-required", "0.8-server-side")
def test_a_policy_that_nothing_can_meet_is_refused_and_no_provider_is_needed(tmp_path):
    with running(tmp_path) as bare, bare.client(bare.api_key) as client:
        assert bare.press(bare.open(client, inline_actions=["confirm"]), "confirm").status_code == 200
        for path in ("inline_submit", "browser_submit"):
            strict = policy(required_for=[path], fallback={"on_missing": "reject", "on_invalid": "reject"})
            draft = {**EXAMPLE, "verification_policy": strict}
            refused = client.post("/v1/cases", json={**draft, "inline_actions": ["confirm"]})
            assert refused.status_code == 400
            assert "proof_of_human:mark" in refused.json()["message"]
        hitl = bare.open(client, inline_actions=["confirm"], verification_policy=policy())
        assert bare.press(hitl, "confirm").json()["error"] == "verification_required"
        refused = bare.press(hitl, "confirm", verification_evidence=[build_evidence(hitl)])
        assert refused.json()["error"] == "verification_failed"


@pytest.mark.spec("0.8-not-authorization")
def test_a_proof_of_a_human_is_no_token(server, client):
    hitl = ask(server, client)
    forged = {**hitl, "submit_token": "x" * 43}
    assert server.press(forged, "confirm", verification_evidence=[build_evidence(hitl)]).status_code == 401


@pytest.mark.spec("0.8-since")
def test_older_versions_know_no_verification(client):
    draft = {**EXAMPLE, "verification_policy": policy(), "spec_version": "0.7", "inline_actions": ["confirm"]}
    response = client.post("/v1/cases", json=draft)
    assert response.status_code == 400
    assert "0.8" in response.json()["message"]
