"""A result signed at the desk verifies offline, and nothing about it can be changed unnoticed."""

import asyncio
import copy
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from placet.desk.answer_signing import MAX_BATCH
from placet.errors import SignatureInvalid, ValidationFailed
from placet.ports.signer import Claim
from placet.ports.store import Store
from placet.signing.jws_signer import JwsSigner
from placet.signing.keys import KeyRing, generate_key
from placet.signing.verify import verify_result
from placet.testing.clock import DAYBREAK
from placet.testing.desk import ACME, DeskForTests, create_desk_for_tests

pytestmark = pytest.mark.anyio


@pytest.fixture(params=["ES256", "EdDSA"])
def signer(request: pytest.FixtureRequest) -> JwsSigner:
    return JwsSigner(KeyRing.of([generate_key(request.param, now=DAYBREAK)]))


@pytest.fixture
def kit(store: Store, signer: JwsSigner) -> DeskForTests:
    return create_desk_for_tests(store=store, signer=signer)


async def request_changes_and_poll(kit: DeskForTests) -> dict[str, Any]:
    """The poll response of an approval that was sent back with changes."""
    opened = await kit.open()
    await kit.human(opened).answer(
        "edit", {"feedback": "ü — 2028:\u2028", "edits": {"n": [1, 2.5, None, True]}}
    )
    return await kit.poll(opened.id)


async def test_polled_result_verifies_with_the_published_keys(kit: DeskForTests, signer: JwsSigner) -> None:
    polled = await request_changes_and_poll(kit)
    case = await kit.desk.get_owned_case(polled["case_id"], ACME)
    proved = verify_result(polled, signer.jwks(), shown=case.offer_digest)
    assert (proved.case_id, proved.action, proved.shown) == (case.id, "edit", case.offer_digest)
    signature = polled["result"]["signature"]
    assert signature["signer"] == "https://placet.example/.well-known/jwks.json"
    assert signature["signed_at"] == polled["completed_at"]
    assert signature["algorithm"] == signer.algorithm


async def test_an_inline_answer_is_signed_too(kit: DeskForTests, signer: JwsSigner) -> None:
    opened = await kit.open(inline_actions=["approve"])
    await kit.human(opened).press("approve")
    assert verify_result(await kit.poll(opened.id), signer.jwks()).action == "approve"


Tamper = Callable[[dict[str, Any]], object]

TAMPERING: dict[str, Tamper] = {
    "action": lambda poll: poll["result"].update(action="approve"),
    "data": lambda poll: poll["result"]["data"].update(feedback="fine as it is"),
    "data added": lambda poll: poll["result"]["data"].update(extra=1),
    "data removed": lambda poll: poll["result"]["data"].pop("edits"),
    "a number": lambda poll: poll["result"]["data"]["edits"]["n"].__setitem__(0, 2),
    "case": lambda poll: poll.update(case_id="review_other"),
    "time": lambda poll: poll.update(completed_at="2026-01-01T06:00:01Z"),
    "both times": lambda poll: (
        poll.update(completed_at="2026-01-01T06:00:01Z"),
        poll["result"]["signature"].update(signed_at="2026-01-01T06:00:01Z"),
    ),
    "algorithm": lambda poll: poll["result"]["signature"].update(algorithm="none"),
    "signature gone": lambda poll: poll["result"].pop("signature"),
    "status": lambda poll: poll.update(status="cancelled"),
}


@pytest.mark.parametrize("tamper", TAMPERING.values(), ids=TAMPERING)
async def test_tampering_is_found(kit: DeskForTests, signer: JwsSigner, tamper: Tamper) -> None:
    forged = copy.deepcopy(await request_changes_and_poll(kit))
    tamper(forged)
    with pytest.raises(SignatureInvalid):
        verify_result(forged, signer.jwks())


async def test_a_result_is_bound_to_what_its_own_case_showed(kit: DeskForTests, signer: JwsSigner) -> None:
    polled = await request_changes_and_poll(kit)
    other = await kit.desk.get_owned_case((await kit.open()).id, ACME)
    with pytest.raises(SignatureInvalid):
        verify_result(polled, signer.jwks(), shown=other.offer_digest)


async def test_another_servers_keys_prove_nothing(kit: DeskForTests) -> None:
    stranger = JwsSigner(KeyRing.of([generate_key("ES256", now=DAYBREAK)]))
    with pytest.raises(SignatureInvalid):
        verify_result(await request_changes_and_poll(kit), stranger.jwks())


async def test_results_signed_before_a_rotation_still_verify(store: Store) -> None:
    ring = KeyRing.of([generate_key("ES256", now=DAYBREAK)])
    kit = create_desk_for_tests(store=store, signer=JwsSigner(ring))
    old = await request_changes_and_poll(kit)
    turned = JwsSigner(ring.rotate(now=kit.clock()))
    new = await request_changes_and_poll(create_desk_for_tests(store=store, signer=turned))
    for polled in (old, new):
        assert verify_result(polled, turned.jwks()).action == "edit"


class BrokenSigner:
    """A signer that cannot sign."""

    algorithm = "ES256"

    async def sign_all(self, claims: Sequence[Claim]) -> Sequence[str]:
        raise ValidationFailed("the vault is sealed")

    def jwks(self) -> dict[str, Any]:
        return {"keys": []}


async def test_answer_is_refused_if_signing_fails(store: Store) -> None:
    kit = create_desk_for_tests(store=store, signer=BrokenSigner())
    opened = await kit.open()
    with pytest.raises(ValidationFailed):
        await kit.human(opened).answer("approve")
    assert (await kit.poll(opened.id))["status"] == "pending"


class CountingSigner(JwsSigner):
    """Notes how many answers each group has."""

    def __init__(self) -> None:
        super().__init__(KeyRing.of([generate_key("ES256", now=DAYBREAK)]))
        self.groups: list[int] = []

    async def sign_all(self, claims: Sequence[Claim]) -> list[str]:
        self.groups.append(len(claims))
        return await super().sign_all(claims)


async def test_while_every_turn_brings_answers_those_of_several_turns_are_signed_together(
    store: Store,
) -> None:
    signer = CountingSigner()
    kit = create_desk_for_tests(store=store, signer=signer)
    cases = [await kit.open() for _ in range(9)]
    await asyncio.gather(*(kit.human(case).answer("approve") for case in cases[:4]))
    late = [asyncio.create_task(kit.human(case).answer("approve")) for case in cases[4:7]]
    await asyncio.sleep(0)
    late += [asyncio.create_task(kit.human(case).answer("approve")) for case in cases[7:]]
    await asyncio.gather(*late)
    assert signer.groups == [4, 5]
    for case in cases:
        assert verify_result(await kit.poll(case.id), signer.jwks()).action == "approve"


async def test_a_quiet_desk_signs_at_once(store: Store) -> None:
    signer = CountingSigner()
    kit = create_desk_for_tests(store=store, signer=signer)
    for _ in range(3):
        await kit.human(await kit.open()).answer("approve")
    assert signer.groups == [1, 1, 1]


async def test_a_full_group_is_signed_while_more_answers_come(store: Store) -> None:
    signer = CountingSigner()
    kit = create_desk_for_tests(store=store, signer=signer)
    cases = [await kit.open() for _ in range(MAX_BATCH + 1)]
    await asyncio.gather(*(kit.human(case).answer("approve") for case in cases))
    assert signer.groups == [MAX_BATCH, 1]
