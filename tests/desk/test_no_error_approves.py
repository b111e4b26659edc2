"""No sequence of failures ever approves a case."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from placet.cases.case import Case, Offer
from placet.cases.events import find_broken_link
from placet.desk import random_values
from placet.desk.answer import Answer
from placet.errors import CaseConflict, InvalidSubmission, Unavailable
from placet.ports.case_store import CaseUpdate
from placet.ports.signer import Claim
from placet.protocol.verification import Evidence, VerificationPolicy, VerifiedEvidence
from placet.reviews.approval.review_type import Approval
from placet.reviews.registry import REVIEW_TYPES
from placet.stores.sqlite.in_memory import InMemorySqliteStore
from placet.testing.desk import ACME, OTHER, DeskForTests, OpenedCase, create_desk_for_tests
from placet.testing.human import ScriptedHuman
from tests.protocol.policies import evidence, policy, proof_sources, verified_evidence

GOOD = verified_evidence(bound_to_case=True, bound_to_action=True, fresh=True)


class Faults:
    """What is broken at the moment, and how."""

    def __init__(self) -> None:
        self.store: Exception | None = None
        self.kind: Exception | None = None
        self.signer: Exception | None = None
        self.verifier: Exception | None = None
        self.finding: VerifiedEvidence | None = GOOD


class FaultyStore(InMemorySqliteStore):
    def __init__(self, trouble: Faults) -> None:
        super().__init__()
        self._faults = trouble

    async def update_case(self, commitment: CaseUpdate) -> None:
        if self._faults.store:
            raise self._faults.store
        await super().update_case(commitment)


class FaultyReviewType(Approval):
    def __init__(self, trouble: Faults) -> None:
        super().__init__()
        self._faults = trouble

    def check(self, offer: Offer, action: str, data: Mapping[str, Any]) -> dict[str, Any]:
        if self._faults.kind:
            raise self._faults.kind
        return super().check(offer, action, data)


class FaultySigner:
    algorithm = "ES256"

    def __init__(self, trouble: Faults) -> None:
        self._faults = trouble

    async def sign_all(self, claims: Sequence[Claim]) -> Sequence[str]:
        if self._faults.signer:
            raise self._faults.signer
        return ["header..signature" for _ in claims]

    def jwks(self) -> dict[str, Any]:
        return {"keys": []}


class FaultyVerifier:
    sources = proof_sources("proof_of_human")

    def __init__(self, trouble: Faults) -> None:
        self._faults = trouble

    async def verify(
        self, evidence: Evidence, *, case: Case, action: str, policy: VerificationPolicy
    ) -> VerifiedEvidence | None:
        if self._faults.verifier:
            raise self._faults.verifier
        return self._faults.finding


class Scene:
    """One open case that a valid answer would approve, and everything that can go wrong around it."""

    def __init__(self) -> None:
        self.faults = Faults()
        self.kit: DeskForTests = create_desk_for_tests(
            store=FaultyStore(self.faults),
            signer=FaultySigner(self.faults),
            verifier=FaultyVerifier(self.faults),
            review_types={**REVIEW_TYPES, "approval": FaultyReviewType(self.faults)},
        )

    async def begin(self) -> None:
        self.opened: OpenedCase = await self.kit.open(
            inline_actions=["approve"],
            verification_policy=policy(required_for=["inline_submit", "browser_submit"]),
            default_action="approve",
            allow_default_approve=True,
            callback_url="https://agent.example/hooks",
        )
        self.human: ScriptedHuman = self.kit.human(self.opened)

    def build_evidence(self, **changes: Any) -> Evidence:
        return evidence(binding={"case_id": self.opened.id, "action": "approve"} | changes)

    async def press(self, *proofs: Evidence, data: dict[str, Any] | None = None) -> object:
        return await self.human.press("approve", data, evidence=proofs or [self.build_evidence()])

    async def answer(self, *proofs: Evidence, shown: str | None = None) -> object:
        return await self.human.answer("approve", evidence=proofs or [self.build_evidence()], shown=shown)

    async def approve_with_faults(self, **parts: Any) -> None:
        """Try both ways of approving while these parts are broken."""
        whole, self.faults.__dict__ = self.faults.__dict__, {**self.faults.__dict__, **parts}
        try:
            for attempt in (self.press(), self.answer()):
                await expect_failure(attempt)
        finally:
            self.faults.__dict__ = whole

    async def press_with_token(self, token: str | None) -> None:
        held, self.human.submit_token = self.human.submit_token, token
        await expect_failure(self.press())
        self.human.submit_token = held

    async def answer_with_link(self, token: str) -> None:
        held, self.human.token = self.human.token, token
        await expect_failure(self.answer())
        self.human.token = held

    async def answer_late(self) -> None:
        """Move the clock past the deadline and answer; the clock stays there."""
        self.kit.clock.advance(timedelta(days=8))
        await expect_failure(self.press())
        await expect_failure(self.answer())

    async def check(self) -> None:
        """The case stands as a case stands that nobody approved."""
        polled = await self.kit.poll(self.opened.id)
        assert polled["status"] in ("pending", "expired", "cancelled")
        assert "result" not in polled
        case = await self.kit.desk.get_owned_case(self.opened.id, ACME)
        events = await self.kit.desk.list_events(self.opened.id)
        assert case.decision is None
        assert find_broken_link(events, head=case.chain) is None
        assert "review.completed" not in {event.type for event in events}
        assert "review.completed" not in {owed.event for owed in await self.kit.store.list_deliveries()}


async def expect_failure(attempt: Awaitable[object]) -> None:
    try:
        await attempt
    except Exception:
        return
    raise AssertionError("this attempt must fail")


async def _raw(scene: Scene, answer: Answer) -> None:
    await expect_failure(scene.kit.desk.answer(scene.opened.id, answer))


async def _sweep(scene: Scene) -> None:
    await scene.kit.sweep.run_once()


async def _deliver(scene: Scene) -> None:
    scene.kit.courier.expect("https://agent.example/hooks", RuntimeError("courier"))
    await scene.kit.outbox.run_once()


FAILURES: list[Callable[[Scene], Awaitable[None]]] = [
    lambda scene: scene.approve_with_faults(store=Unavailable()),
    lambda scene: scene.approve_with_faults(store=CaseConflict()),
    lambda scene: scene.approve_with_faults(store=OSError("disk full")),
    lambda scene: scene.approve_with_faults(kind=InvalidSubmission()),
    lambda scene: scene.approve_with_faults(kind=ZeroDivisionError()),
    lambda scene: scene.approve_with_faults(signer=RuntimeError("vault")),
    lambda scene: scene.approve_with_faults(verifier=TimeoutError()),
    lambda scene: scene.approve_with_faults(finding=None),
    lambda scene: scene.approve_with_faults(finding=verified_evidence(fresh=True)),
    lambda scene: scene.press_with_token(None),
    lambda scene: scene.press_with_token(scene.human.token),
    lambda scene: scene.press_with_token(random_values.generate_token()),
    lambda scene: scene.answer_with_link(scene.human.submit_token or ""),
    lambda scene: scene.answer_with_link(random_values.generate_api_key()),
    lambda scene: expect_failure(scene.human.press("approve")),
    lambda scene: expect_failure(scene.human.answer("approve")),
    lambda scene: expect_failure(scene.human.press("edit", {"feedback": "x"})),
    lambda scene: expect_failure(scene.human.press("APPROVE", evidence=[scene.build_evidence()])),
    lambda scene: expect_failure(scene.press(data={"approved": True})),
    lambda scene: expect_failure(scene.press(scene.build_evidence(case_id="review_other"))),
    lambda scene: expect_failure(scene.press(scene.build_evidence(action="reject"))),
    lambda scene: expect_failure(scene.answer(shown="0" * 64)),
    lambda scene: expect_failure(scene.kit.desk.cancel(scene.opened.id, OTHER, reason="approve")),
    Scene.answer_late,
    _sweep,
    _deliver,
]


@settings(max_examples=150)
@given(st.lists(st.sampled_from(FAILURES), min_size=1, max_size=10))
def test_no_sequence_of_failures_completes_a_case(failures: list[Callable[[Scene], Awaitable[None]]]) -> None:
    async def play() -> None:
        scene = Scene()
        await scene.begin()
        for failure in failures:
            await failure(scene)
            await scene.check()

    asyncio.run(play())


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
UNASKED = st.text().filter(lambda name: name not in ("feedback", "edits"))


@settings(max_examples=150)
@given(action=st.text() | st.just("approve"), data=st.dictionaries(UNASKED, JSON, min_size=1, max_size=4))
def test_no_nonsense_completes_a_case(action: str, data: dict[str, Any]) -> None:
    async def play() -> None:
        scene = Scene()
        await scene.begin()
        answer = Answer(
            action=action,
            data=data,
            path="browser_submit",
            actor="link:x",
            evidence=(scene.build_evidence(),),
        )
        await _raw(scene, answer)
        await expect_failure(scene.human.press(action, data, evidence=[scene.build_evidence()]))
        await scene.check()

    asyncio.run(play())


def test_the_same_scene_without_failures_is_approved() -> None:
    """Else the tests above would prove nothing."""

    async def play() -> None:
        for act in (Scene.press, Scene.answer):
            scene = Scene()
            await scene.begin()
            await act(scene)
            assert (await scene.kit.poll(scene.opened.id))["result"]["action"] == "approve"

    asyncio.run(play())
