"""Callbacks: signed in both schemes, repeated until taken, logged, and sent again on request."""

import base64
import hashlib
import hmac
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
from standardwebhooks import Webhook

from placet import verify_callback
from tests.cli.process import ServerProcess, placet, serving
from tests.server.receiver import CallbackReceiver, Received, receiving
from tests.server.running import PRESSED, RunningServer
from tests.waiting import eventually

BOTH = {"inline_actions": ["confirm", "cancel"]}


@pytest.fixture(scope="module")
def receiver() -> Iterator[CallbackReceiver]:
    with receiving() as receiver:
        yield receiver


def secrets_of(client: httpx.Client, url: str) -> list[str]:
    """The secrets that sign what this address receives, the newest first."""
    endpoints = client.get("/v1/callbacks").json()["callbacks"]
    return next(one["secrets"] for one in endpoints if one["url"] == url)


def deliveries(client: httpx.Client, hitl: dict[str, Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = client.get(f"/v1/deliveries?case_id={hitl['case_id']}").json()["deliveries"]
    return found


def wait_for_state(client: httpx.Client, hitl: dict[str, Any], state: str) -> dict[str, Any]:
    """The case's one delivery, once it is in this state."""

    def look() -> dict[str, Any] | None:
        return next((one for one in deliveries(client, hitl) if one["state"] == state), None)

    return eventually(look)


def wait_for_attempts(client: httpx.Client, hitl: dict[str, Any], attempts: int) -> dict[str, Any]:
    """The case's one delivery, once it was tried so often."""

    def look() -> dict[str, Any] | None:
        return next((one for one in deliveries(client, hitl) if one["attempts"] >= attempts), None)

    return eventually(look)


def hitl_signatures(received: Received, secrets: list[str]) -> str:
    digests = [hmac.new(secret.encode(), received.body, hashlib.sha256).hexdigest() for secret in secrets]
    return ",".join(f"sha256={digest}" for digest in digests)


def standard_signatures(received: Received, secrets: list[str]) -> str:
    moment = f"{received.headers['webhook-id']}.{received.headers['webhook-timestamp']}.".encode()
    keys = [base64.b64decode(secret.removeprefix("whsec_")) for secret in secrets]
    macs = [hmac.new(key, moment + received.body, hashlib.sha256).digest() for key in keys]
    return " ".join(f"v1,{base64.b64encode(mac).decode()}" for mac in macs)


# With a server process of its own, on the real clock


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("callbacks")


@pytest.fixture(scope="module")
def process(folder: Path) -> Iterator[ServerProcess]:
    with serving(folder, env={"PLACET_ALLOW_LOOPBACK": "true"}) as process:
        process.url()
        yield process


@pytest.fixture
def owner(process: ServerProcess) -> Iterator[httpx.Client]:
    with process.client(process.admin_key) as client:
        yield client


def confirm(client: httpx.Client, callback_url: str) -> dict[str, Any]:
    """The `hitl` object of a case that was confirmed inline."""
    draft = {"type": "confirmation", "prompt": "Go?", "callback_url": callback_url, **BOTH}
    hitl: dict[str, Any] = client.post("/v1/cases", json=draft).json()["hitl"]
    token = {"Authorization": f"Bearer {hitl['submit_token']}"}
    client.post(hitl["submit_url"], json={"action": "confirm", **PRESSED}, headers=token)
    return hitl


def test_a_callback_is_verified_by_the_public_library_by_ours_and_by_hand(
    owner: httpx.Client, receiver: CallbackReceiver
) -> None:
    url = f"{receiver.url}/signed"
    hitl = confirm(owner, url)
    (received,) = receiver.wait("/signed")
    (secret,) = secrets_of(owner, url)
    Webhook(secret).verify(received.body.decode(), dict(received.headers))
    moment = datetime.fromisoformat(received.json["timestamp"])
    assert verify_callback(received.body, received.headers, secrets=[secret], now=moment)
    assert received.headers["X-HITL-Signature"] == hitl_signatures(received, [secret])
    assert received.headers["webhook-signature"] == standard_signatures(received, [secret])
    assert received.headers["content-type"] == "application/json"
    body, poll = received.json, owner.get(hitl["poll_url"]).json()
    assert (body["event"], body["status"]) == ("review.completed", "completed")
    assert body["case_id"] == hitl["case_id"]
    assert (body["result"], body["completed_at"]) == (poll["result"], poll["completed_at"])
    assert wait_for_state(owner, hitl, "delivered")["last_status"] == 204


def test_an_operator_lists_deliveries_and_sends_one_again(
    folder: Path, owner: httpx.Client, receiver: CallbackReceiver
) -> None:
    hitl = confirm(owner, f"{receiver.url}/again")
    (first,) = receiver.wait("/again")
    delivery = wait_for_state(owner, hitl, "delivered")
    table = placet(folder, "deliveries", "list", "--db", "cases.db")
    assert delivery["id"] in table.stdout
    assert "review.completed" in table.stdout
    listed = placet(folder, *f"deliveries list --json --case {hitl['case_id']} --db cases.db".split())
    assert [one["id"] for one in msgspec.json.decode(listed.stdout)] == [delivery["id"]]
    run = placet(folder, "deliveries", "replay", delivery["id"], "--db", "cases.db")
    assert (run.returncode, run.stderr) == (0, f"{delivery['id']} will be sent again.\n")
    _, second = receiver.wait("/again", 2)
    assert second.body == first.body
    assert second.headers["webhook-id"] == first.headers["webhook-id"]


def test_a_delivery_that_is_not_there_cannot_be_sent_again(folder: Path, process: ServerProcess) -> None:
    run = placet(folder, "deliveries", "replay", "msg_nothing", "--db", "cases.db")
    assert run.returncode == 1
    assert "There is no delivery 'msg_nothing'." in run.stderr
    empty = placet(folder, "deliveries", "list", "--case", "review_nothing", "--db", "cases.db")
    assert (empty.returncode, empty.stdout, empty.stderr) == (0, "", "There are no deliveries.\n")


# On a clock that the test moves


def test_a_failed_callback_is_repeated_as_it_was(
    server: RunningServer, client: httpx.Client, receiver: CallbackReceiver
) -> None:
    receiver.script["/flaky"] = [500, 503]
    hitl = server.open(client, callback_url=f"{receiver.url}/flaky", **BOTH)
    server.press(hitl, "confirm")
    first = wait_for_attempts(client, hitl, 1)
    assert (first["state"], first["last_status"]) == ("waiting", 500)
    server.advance(seconds=7)
    server.deliver()
    assert wait_for_attempts(client, hitl, 2)["last_status"] == 503
    server.deliver()
    assert len(receiver.at("/flaky")) == 2  # not before its time
    server.advance(minutes=6)
    server.deliver()
    assert wait_for_state(client, hitl, "delivered")["attempts"] == 3
    attempts = receiver.wait("/flaky", 3)
    assert len({one.body for one in attempts}) == 1
    assert len({one.headers["webhook-id"] for one in attempts}) == 1
    assert len({one.headers["webhook-timestamp"] for one in attempts}) == 3
    assert "secrets" not in msgspec.json.encode(deliveries(client, hitl)).decode()


def test_unreachable_receiver_is_retried_later(server: RunningServer, client: httpx.Client) -> None:
    with receiving() as gone:
        url = f"{gone.url}/hook"
    hitl = server.open(client, callback_url=url, **BOTH)
    assert server.press(hitl, "confirm").status_code == 200
    delivery = wait_for_attempts(client, hitl, 1)
    assert delivery["state"] == "waiting"
    assert delivery["last_error"]
    assert "next_at" in delivery


def test_a_receiver_that_is_gone_for_good_is_left_alone_until_it_is_switched_on_again(
    server: RunningServer, client: httpx.Client, receiver: CallbackReceiver
) -> None:
    url = f"{receiver.url}/gone"
    receiver.script["/gone"] = [410]
    first = server.open(client, callback_url=url, **BOTH)
    server.press(first, "confirm")
    failed = wait_for_state(client, first, "failed")
    assert failed["last_status"] == 410
    second = server.open(client, callback_url=url, **BOTH)
    server.press(second, "confirm")
    wait_for_state(client, second, "failed")
    assert len(receiver.at("/gone")) == 1
    assert "disabled_at" in next(
        one for one in client.get("/v1/callbacks").json()["callbacks"] if one["url"] == url
    )
    enabled = client.post("/v1/callbacks", json={"url": url, "enable": True})
    assert "disabled_at" not in enabled.json()
    again = client.post(f"/v1/deliveries/{failed['id']}/replay")
    assert again.status_code == 202
    server.deliver()
    wait_for_state(client, first, "delivered")
    assert len(receiver.at("/gone")) == 2


def test_while_a_secret_is_rotated_both_sign(
    server: RunningServer, client: httpx.Client, receiver: CallbackReceiver
) -> None:
    url = f"{receiver.url}/rotated"
    (old,) = client.post("/v1/callbacks", json={"url": url}).json()["secrets"]
    new, still_old = client.post("/v1/callbacks", json={"url": url, "rotate": True}).json()["secrets"]
    assert (still_old, new != old) == (old, True)
    server.press(server.open(client, callback_url=url, **BOTH), "confirm")
    (during,) = receiver.wait("/rotated")
    assert during.headers["X-HITL-Signature"] == hitl_signatures(during, [old])
    assert during.headers["webhook-signature"] == standard_signatures(during, [old, new])
    server.advance(hours=25)
    assert secrets_of(client, url) == [new]
    server.press(server.open(client, callback_url=url, **BOTH), "confirm")
    _, after = receiver.wait("/rotated", 2)
    assert after.headers["webhook-signature"] == standard_signatures(after, [new])
    assert after.headers["X-HITL-Signature"] == hitl_signatures(after, [new])


def test_during_rotation_the_verifier_of_the_protocol_accepts_every_callback(
    server: RunningServer, client: httpx.Client, receiver: CallbackReceiver
) -> None:
    url = f"{receiver.url}/verified-by-the-protocol"
    (old,) = client.post("/v1/callbacks", json={"url": url}).json()["secrets"]
    rotations = [client.post("/v1/callbacks", json={"url": url, "rotate": True}).json() for _ in range(3)]
    for rotated in rotations:  # a second rotation does not replace the secret that receivers know
        assert rotated["secrets"][1] == old
    new = rotations[-1]["secrets"][0]
    server.press(server.open(client, callback_url=url, **BOTH), "confirm")
    (during,) = receiver.wait("/verified-by-the-protocol")
    # The protocol's own example compares the whole header with one digest.
    wanted = "sha256=" + hmac.new(old.encode(), during.body, hashlib.sha256).hexdigest()
    assert hmac.compare_digest(wanted, during.headers["X-HITL-Signature"])
    both = client.post("/v1/callbacks", json={"url": url, "rotate": True, "confirm": True})
    assert (both.status_code, secrets_of(client, url)) == (400, [new, old])
    for _ in range(2):
        confirmed = client.post("/v1/callbacks", json={"url": url, "confirm": True}).json()
        assert (confirmed["secrets"], "previous_until" in confirmed) == ([new], False)
    server.press(server.open(client, callback_url=url, **BOTH), "confirm")
    _, after = receiver.wait("/verified-by-the-protocol", 2)
    assert after.headers["X-HITL-Signature"] == hitl_signatures(after, [new])


def test_concurrent_registrations_return_the_signing_secret(
    client: httpx.Client, receiver: CallbackReceiver
) -> None:
    url = f"{receiver.url}/many-workers"
    with ThreadPoolExecutor(8) as workers:
        replies = list(workers.map(lambda _: client.post("/v1/callbacks", json={"url": url}), range(8)))
    assert {tuple(reply.json()["secrets"]) for reply in replies} == {tuple(secrets_of(client, url))}


def test_a_redirect_is_not_followed(
    server: RunningServer, client: httpx.Client, receiver: CallbackReceiver
) -> None:
    receiver.script["/moved"] = [302] * 20
    hitl = server.open(client, callback_url=f"{receiver.url}/moved", **BOTH)
    server.press(hitl, "confirm")
    assert wait_for_attempts(client, hitl, 1)["last_status"] == 302
    assert receiver.at("/landed") == []


@pytest.mark.parametrize("end", ["expired", "cancelled"])
def test_every_closing_event_is_delivered(
    server: RunningServer, client: httpx.Client, receiver: CallbackReceiver, end: str
) -> None:
    hitl = server.open(client, callback_url=f"{receiver.url}/{end}", timeout="1m", default_action="abort")
    if end == "cancelled":
        client.post(f"/v1/reviews/{hitl['case_id']}/cancel", json={"reason": "no need"})
    else:
        server.advance(minutes=2)
        server.sweep()
    (received,) = receiver.wait(f"/{end}")
    body = received.json
    assert (body["event"], body["status"]) == (f"review.{end}", end)
    assert body.get("default_action") == ("abort" if end == "expired" else None)
    assert body.get("reason") == ("no need" if end == "cancelled" else None)
    assert "result" not in body


def test_nothing_is_sent_before_the_case_is_closed(
    server: RunningServer, client: httpx.Client, receiver: CallbackReceiver
) -> None:
    hitl = server.open(client, callback_url=f"{receiver.url}/early", **BOTH)
    with server.page(hitl) as page:
        page.client.post(f"/review/{hitl['case_id']}/opened", data={"csrf": page.hidden_fields()["csrf"]})
    server.deliver()
    assert deliveries(client, hitl) == []
    assert receiver.at("/early") == []


def test_endpoints_and_deliveries_of_other_owners_are_not_found(
    server: RunningServer, client: httpx.Client, receiver: CallbackReceiver
) -> None:
    url = f"{receiver.url}/private"
    hitl = server.open(client, callback_url=url, **BOTH)
    server.press(hitl, "confirm")
    delivery = wait_for_state(client, hitl, "delivered")
    with server.client(server.create_key("stranger")) as stranger:
        assert stranger.get("/v1/callbacks").json() == {"callbacks": []}
        assert stranger.get(f"/v1/deliveries?case_id={hitl['case_id']}").json() == {"deliveries": []}
        refused = stranger.post(f"/v1/deliveries/{delivery['id']}/replay")
        assert (refused.status_code, refused.json()["error"]) == (404, "not_found")
        theirs = stranger.post("/v1/callbacks", json={"url": url}).json()["secrets"]
    assert theirs != secrets_of(client, url)


def test_the_same_address_has_one_secret_for_all_cases_of_its_owner(
    server: RunningServer, client: httpx.Client, receiver: CallbackReceiver
) -> None:
    url = f"{receiver.url}/shared"
    server.open(client, callback_url=url)
    first = secrets_of(client, url)
    server.open(client, callback_url=url)
    assert secrets_of(client, url) == first
    assert client.post("/v1/callbacks", json={"url": url}).json()["secrets"] == first


@pytest.mark.parametrize("query", ["state=lost", "limit=0", "case_id=%00"])
def test_invalid_delivery_filters_are_refused(client: httpx.Client, query: str) -> None:
    refused = client.get(f"/v1/deliveries?{query}")
    assert (refused.status_code, refused.json()["error"]) == (400, "invalid_request")


def test_the_log_can_be_asked_by_state(
    server: RunningServer, client: httpx.Client, receiver: CallbackReceiver
) -> None:
    hitl = server.open(client, callback_url=f"{receiver.url}/logged", **BOTH)
    server.press(hitl, "confirm")
    done = wait_for_state(client, hitl, "delivered")
    by_state = client.get("/v1/deliveries?state=delivered&limit=200").json()["deliveries"]
    assert done["id"] in [one["id"] for one in by_state]
    assert {one["state"] for one in by_state} == {"delivered"}
