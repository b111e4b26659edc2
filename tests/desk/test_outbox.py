"""Callbacks: sent at least once, signed, repeated on schedule and given up in the end."""

import asyncio
import hashlib
import hmac
from datetime import timedelta

import msgspec
import pytest
from msgspec.structs import replace

from placet.cases.case import Subject
from placet.desk.answer import Answer
from placet.desk.delivery_retries import JITTER_SHARE, RELEASE_RETRY_SCHEDULE, RETRY_SCHEDULE
from placet.desk.draft import draft_from
from placet.desk.outbox import (
    AT_ONCE,
    LEASE_FOR,
    PER_TARGET,
    Outbox,
    end_rotation,
    list_active_secrets,
    rotate_secret,
)
from placet.errors import RequestError, SignatureInvalid, Unavailable, ValidationFailed
from placet.ports.courier import DeliveryReply, OutgoingRequest
from placet.ports.endpoint_store import Endpoint
from placet.ports.identity import Principal
from placet.ports.outbox_store import Delivery, DeliveryFilter
from placet.protocol.callback import verify_callback
from placet.stores.sqlite.in_memory import InMemorySqliteStore
from placet.testing.courier import FORBIDDEN, NO_ANSWER, make_reply
from placet.testing.desk import ACME, DeskForTests, create_desk_for_tests

pytestmark = pytest.mark.anyio

URL = "https://agent.example/hooks"
SLOW = "https://slow.example/hooks"
SECOND = timedelta(seconds=1)


async def answer_case(kit: DeskForTests, url: str = URL) -> str:
    """The id of a case with a callback that was just answered."""
    opened = await kit.open(callback_url=url)
    await kit.human(opened).answer("approve")
    return opened.id


async def delivery(kit: DeskForTests) -> Delivery:
    (one,) = await kit.store.list_deliveries()
    return one


async def endpoint(kit: DeskForTests, url: str = URL) -> Endpoint:
    found = await kit.store.get_endpoint("acme", url)
    assert found is not None
    return found


async def test_a_closing_event_is_delivered_once_and_logged(kit: DeskForTests) -> None:
    case_id = await answer_case(kit)
    assert await kit.outbox.run_once() == 1
    assert await kit.outbox.run_once() == 0
    (request,) = kit.courier.requests
    body = msgspec.json.decode(request.body)
    assert (request.url, body["event"], body["case_id"]) == (URL, "review.completed", case_id)
    settled = await delivery(kit)
    assert (settled.state, settled.attempts, settled.last_status) == ("delivered", 1, 200)
    assert settled.settled_at == kit.clock()
    assert await kit.outbox.next_at() is None


@pytest.mark.parametrize("end", ["expired", "cancelled"])
async def test_every_closing_event_is_delivered(kit: DeskForTests, end: str) -> None:
    opened = await kit.open(callback_url=URL)
    if end == "expired":
        kit.clock.advance(timedelta(days=8))
        await kit.sweep.run_once()
    else:
        await kit.desk.cancel(opened.id, ACME, reason="not needed")
    await kit.outbox.run_once()
    body = msgspec.json.decode(kit.courier.requests[0].body)
    assert body["status"] == ("expired" if end == "expired" else "cancelled")


async def test_events_that_do_not_close_a_case_are_not_delivered(kit: DeskForTests) -> None:
    opened = await kit.open(callback_url=URL)
    human = kit.human(opened)
    await human.read()
    await human.type({"feedback": "hm"})
    await human.pass_on()
    assert await kit.outbox.run_once() == 0


async def test_both_signatures_hold_over_the_bytes_that_were_sent(kit: DeskForTests) -> None:
    await answer_case(kit)
    await kit.outbox.run_once()
    (request,) = kit.courier.requests
    secret = (await endpoint(kit)).secret
    message_id = verify_callback(request.body, request.headers, secrets=[secret], now=kit.clock())
    assert message_id == (await delivery(kit)).id
    hitl_only = {name: value for name, value in request.headers.items() if not name.startswith("webhook")}
    verify_callback(request.body, hitl_only, secrets=[secret], now=kit.clock())
    with pytest.raises(SignatureInvalid):
        verify_callback(request.body + b" ", request.headers, secrets=[secret], now=kit.clock())


