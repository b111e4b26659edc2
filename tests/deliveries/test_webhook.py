"""The webhook courier: what the receiver gets, and what the sender learns."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placet.deliveries.guarded_http import GuardedHttp
from placet.deliveries.webhook import MAX_RETRY_AFTER, WebhookCourier, read_retry_after
from placet.desk.clock import now
from placet.desk.delivery_retries import classify_reply
from placet.ports.courier import Courier, OutgoingRequest
from placet.protocol.callback import format_secret, sign_callback, verify_callback
from tests.deliveries.receiver import Receiver, ScriptedLookup, guarded, saying

SECRET = format_secret(b"k" * 32)
BODY = b'{"event":"review.completed"}'


def outgoing(url: str, headers: dict[str, str] | None = None) -> OutgoingRequest:
    return OutgoingRequest(url=url, body=BODY, headers=headers or {})


@pytest.mark.anyio
async def test_signed_callback_arrives_and_verifies(http: GuardedHttp, receiver: Receiver) -> None:
    courier: Courier = WebhookCourier(http)
    headers = {"Content-Type": "application/json"}
    headers |= sign_callback(BODY, secrets=[SECRET], message_id="msg_1", at=now())
    reply = await courier.deliver(outgoing(receiver.url("/hook"), headers))
    assert (reply.status, reply.error, reply.refused) == (200, None, False)
    assert timedelta(0) < reply.took_for < timedelta(seconds=20)
    (request,) = receiver.requests
    assert request.method == "POST"
    assert verify_callback(receiver.bodies[0], request.headers, secrets=[SECRET], now=now()) == "msg_1"


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("path", "status", "verdict"),
    [("/?status=204", 204, "delivered"), ("/?status=410", 410, "disable"), ("/?status=500", 500, "retry")],
)
async def test_status_of_the_answer_is_reported(
    http: GuardedHttp, receiver: Receiver, path: str, status: int, verdict: str
) -> None:
    reply = await WebhookCourier(http).deliver(outgoing(receiver.url(path)))
    assert (reply.status, reply.error) == (status, None)
    assert classify_reply(reply.status, refused=reply.refused) == verdict


@pytest.mark.anyio
async def test_redirect_is_a_failure_and_not_followed(http: GuardedHttp, receiver: Receiver) -> None:
    reply = await WebhookCourier(http).deliver(outgoing(receiver.url("/redirect")))
    assert reply.status == 302
    assert [request.path for request in receiver.requests] == ["/redirect"]


@pytest.mark.anyio
@pytest.mark.parametrize("path", ["/slow", "/huge"])
async def test_receiver_that_said_yes_has_it_however_its_body_goes_on(
    http: GuardedHttp, receiver: Receiver, path: str
) -> None:
    reply = await WebhookCourier(http, timeout_for=timedelta(seconds=10)).deliver(
        outgoing(receiver.url(path))
    )
    assert (reply.status, reply.error) == (200, None)
    assert reply.took_for < timedelta(seconds=9)


@pytest.mark.anyio
async def test_receiver_that_says_nothing_is_a_failure_in_time(http: GuardedHttp, receiver: Receiver) -> None:
    courier = WebhookCourier(http, timeout_for=timedelta(seconds=0.2))
    reply = await courier.deliver(outgoing(receiver.url("/silent")))
    assert (reply.status, reply.refused) == (None, False)
    assert reply.error == "The request failed: it did not answer in time."


@pytest.mark.anyio
@pytest.mark.parametrize("said", [b"", b"secret nonsense\r\n\r\n", b"HTTP/1.1 200 OK\r\nsecret\r\n\r\n"])
async def test_broken_answer_is_a_failure_that_quotes_nothing(http: GuardedHttp, said: bytes) -> None:
    async with saying(said) as url:
        reply = await WebhookCourier(http).deliver(outgoing(url))
    assert reply.status is None
    assert reply.error is not None
    assert "secret" not in reply.error
    assert classify_reply(reply.status, refused=reply.refused) == "retry"


@pytest.mark.anyio
@pytest.mark.parametrize(
    "url", ["https://10.0.0.1/", "https://hooks.example.com/", "http://hooks.example.com/", ""]
)
async def test_forbidden_address_is_refused_for_good(url: str) -> None:
    lookup = ScriptedLookup(hooks_example_com=[["169.254.169.254"]])
    async with guarded(lookup=lookup) as http:
        reply = await WebhookCourier(http).deliver(outgoing(url))
    assert (reply.status, reply.refused) == (None, True)
    assert reply.error
    assert classify_reply(reply.status, refused=reply.refused) == "give_up"


@pytest.mark.anyio
async def test_receiver_may_ask_to_be_left_alone_for_a_while(http: GuardedHttp, receiver: Receiver) -> None:
    reply = await WebhookCourier(http).deliver(outgoing(receiver.url("/later")))
    assert (reply.status, reply.retry_after) == (503, timedelta(minutes=2))


NOON = "Thu, 26 Mar 2026 12:00:00 GMT"


@pytest.mark.parametrize(
    ("retry_after", "date", "wait"),
    [
        ("0", None, timedelta(0)),
        (" 90 ", None, timedelta(seconds=90)),
        ("9" * 5000, None, MAX_RETRY_AFTER),
        ("Thu, 26 Mar 2026 12:05:00 GMT", NOON, timedelta(minutes=5)),
        ("Thu, 26 Mar 2026 11:00:00 GMT", NOON, timedelta(0)),
        ("Thu, 26 Mar 2099 12:00:00 GMT", NOON, MAX_RETRY_AFTER),
        ("Thu, 26 Mar 2026 12:05:00 GMT", None, None),
        ("Thu, 26 Mar 2026 12:05:00 -0000", NOON, None),
        ("-5", NOON, None),
        ("1.5", NOON, None),
        ("٣", NOON, None),
        ("soon", NOON, None),
        ("", NOON, None),
        (None, NOON, None),
    ],
)
def test_retry_after_is_read_as_seconds_or_against_the_replys_own_clock(
    retry_after: str | None, date: str | None, wait: timedelta | None
) -> None:
    given_headers = {"retry-after": retry_after, "date": date}
    assert (
        read_retry_after({name: value for name, value in given_headers.items() if value is not None}) == wait
    )


@given(st.text(), st.text())
def test_no_retry_after_is_too_strange_to_read(retry_after: str, date: str) -> None:
    wait = read_retry_after({"retry-after": retry_after, "date": date})
    assert wait is None or timedelta(0) <= wait <= MAX_RETRY_AFTER
