"""Spec 9 over HTTP: an agent that can be reached is told how its case ended."""

import hashlib
import hmac
from collections.abc import Iterator

import msgspec
import pytest
import standardwebhooks

from placet.desk.delivery_retries import RETRY_SCHEDULE
from placet.errors import SignatureInvalid
from placet.protocol.callback import verify_callback
from placet.protocol.review_callback import ReviewCallback
from tests.server.callback_receiver import CallbackReceiver, receiving
from tests.server.running import EXAMPLE, eventually, running


@pytest.fixture
def receiver() -> Iterator[CallbackReceiver]:
    with receiving() as receiver:
        yield receiver


def secret_of(client, receiver) -> str:
    [endpoint] = [
        one for one in client.get("/v1/callbacks").json()["callbacks"] if one["url"] == receiver.url
    ]
    return endpoint["secrets"][0]


def delivery_of(client, hitl) -> dict:
    [delivery] = client.get("/v1/deliveries", params={"case_id": hitl["case_id"]}).json()["deliveries"]
    return delivery


def cancel(client, hitl) -> None:
    client.post(f"/v1/reviews/{hitl['case_id']}/cancel", json={"reason": "Rain."}).raise_for_status()


@pytest.mark.spec("9-completed", "9-requested", "6-honour-callback")
def test_an_answer_is_posted_to_the_address_that_was_asked_for(server, client, receiver):
    hitl = server.open(client, inline_actions=["confirm"], callback_url=receiver.url)
    server.press(hitl, "confirm", data={"note": "Yes."})
    received = receiver.take()
    poll = client.get(hitl["poll_url"]).json()
    assert received.headers["Content-Type"] == "application/json"
    assert received.json == {
        "event": "review.completed",
        "status": "completed",
        "timestamp": poll["completed_at"],
        "case_id": hitl["case_id"],
        "completed_at": poll["completed_at"],
        "result": poll["result"],
    }
    assert msgspec.json.decode(received.body, type=ReviewCallback).event == "review.completed"


@pytest.mark.spec("9-expired")
def test_expiry_is_posted(server, client, receiver):
    hitl = server.open(client, timeout="1m", default_action="reject", callback_url=receiver.url)
    server.advance(minutes=1)
    server.sweep()
    body = receiver.take().json
    assert (body["event"], body["status"]) == ("review.expired", "expired")
    assert (body["expired_at"], body["default_action"]) == (hitl["expires_at"], "reject")


@pytest.mark.spec("9-cancelled")
def test_withdrawal_is_posted(server, client, receiver):
    hitl = server.open(client, callback_url=receiver.url)
    cancel(client, hitl)
    body = receiver.take().json
    assert (body["event"], body["status"], body["reason"]) == ("review.cancelled", "cancelled", "Rain.")


@pytest.mark.spec("9-only-endings")
def test_nothing_is_posted_before_the_end(server, client, receiver):
    hitl = server.open(client, callback_url=receiver.url)
    with server.page(hitl) as page:
        page.post("opened", {})
    server.deliver()
    assert receiver.waiting == 0
    assert client.get("/v1/deliveries", params={"case_id": hitl["case_id"]}).json() == {"deliveries": []}


@pytest.mark.spec("9-signed", "0.9-verify-before-trust")
def test_the_signature_is_the_hmac_of_the_body_under_the_shared_secret(server, client, receiver):
    cancel(client, server.open(client, callback_url=receiver.url))
    received = receiver.take()
    secret = secret_of(client, receiver)
    digest = hmac.new(secret.encode(), received.body, hashlib.sha256).hexdigest()
    assert received.headers["X-HITL-Signature"] == f"sha256={digest}"
    assert verify_callback(received.body, received.headers, secrets=[secret], now=server.clock())


@pytest.mark.spec("9-signed")
def test_a_receiver_with_the_standard_library_of_webhooks_can_verify_too(tmp_path, receiver):
    with running(tmp_path, present=True) as server, server.client(server.api_key) as client:
        cancel(client, server.open(client, callback_url=receiver.url))
        received = receiver.take()
        verifier = standardwebhooks.Webhook(secret_of(client, receiver))
        assert verifier.verify(received.body, received.headers)["event"] == "review.cancelled"


