from placet import Placet
from placet.cases.case import Case
from placet.protocol.verification import Evidence, ProofSource, VerificationPolicy, VerifiedEvidence


class HumanVerifier:
    """Asks a provider whether a proof holds."""

    sources: tuple[ProofSource, ...] = (
        ProofSource(
            proof_type="proof_of_human",
            provider="humans.example",
            formats=("provider_opaque",),
            paths=frozenset({"inline_submit"}),
            assurance="high",
        ),
    )

    async def verify(
        self, evidence: Evidence, *, case: Case, action: str, policy: VerificationPolicy
    ) -> VerifiedEvidence | None:
        if evidence.provider != "humans.example":
            return None
        proof = await ask_provider(evidence.presentation)
        return VerifiedEvidence(
            proof_type=evidence.proof_type,
            provider=evidence.provider,
            assurance_level="high",
            bound_to_case=proof["case_id"] == case.id,
            bound_to_action=proof["action"] == action,
            fresh=proof["age_seconds"] <= policy.binding.freshness_seconds,
        )


placet = Placet(base_url="http://127.0.0.1:8000/placet", verifier=HumanVerifier())

POLICY = {
    "mode": "required",
    "required_for": ["inline_submit"],
    "requirements": {
        "any_of": [{"all_of": [{"proof_type": "proof_of_human", "provider": "humans.example"}]}]
    },
    "binding": {"case_id": True, "action": True, "freshness_seconds": 300, "single_use": True},
    "fallback": {"on_missing": "browser_review", "on_invalid": "reject"},
}


async def ask_to_pay(amount: str):
    return await placet.confirmation(
        f"Pay {amount}?", inline_actions=["confirm", "cancel"], verification_policy=POLICY, owner="shop"
    )


# What follows is for the tests.
import asyncio  # noqa: E402
from typing import Any  # noqa: E402

import httpx  # noqa: E402
import msgspec  # noqa: E402


async def ask_provider(presentation: Any) -> dict[str, Any]:
    return presentation


async def main() -> None:
    hitl = msgspec.json.decode((await ask_to_pay("40 EUR")).body)["hitl"]
    proof = {"case_id": hitl["case_id"], "action": "confirm", "age_seconds": 4}
    evidence = {
        "proof_type": "proof_of_human",
        "provider": "humans.example",
        "format": "provider_opaque",
        "presentation": proof,
        "binding": {"case_id": hitl["case_id"], "action": "confirm"},
    }
    pressed = {
        "action": "confirm",
        "submitted_via": "telegram_inline_button",
        "submitted_by": {"platform": "telegram", "platform_user_id": "7"},
    }
    headers = {"Authorization": f"Bearer {hitl['submit_token']}"}
    address = hitl["submit_url"].replace("/placet/", "/")
    async with httpx.AsyncClient(transport=httpx.ASGITransport(placet)) as agent:
        bare = await agent.post(address, json=pressed, headers=headers)
        assert bare.json()["error"] == "verification_required"
        stale = {**evidence, "presentation": {**proof, "age_seconds": 301}}
        old = await agent.post(address, json={**pressed, "verification_evidence": [stale]}, headers=headers)
        assert old.json()["error"] == "verification_failed"
        good = await agent.post(
            address, json={**pressed, "verification_evidence": [evidence]}, headers=headers
        )
        assert good.status_code == 200, good.text
    poll = await placet.status(hitl["case_id"], owner="shop")
    assert poll.submission_context is not None
    assert poll.submission_context.verification_result is not None
    assert poll.submission_context.verification_result.satisfied
    await placet.aclose()


asyncio.run(main())