@pytest.mark.parametrize(
    "reply", [make_reply(500), make_reply(302), make_reply(404), make_reply(429), NO_ANSWER]
)
async def test_a_failure_is_repeated_on_the_schedule_with_the_same_id_and_bytes(
    kit: DeskForTests, reply: DeliveryReply
) -> None:
    await answer_case(kit)
    kit.courier.expect(URL, *[reply] * 20)
    for made, wait in enumerate(RETRY_SCHEDULE[1:], start=1):
        assert await kit.outbox.run_once() == 1
        waiting = await delivery(kit)
        assert (waiting.state, waiting.attempts) == ("waiting", made)
        assert waiting.next_at is not None
        assert wait <= waiting.next_at - kit.clock() <= wait * (1 + JITTER_SHARE)
        assert await kit.outbox.run_once() == 0
        kit.clock.advance(waiting.next_at - kit.clock())
    assert await kit.outbox.run_once() == 1
    given_up = await delivery(kit)
    assert (given_up.state, given_up.attempts, given_up.next_at) == ("failed", len(RETRY_SCHEDULE), None)
    assert len({(request.body, request.headers["webhook-id"]) for request in kit.courier.requests}) == 1
    stamps = [request.headers["webhook-timestamp"] for request in kit.courier.requests]
    assert len(set(stamps)) == len(RETRY_SCHEDULE)


async def test_many_failures_at_once_do_not_come_back_at_once(kit: DeskForTests) -> None:
    for _ in range(8):
        await answer_case(kit)
    kit.courier.expect(URL, *[make_reply(503)] * 8)
    await kit.outbox.run_once()
    assert len({one.next_at for one in await kit.store.list_deliveries()}) > 1


async def test_a_receiver_may_ask_for_more_time_but_not_for_less(kit: DeskForTests) -> None:
    await answer_case(kit)
    kit.courier.expect(
        URL, make_reply(503, retry_after=timedelta(hours=1)), make_reply(503, retry_after=SECOND)
    )
    await kit.outbox.run_once()
    assert (await delivery(kit)).next_at == kit.clock() + timedelta(hours=1)
    kit.clock.advance(timedelta(hours=1))
    await kit.outbox.run_once()
    assert (await delivery(kit)).next_at >= kit.clock() + RETRY_SCHEDULE[2]  # type: ignore[operator]


async def test_status_410_disables_the_endpoint(kit: DeskForTests) -> None:
    await answer_case(kit)
    kit.courier.expect(URL, make_reply(410))
    await kit.outbox.run_once()
    assert (await delivery(kit)).state == "failed"
    assert (await endpoint(kit)).disabled_at == kit.clock()
    await answer_case(kit)
    await kit.outbox.run_once()
    assert len(kit.courier.requests) == 1
    newest = (await kit.store.list_deliveries())[0]
    assert (newest.state, newest.last_error, newest.attempts) == ("failed", "the endpoint is disabled", 0)


async def test_an_address_that_may_not_be_called_is_given_up_at_once(kit: DeskForTests) -> None:
    await answer_case(kit)
    kit.courier.expect(URL, FORBIDDEN)
    await kit.outbox.run_once()
    refused = await delivery(kit)
    assert (refused.state, refused.last_error) == ("failed", "may not be called")
    assert (await endpoint(kit)).disabled_at is None


async def test_a_courier_that_breaks_down_is_a_failed_attempt(
    kit: DeskForTests, caplog: pytest.LogCaptureFixture
) -> None:
    await answer_case(kit)
    kit.courier.expect(URL, RuntimeError("secret detail"))
    assert await kit.outbox.run_once() == 1
    waiting = await delivery(kit)
    assert (waiting.state, waiting.last_error) == ("waiting", "the courier failed: RuntimeError")
    assert "courier_failed" in caplog.text