@pytest.mark.spec("9-signed", "0.9-verify-before-trust")
def test_a_callback_that_was_tampered_with_does_not_verify(server, client, receiver):
    cancel(client, server.open(client, callback_url=receiver.url))
    received = receiver.take()
    forged = received.body.replace(b"cancelled", b"completed")
    with pytest.raises(SignatureInvalid):
        verify_callback(forged, received.headers, secrets=[secret_of(client, receiver)], now=server.clock())


@pytest.mark.spec("9-retry", "0.9-duplicates")
def test_a_receiver_in_trouble_is_tried_again_with_the_same_bytes_and_id(server, client, receiver):
    receiver.status = 503
    hitl = server.open(client, callback_url=receiver.url)
    cancel(client, hitl)
    first = receiver.take()
    eventually(lambda: delivery_of(client, hitl)["attempts"] == 1)
    receiver.status = 200
    server.advance(minutes=1)
    server.deliver()
    second = receiver.take()
    assert second.body == first.body
    assert second.headers["webhook-id"] == first.headers["webhook-id"]
    eventually(lambda: delivery_of(client, hitl)["state"] == "delivered")
    assert delivery_of(client, hitl)["attempts"] == 2


@pytest.mark.spec("9-retry")
def test_the_waits_between_attempts_grow():
    assert list(RETRY_SCHEDULE) == sorted(RETRY_SCHEDULE)
    assert len(RETRY_SCHEDULE) >= 3


@pytest.mark.spec("9-poll-is-truth")
def test_a_callback_that_cannot_be_delivered_leaves_the_poll_as_it_is(server, client, receiver):
    receiver.status = 500
    hitl = server.open(client, inline_actions=["confirm"], callback_url=receiver.url)
    assert server.press(hitl, "confirm").status_code == 200
    receiver.take()
    assert client.get(hitl["poll_url"]).json()["result"]["action"] == "confirm"


@pytest.mark.spec("0.9-destinations")
@pytest.mark.parametrize(
    "address",
    [
        "http://agent.example/hook",
        "https://user:secret@agent.example/hook",
        "https://10.0.0.1/hook",
        "https://169.254.169.254/latest",
        "https://[fe80::1]/hook",
        "https://127.0.0.1/hook",
        "http://127.0.0.1:9/hook",
        "ftp://agent.example",
        "https:///hook",
    ],
)
def test_addresses_inside_the_network_or_with_credentials_are_refused(tmp_path, address):
    with running(tmp_path, allow_loopback=False) as server, server.client(server.api_key) as client:
        response = client.post("/v1/cases", json={**EXAMPLE, "callback_url": address})
        assert response.status_code == 400
        assert client.post("/v1/callbacks", json={"url": address}).status_code == 400


@pytest.mark.spec("0.9-destinations")
def test_redirects_are_not_followed(server, client, receiver):
    receiver.status = 302
    hitl = server.open(client, callback_url=receiver.url)
    cancel(client, hitl)
    receiver.take()
    eventually(lambda: delivery_of(client, hitl).get("last_status") == 302)
    assert delivery_of(client, hitl)["state"] == "waiting"


@pytest.mark.spec("9-retry")
def test_an_address_that_is_gone_gets_nothing_more_until_it_is_enabled(server, client, receiver):
    receiver.status = 410
    hitl = server.open(client, callback_url=receiver.url)
    cancel(client, hitl)
    receiver.take()
    eventually(lambda: delivery_of(client, hitl)["state"] == "failed")
    silent = server.open(client, callback_url=receiver.url)
    cancel(client, silent)
    eventually(lambda: delivery_of(client, silent)["state"] == "failed")
    assert receiver.waiting == 0
    receiver.status = 200
    client.post("/v1/callbacks", json={"url": receiver.url, "enable": True}).raise_for_status()
    assert client.post(f"/v1/deliveries/{delivery_of(client, silent)['id']}/replay").status_code == 202
    assert receiver.take().json["case_id"] == silent["case_id"]
