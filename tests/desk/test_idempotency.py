"""Repeated Idempotency-Key: the same response, byte for byte, for the same principal."""

import asyncio
from datetime import timedelta

import pytest
from msgspec.structs import replace

from placet.cases.case import Subject
from placet.desk import idempotency
from placet.desk.draft import draft_from
from placet.errors import ValidationFailed
from placet.ports.store import Store
from placet.testing.desk import ACME, ANONYMOUS, OTHER, DeskForTests, create_desk_for_tests

pytestmark = pytest.mark.anyio

KEY = "9c6e8f3a-order-17"


async def test_the_same_request_gets_the_first_answer_byte_for_byte(kit: DeskForTests) -> None:
    first = await kit.open(idempotency_key=KEY, inline_actions=["approve"])
    kit.clock.advance(timedelta(hours=1))
    again = await kit.open(idempotency_key=KEY, inline_actions=["approve"])
    assert again.body == first.body
    assert len(await kit.store.list_cases("acme")) == 1


async def test_the_tokens_in_the_repeated_answer_work(kit: DeskForTests) -> None:
    await kit.open(idempotency_key=KEY)
    again = await kit.open(idempotency_key=KEY)
    case = await kit.human(again).answer("approve")
    assert case.status == "completed"


async def test_another_process_with_the_key_gets_the_same_answer(kit: DeskForTests, store: Store) -> None:
    first = await kit.open(idempotency_key=KEY)
    elsewhere = create_desk_for_tests(store=store)
    assert (await elsewhere.open(idempotency_key=KEY)).body == first.body


async def test_another_body_under_the_same_key_is_refused(kit: DeskForTests) -> None:
    await kit.open(idempotency_key=KEY)
    with pytest.raises(ValidationFailed, match="different body") as refusal:
        await kit.open(idempotency_key=KEY, prompt="Something else?")
    assert refusal.value.status == 400
    assert len(await kit.store.list_cases("acme")) == 1


async def test_stored_request_digest_reveals_nothing_without_the_key(
    kit: DeskForTests,
) -> None:
    kept = []
    for key in (KEY, "another key"):
        await kit.open(idempotency_key=key)
        replay = await kit.store.get_idempotency_record("acme", idempotency.digest(key))
        assert replay is not None
        kept.append(replay.request_digest)
    assert kept[0] != kept[1]


async def test_another_subject_under_the_same_key_is_refused(kit: DeskForTests) -> None:
    draft = draft_from({"type": "approval", "prompt": "Go?"})
    await kit.desk.open(draft, ACME, idempotency_key=KEY, subject=Subject(entry_point="hook", ref="call_1"))
    with pytest.raises(ValidationFailed):
        await kit.desk.open(
            draft, ACME, idempotency_key=KEY, subject=Subject(entry_point="hook", ref="call_2")
        )


async def test_explicit_default_equals_an_omitted_field(kit: DeskForTests) -> None:
    first = await kit.open(idempotency_key=KEY, allow_default_approve=False)
    assert (await kit.open(idempotency_key=KEY)).body == first.body


async def test_concurrent_requests_with_one_key_open_one_case(kit: DeskForTests) -> None:
    opened = await asyncio.gather(*(kit.open(idempotency_key=KEY) for _ in range(32)))
    assert len({one.body for one in opened}) == 1
    assert len(await kit.store.list_cases("acme")) == 1


async def test_principals_do_not_share_keys(kit: DeskForTests) -> None:
    opened = {
        principal.name: await kit.open(idempotency_key=KEY, principal=principal)
        for principal in (ACME, OTHER, ANONYMOUS)
    }
    assert len({one.id for one in opened.values()}) == 3


async def test_a_failed_request_leaves_its_key_free(kit: DeskForTests) -> None:
    with pytest.raises(ValidationFailed):
        await kit.open(idempotency_key=KEY, timeout="never")
    assert (await kit.open(idempotency_key=KEY)).hitl["case_id"]


@pytest.mark.parametrize("key", ["", "k" * 256, "a\nb", "a\x00", "\u202e"])
async def test_invalid_idempotency_key_is_refused(kit: DeskForTests, key: str) -> None:
    with pytest.raises(ValidationFailed, match="Idempotency-Key"):
        await kit.open(idempotency_key=key)


async def test_the_stored_answer_cannot_be_read_without_the_key(kit: DeskForTests) -> None:
    """Tokens are stored as digests alone; the answer that carries them is sealed."""
    opened = await kit.open(idempotency_key=KEY, inline_actions=["approve"])
    replay = await kit.store.get_idempotency_record("acme", idempotency.digest(KEY))
    assert replay is not None
    human = kit.human(opened)
    for secret in (human.token, human.submit_token or "", KEY, "prompt"):
        assert secret.encode() not in replay.sealed_response
        assert secret not in (replay.key_digest, replay.request_digest)
    for wrong in ("", KEY + "8", replay.key_digest):
        with pytest.raises(ValidationFailed, match="cannot be decrypted"):
            idempotency.unseal(replay, key=wrong, request_digest=replay.request_digest)
    case_id, body = idempotency.unseal(replay, key=KEY, request_digest=replay.request_digest)
    assert (case_id, body) == (opened.id, opened.body)


async def test_a_sealed_response_cannot_be_moved_or_altered(kit: DeskForTests) -> None:
    await kit.open(idempotency_key=KEY)
    replay = await kit.store.get_idempotency_record("acme", idempotency.digest(KEY))
    assert replay is not None
    sealed = replay.sealed_response
    for forged in (
        replace(replay, owner="other"),
        replace(replay, sealed_response=sealed[:-1] + bytes([sealed[-1] ^ 1])),
        replace(replay, sealed_response=b"review_other" + sealed[sealed.index(b"\n") :]),
        replace(replay, sealed_response=b""),
    ):
        with pytest.raises(ValidationFailed):
            idempotency.unseal(forged, key=KEY, request_digest=replay.request_digest)


async def test_a_key_is_free_again_once_its_answer_has_run_out(kit: DeskForTests) -> None:
    first = await kit.open(idempotency_key=KEY)
    kit.clock.advance(kit.desk.limits.replay_for)
    await kit.store.purge(kit.clock())
    assert (await kit.open(idempotency_key=KEY)).id != first.id


async def test_an_answer_that_has_run_out_is_not_given_even_before_it_is_purged(kit: DeskForTests) -> None:
    first = await kit.open(idempotency_key=KEY)
    kit.clock.advance(kit.desk.limits.replay_for)
    assert (await kit.open(idempotency_key=KEY)).id != first.id


async def test_a_long_case_can_be_repeated_for_as_long_as_it_lives(store: Store) -> None:
    kit = create_desk_for_tests(store=store)
    first = await kit.open(idempotency_key=KEY, timeout="7d")
    kit.clock.advance(timedelta(days=7) - timedelta(seconds=1))
    assert (await kit.open(idempotency_key=KEY, timeout="7d")).body == first.body


async def test_parts_of_a_digest_cannot_run_into_each_other() -> None:
    assert idempotency.digest("ab", "c") != idempotency.digest("a", "bc")
    assert idempotency.digest("a", "") != idempotency.digest("a")