async def test_delivery_without_a_courier_fails_by_name(kit: DeskForTests) -> None:
    await answer_case(kit)
    stranded = Outbox(store=kit.store, couriers={}, clock=kit.clock)
    assert await stranded.run_once() == 1
    failed = await delivery(kit)
    assert (failed.state, failed.last_error) == ("failed", "there is no courier 'webhook' here")


async def test_a_secret_that_cannot_sign_fails_its_delivery_alone(kit: DeskForTests) -> None:
    await answer_case(kit)
    await answer_case(kit, SLOW)
    known = await endpoint(kit)
    await kit.store.save_endpoint(replace(known, secret="whsec_broken"), after=known)
    assert await kit.outbox.run_once() == 2
    assert {one.target: one.state for one in await kit.store.list_deliveries()} == {
        URL: "failed",
        SLOW: "delivered",
    }


async def test_delivery_of_a_dead_sender_is_retried_after_its_lease(kit: DeskForTests) -> None:
    await answer_case(kit)
    with kit.courier.holding(URL):
        sender = asyncio.create_task(kit.outbox.run_once())
        await kit.courier.until(lambda: len(kit.courier.requests) == 1)
        sender.cancel()
        with pytest.raises(asyncio.CancelledError):
            await sender
    assert await kit.outbox.run_once() == 0
    kit.clock.advance(LEASE_FOR)
    assert await kit.outbox.run_once() == 1
    assert (await delivery(kit)).state == "delivered"


async def test_two_senders_share_the_work(kit: DeskForTests) -> None:
    for _ in range(40):
        await answer_case(kit)
    other = create_desk_for_tests(store=kit.store, clock=kit.clock, courier=kit.courier)
    made = await asyncio.gather(kit.outbox.run_once(), other.outbox.run_once())
    assert sum(made) == len(kit.courier.requests) == 40


async def test_slow_receiver_does_not_delay_other_deliveries(kit: DeskForTests) -> None:
    for _ in range(2 * AT_ONCE):
        await answer_case(kit, SLOW)
    for number in range(20):
        await answer_case(kit, f"https://quick.example/{number}")
    with kit.courier.holding(SLOW):
        sending = asyncio.create_task(kit.outbox.run_once())
        await kit.courier.until(
            lambda: len(kit.courier.requests) - len(kit.courier.list_requests_to(SLOW)) == 20
        )
        assert PER_TARGET <= len(kit.courier.list_requests_to(SLOW)) < 2 * PER_TARGET
        await answer_case(kit, "https://late.example/")
        await kit.courier.until(lambda: len(kit.courier.list_requests_to("https://late.example/")) == 1)
        assert not sending.done()
    assert await sending == 2 * AT_ONCE + 21
    assert await kit.store.list_deliveries(DeliveryFilter(state="waiting")) == []


async def test_concurrent_deliveries_are_limited(kit: DeskForTests) -> None:
    urls = [f"https://slow.example/{number}" for number in range(AT_ONCE + 10)]
    for url in urls:
        await answer_case(kit, url)
    held = [kit.courier.holding(url) for url in urls]
    for one in held:
        one.__enter__()
    sending = asyncio.create_task(kit.outbox.run_once())
    await kit.courier.until(lambda: len(kit.courier.requests) == AT_ONCE)
    for _ in range(50):
        await asyncio.sleep(0)
    assert len(kit.courier.requests) == AT_ONCE
    for one in held:
        one.__exit__(None, None, None)
    assert await sending == len(urls)


class FailingStore(InMemorySqliteStore):
    """A store that can take no outcome."""

    async def save_delivery_attempt(self, delivery: Delivery, *, disable_endpoint: bool = False) -> None:
        raise Unavailable


