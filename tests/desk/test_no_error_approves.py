"""Whatever fails, and in whatever order, no failure ever becomes an approval."""

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
from placet.protocol.verification import Evidence, SubmitPath, VerificationPolicy, VerifiedEvidence
from placet.reviews.approval.review_type import Approval
from placet.reviews.registry import REVIEW_TYPES
from placet.stores.sqlite.in_memory import InMemorySqliteStore
from placet.testing.desk import ACME, OTHER, DeskForTests, OpenedCase, desk_for_tests
from placet.testing.human import ScriptedHuman
from tests.protocol.policies import evidence, found, policy

GOOD = found(bound_to_case=True, bound_to_action=True, fresh=True)


class Trouble:
    """What is broken at the moment, and how."""

    def __init__(self) -> None:
        self.store: Exception | None = None
        self.kind: Exception | None = None
        self.signer: Exception | None = None
        self.verifier: Exception | None = None
        self.finding: VerifiedEvidence | None = GOOD


class TroubledStore(InMemorySqliteStore):
    def __init__(self, trouble: Trouble) -> None:
        super().__init__()
        self._trouble = trouble

    async def update_case(self, commitment: CaseUpdate) -> None:
        if self._trouble.store:
            raise self._trouble.store
        await super().update_case(commitment)


class TroubledKind(Approval):
    def __init__(self, trouble: Trouble) -> None:
        super().__init__()
        self._trouble = trouble

    def check(self, offer: Offer, action: str, data: Mapping[str, Any]) -> dict[str, Any]:
        if self._trouble.kind:
            raise self._trouble.kind
        return super().check(offer, action, data)


class TroubledSigner:
    algorithm = "ES256"

    def __init__(self, trouble: Trouble) -> None:
        self._trouble = trouble

    async def sign_all(self, claims: Sequence[Claim]) -> Sequence[str]:
        if self._trouble.signer:
            raise self._trouble.signer
        return ["header..signature" for _ in claims]

    def jwks(self) -> dict[str, Any]:
        return {"keys": []}


class TroubledVerifier:
    paths: frozenset[SubmitPath] = frozenset({"inline_submit", "browser_submit"})

    def __init__(self, trouble: Trouble) -> None:
        self._trouble = trouble

    async def verify(
        self, evidence: Evidence, *, case: Case, action: str, policy: VerificationPolicy
    ) -> VerifiedEvidence | None:
        if self._trouble.verifier:
            raise self._trouble.verifier
        return self._trouble.finding


class Scene:
    """One open case that a valid answer would approve, and everything that can go wrong around it."""

    def __init__(self) -> None:
        self.trouble = Trouble()
        self.kit: DeskForTests = desk_for_tests(
            store=TroubledStore(self.trouble),
            signer=TroubledSigner(self.trouble),
            verifier=TroubledVerifier(self.trouble),
            kinds={**REVIEW_TYPES, "approval": TroubledKind(self.trouble)},
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

    def proof(self, **changes: Any) -> Evidence:
        return evidence(binding={"case_id": self.opened.id, "action": "approve"} | changes)

    async def press(self, *proofs: Evidence, data: dict[str, Any] | None = None) -> object:
        return await self.human.press("approve", data, evidence=proofs or [self.proof()])

    async def answer(self, *proofs: Evidence, shown: str | None = None) -> object:
        return await self.human.answer("approve", evidence=proofs or [self.proof()], shown=shown)

    async def broken(self, **parts: Any) -> None:
        """Try both ways of approving while these parts are broken."""
        whole, self.trouble.__dict__ = self.trouble.__dict__, {**self.trouble.__dict__, **parts}
        try:
            for attempt in (self.press(), self.answer()):
                await fails(attempt)
        finally:
            self.trouble.__dict__ = whole

    async def with_token(self, token: str | None) -> None:
        held, self.human.submit_token = self.human.submit_token, token
        await fails(self.press())
        self.human.submit_token = held

    async def with_link(self, token: str) -> None:
        held, self.human.token = self.human.token, token
        await fails(self.answer())
        self.human.token = held

    async def late(self) -> None:
        """Move the clock past the deadline and answer; the clock stays there."""
        self.kit.clock.advance(timedelta(days=8))
        await fails(self.press())
        await fails(self.answer())

    async def check(self) -> None:
        """The case stands as a case stands that nobody approved."""
        polled = await self.kit.poll(self.opened.id)
        assert polled["status"] in ("pending", "expired", "cancelled")
        assert "result" not in polled
        case = await self.kit.desk.get_owned_case(self.opened.id, ACME)
        events = await self.kit.desk.events(self.opened.id)
        assert case.decision is None
        assert find_broken_link(events, head=case.chain) is None
        assert "review.completed" not in {event.type for event in events}
        assert "review.completed" not in {owed.event for owed in await self.kit.store.list_deliveries()}


async def fails(attempt: Awaitable[object]) -> None:
    try:
        await attempt
    except Exception:
        return
    raise AssertionError("this attempt must fail")


async def _raw(scene: Scene, answer: Answer) -> None:
    await fails(scene.kit.desk.answer(scene.opened.id, answer))


async def _sweep(scene: Scene) -> None:
    await scene.kit.sweep.once()


async def _deliver(scene: Scene) -> None:
    scene.kit.courier.expect("https://agent.example/hooks", RuntimeError("courier"))
    await scene.kit.outbox.once()


FAILURES: list[Callable[[Scene], Awaitable[None]]] = [
    lambda scene: scene.broken(store=Unavailable()),
    lambda scene: scene.broken(store=CaseConflict()),
    lambda scene: scene.broken(store=OSError("disk full")),
    lambda scene: scene.broken(kind=InvalidSubmission()),
    lambda scene: scene.broken(kind=ZeroDivisionError()),
    lambda scene: scene.broken(signer=RuntimeError("vault")),
    lambda scene: scene.broken(verifier=TimeoutError()),
    lambda scene: scene.broken(finding=None),
    lambda scene: scene.broken(finding=found(fresh=True)),
    lambda scene: scene.with_token(None),
    lambda scene: scene.with_token(scene.human.token),
    lambda scene: scene.with_token(random_values.generate_token()),
    lambda scene: scene.with_link(scene.human.submit_token or ""),
    lambda scene: scene.with_link(random_values.generate_api_key()),
    lambda scene: fails(scene.human.press("approve")),
    lambda scene: fails(scene.human.answer("approve")),
    lambda scene: fails(scene.human.press("edit", {"feedback": "x"})),
    lambda scene: fails(scene.human.press("APPROVE", evidence=[scene.proof()])),
    lambda scene: fails(scene.press(data={"approved": True})),
    lambda scene: fails(scene.press(scene.proof(case_id="review_other"))),
    lambda scene: fails(scene.press(scene.proof(action="reject"))),
    lambda scene: fails(scene.answer(shown="0" * 64)),
    lambda scene: fails(scene.kit.desk.cancel(scene.opened.id, OTHER, reason="approve")),
    Scene.late,
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
            action=action, data=data, path="browser_submit", actor="link:x", evidence=(scene.proof(),)
        )
        await _raw(scene, answer)
        await fails(scene.human.press(action, data, evidence=[scene.proof()]))
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