async def test_a_store_that_fails_ends_the_round_and_loses_nothing() -> None:
    kit = create_desk_for_tests(store=FailingStore())
    await answer_case(kit)
    with pytest.raises(Unavailable):
        await kit.outbox.run_once()
    kit.clock.advance(LEASE_FOR)
    leased = await kit.store.lease_deliveries(kit.clock(), lease_for=LEASE_FOR, limit=1)
    assert [one.attempts for one in leased] == [0]


@pytest.mark.parametrize("outcome", [FORBIDDEN, make_reply(200)])
async def test_a_delivery_is_sent_again_on_request_whatever_became_of_it(
    kit: DeskForTests, outcome: DeliveryReply
) -> None:
    await answer_case(kit)
    kit.courier.expect(URL, outcome)
    await kit.outbox.run_once()
    again = await kit.outbox.replay((await delivery(kit)).id)
    assert (again.state, again.attempts) == ("waiting", 0)
    assert await kit.outbox.run_once() == 1
    assert (await delivery(kit)).state == "delivered"
    first, second = kit.courier.requests
    assert first.headers["webhook-id"] == second.headers["webhook-id"]


async def test_an_unknown_or_erased_delivery_cannot_be_sent_again(kit: DeskForTests) -> None:
    with pytest.raises(ValidationFailed, match="msg_unknown"):
        await kit.outbox.replay("msg_unknown")
    await answer_case(kit)
    await kit.outbox.run_once()
    kit.clock.advance(timedelta(days=31))
    await kit.sweep.run_once()
    with pytest.raises(RequestError, match="erased"):
        await kit.outbox.replay((await delivery(kit)).id)


async def test_rotation_signs_twice_and_then_with_the_new_secret_alone(kit: DeskForTests) -> None:
    await answer_case(kit)
    old = await endpoint(kit)
    new = rotate_secret(old, now=kit.clock(), overlap_for=timedelta(hours=24))
    await kit.store.save_endpoint(new, after=old)
    await kit.outbox.run_once()
    (during,) = kit.courier.requests
    for secret in (old.secret, new.secret):
        verify_callback(during.body, during.headers, secrets=[secret], now=kit.clock())
    assert len(during.headers["webhook-signature"].split()) == 2
    kit.clock.advance(timedelta(hours=24))
    await answer_case(kit)
    await kit.outbox.run_once()
    after = kit.courier.requests[-1]
    verify_callback(after.body, after.headers, secrets=[new.secret], now=kit.clock())
    with pytest.raises(SignatureInvalid):
        verify_callback(after.body, after.headers, secrets=[old.secret], now=kit.clock())


async def test_one_value_of_the_primary_secret_is_in_the_protocols_header_at_every_step_of_a_rotation(
    kit: DeskForTests,
) -> None:
    """The protocol's verifier, copied from its checklist, compares the whole header with one digest."""

    def verify_hitl_signature(body: bytes, signature_header: str, secret: str) -> bool:
        expected = "sha256=" + hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
        return hmac.compare_digest(expected, signature_header)

    async def check(primary: str, *others: str, late: bool = False) -> None:
        if not late:
            await answer_case(kit)
        await kit.outbox.run_once()
        sent = kit.courier.requests[-1]
        assert verify_hitl_signature(sent.body, sent.headers["X-HITL-Signature"], primary)
        assert len(sent.headers["webhook-signature"].split()) == 1 + len(others)
        for secret in (primary, *others):  # a receiver of Standard Webhooks may know either
            timed = {name: value for name, value in sent.headers.items() if name != "X-HITL-Signature"}
            verify_callback(sent.body, timed, secrets=[secret], now=kit.clock())

    async def save(changed: Endpoint) -> Endpoint:
        await kit.store.save_endpoint(changed, after=await endpoint(kit))
        return changed

    def rotate(known: Endpoint) -> Endpoint:
        return rotate_secret(known, now=kit.clock(), overlap_for=timedelta(hours=24))

    await answer_case(kit)
    first = await endpoint(kit)
    await check(first.secret, late=True)
    second = await save(rotate(first))
    await check(first.secret, second.secret)
    third = await save(rotate(second))  # nobody confirmed the second secret: the first is still the primary
    await check(first.secret, third.secret)
    await answer_case(kit)  # owed before the confirmation, sent after it
    confirmed = await save(end_rotation(third))
    await check(third.secret, late=True)
    fourth = await save(rotate(confirmed))
    await check(third.secret, fourth.secret)
    kit.clock.advance(timedelta(hours=24))  # nobody confirms: the rotation ends by itself
    await check(fourth.secret)
    await save(end_rotation(await endpoint(kit)))
    await check(fourth.secret)


async def test_the_old_secret_signs_until_the_last_microsecond_of_the_overlap(kit: DeskForTests) -> None:
    await answer_case(kit)
    old = await endpoint(kit)
    new = rotate_secret(old, now=kit.clock(), overlap_for=SECOND)
    end = kit.clock() + SECOND
    assert list(list_active_secrets(new, end - timedelta(microseconds=1))) == [new.secret, old.secret]
    assert list(list_active_secrets(new, end)) == [new.secret]


async def test_one_address_of_one_owner_keeps_one_secret(kit: DeskForTests) -> None:
    await asyncio.gather(*(kit.open(callback_url=URL) for _ in range(8)))
    assert len(await kit.store.list_endpoints("acme")) == 1


class LocalCourier:
    """A courier that stays in the house, and replies as it is told."""

    def __init__(self, *replies: DeliveryReply) -> None:
        self.replies = list(replies)
        self.requests: list[OutgoingRequest] = []

    async def deliver(self, request: OutgoingRequest) -> DeliveryReply:
        self.requests.append(request)
        return self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]


async def answer_held_message(kit: DeskForTests) -> str:
    """The id of a case about a held message that was just answered."""
    draft = draft_from({"type": "approval", "prompt": "May it pass?"})
    subject = Subject(entry_point="relay", ref="hold-1")
    opened = await kit.desk.open(draft, Principal(name="relay:default"), subject=subject)
    answer = Answer(action="approve", data={}, path="browser_submit", actor="link:1")
    await kit.desk.answer(opened.case_id, answer)
    return opened.case_id


async def test_a_closed_case_about_a_held_message_goes_to_the_relay_without_a_signature(
    kit: DeskForTests,
) -> None:
    house = LocalCourier(make_reply(200))
    case_id = await answer_held_message(kit)
    await Outbox(store=kit.store, couriers={"relay": house}, clock=kit.clock).run_once()
    [request] = house.requests
    assert request.headers == {}
    assert msgspec.json.decode(request.body) == {"hold_id": "hold-1", "case_id": case_id}
    assert (await delivery(kit)).state == "delivered"


async def test_delivery_in_progress_is_checked_again_without_counting_an_attempt(kit: DeskForTests) -> None:
    busy = DeliveryReply(status=None, error=None, took_for=SECOND, retry_after=SECOND * 10, under_way=True)
    house = LocalCourier(busy, busy, make_reply(200))
    outbox = Outbox(store=kit.store, couriers={"relay": house}, clock=kit.clock)
    await answer_held_message(kit)
    for _ in range(2):
        await outbox.run_once()
        assert (await delivery(kit)).attempts == 0
        assert await outbox.run_once() == 0
        kit.clock.advance(SECOND * 10)
    await outbox.run_once()
    assert ((await delivery(kit)).state, len(house.requests)) == ("delivered", 3)


async def test_last_attempt_is_marked_as_last(kit: DeskForTests) -> None:
    house = LocalCourier(NO_ANSWER)
    outbox = Outbox(store=kit.store, couriers={"relay": house}, clock=kit.clock)
    await answer_held_message(kit)
    for _ in RELEASE_RETRY_SCHEDULE:
        await outbox.run_once()
        kit.clock.advance(timedelta(days=2))
    attempts = len(RELEASE_RETRY_SCHEDULE)
    assert [request.last for request in house.requests] == [False] * (attempts - 1) + [True]
    assert (await delivery(kit)).state == "failed"
