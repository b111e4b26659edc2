"""The agent that called a service polls and streams the case with the credential it sent to the service."""

import hashlib
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from joserfc.jwk import ECKey, OKPKey

from placet.agent import RequestSigner
from placet.desk.api_keys import revoke_key
from placet.desk.sweep import Sweep
from placet.errors import SettingsError
from placet.testing.clock import FakeClock
from tests.server.running import RunningServer, running
from tests.server.sse import open_stream

AGENTS_KEY = "key-of-the-agent-at-the-service"
INLINE = {"inline_actions": ["confirm", "cancel"]}


ED25519, P256 = OKPKey.generate_key("Ed25519"), ECKey.generate_key("P-256")


def reader_of(credential: str) -> dict[str, str]:
    return {"bearer_sha256": hashlib.sha256(credential.encode()).hexdigest()}


@pytest.fixture
def hitl(server: RunningServer, client: httpx.Client) -> dict[str, Any]:
    return server.open(client, reader=reader_of(AGENTS_KEY), **INLINE)


@pytest.fixture
def agent(server: RunningServer) -> Iterator[httpx.Client]:
    with server.client(AGENTS_KEY) as agent:
        yield agent


def test_the_agent_polls_with_the_credential_it_sent_to_the_service(
    server: RunningServer, client: httpx.Client, hitl: dict[str, Any], agent: httpx.Client
) -> None:
    first = agent.get(hitl["poll_url"])
    assert (first.status_code, first.json()["status"]) == (200, "pending")
    assert agent.get(hitl["poll_url"], headers={"If-None-Match": first.headers["etag"]}).status_code == 304
    server.press(hitl, "confirm")
    assert agent.get(hitl["poll_url"]).json() == client.get(hitl["poll_url"]).json()


def test_the_agent_may_send_its_credential_as_x_api_key(server: RunningServer, hitl: dict[str, Any]) -> None:
    with server.client() as anyone:
        assert anyone.get(hitl["poll_url"], headers={"X-API-Key": AGENTS_KEY}).status_code == 200
        assert anyone.get(hitl["poll_url"], headers={"X-API-Key": "another"}).status_code == 401
        assert anyone.get(hitl["poll_url"]).status_code == 401


def test_the_agent_streams_the_case(server: RunningServer, hitl: dict[str, Any], agent: httpx.Client) -> None:
    with open_stream(agent, hitl["events_url"]) as stream:
        stream.read_until("retry: 2000\n\n")
        server.press(hitl, "confirm")
        assert [name for _, name, _ in stream.read_rest()] == ["review.completed"]


def signer_of(key: OKPKey | ECKey, server: RunningServer) -> RequestSigner:
    return RequestSigner(key.as_dict(private=True), clock=server.clock)


@pytest.mark.parametrize("key", [ED25519, P256], ids=["Ed25519", "P-256"])
def test_an_agent_that_signs_its_requests_reads_the_case(
    server: RunningServer, client: httpx.Client, key: OKPKey | ECKey
) -> None:
    signer = signer_of(key, server)
    hitl = server.open(client, reader={"public_key": {**signer.public_key, "use": "sig"}}, **INLINE)
    with server.client(auth=signer) as agent:
        assert agent.get(hitl["poll_url"]).json()["status"] == "pending"
        assert agent.get(f"{hitl['poll_url']}?x=1%2F2").status_code == 200
        with open_stream(agent, hitl["events_url"]) as stream:
            stream.read_until("retry: 2000\n\n")
            server.press(hitl, "confirm")
            assert [name for _, name, _ in stream.read_rest()] == ["review.completed"]
        assert agent.post(f"/v1/reviews/{hitl['case_id']}/cancel", json={}).status_code == 401
        assert agent.get(server.open(client)["poll_url"]).status_code == 401


def test_a_signature_is_good_for_one_address_one_key_and_a_few_minutes(
    server: RunningServer, client: httpx.Client
) -> None:
    signer, poll_url, events_url = open_for_signer(server, client)
    signed = sign("GET", poll_url, signer)
    with server.client() as anyone:
        assert anyone.get(poll_url, headers=signed).status_code == 200
        others = [
            sign("GET", events_url, signer),
            sign("POST", poll_url, signer),
            sign("GET", f"{poll_url}?x=1", signer),
            sign("GET", poll_url.replace("127.0.0.1", "localhost"), signer),
            sign("GET", poll_url, signer_of(OKPKey.generate_key("Ed25519"), server)),
            {**signed, "Signature": "sig=:AAAA:"},
            {**signed, "Signature": "sig"},
            {**signed, "Signature-Input": signed["Signature-Input"].replace('"@method" ', "")},
            {**signed, "Signature-Input": signed["Signature-Input"].replace("created=", "x=")},
            {**signed, "Signature-Input": "sig=()"},
            {**signed, "Signature-Input": "sig=("},
            {"Signature": signed["Signature"]},
            {"Signature-Input": signed["Signature-Input"]},
        ]
        assert [anyone.get(poll_url, headers=wrong).status_code for wrong in others] == [401] * len(others)
        for seconds in (-301, 301):
            clock = FakeClock(server.clock() + timedelta(seconds=seconds))
            late = RequestSigner(ED25519.as_dict(private=True), clock=clock)
            assert anyone.get(poll_url, headers=sign("GET", poll_url, late)).status_code == 401


def open_for_signer(server: RunningServer, client: httpx.Client) -> tuple[RequestSigner, str, str]:
    signer = signer_of(ED25519, server)
    hitl = server.open(client, reader={"public_key": signer.public_key}, **INLINE)
    return signer, hitl["poll_url"], hitl["events_url"]


def sign(method: str, url: str, signer: RequestSigner) -> dict[str, str]:
    request = httpx.Request(method, url)
    next(signer.auth_flow(request))
    return {name: request.headers[name] for name in ("Signature-Input", "Signature")}


@pytest.mark.parametrize(
    "wrong", [{}, {"kty": "oct", "k": "A" * 43}, {"kty": "RSA"}, ED25519.as_dict(private=False)]
)
def test_a_key_that_cannot_sign_is_refused_when_the_signer_is_built(wrong: dict[str, Any]) -> None:
    with pytest.raises(SettingsError, match="private_key"):
        RequestSigner(wrong)


def test_a_principal_that_the_draft_names_reads_the_case(server: RunningServer, client: httpx.Client) -> None:
    hitl = server.open(client, reader={"principal": "buyer"}, **INLINE)
    with server.client(server.create_key("buyer", "cases:read")) as buyer:
        assert buyer.get(hitl["poll_url"]).status_code == 200
        assert buyer.post(f"/v1/reviews/{hitl['case_id']}/cancel", json={}).status_code == 403
        assert buyer.get("/v1/reviews").json()["cases"] == []
    with server.client(server.create_key("other", "cases:read")) as other:
        assert other.get(hitl["poll_url"]).status_code == 404
    with server.client(server.create_key("buyer", "inbox")) as without_scope:
        assert without_scope.get(hitl["poll_url"]).status_code == 403


def test_the_agents_credential_may_be_a_key_of_this_server(
    server: RunningServer, client: httpx.Client
) -> None:
    key = server.create_key("shopper", "cases:read")
    hitl = server.open(client, reader=reader_of(key))
    with server.client(key) as shopper:
        assert shopper.get(hitl["poll_url"]).status_code == 200


def test_a_key_that_was_revoked_here_reads_no_more(own_server: RunningServer) -> None:
    key = own_server.create_key("shopper", "cases:read")
    with own_server.client(own_server.api_key) as client, own_server.client(key) as shopper:
        hitl = own_server.open(client, reader=reader_of(key))
        store = own_server.parts.store
        (id,) = [one.id for one in own_server.run(store.list_api_keys()) if one.name == "shopper"]
        own_server.run(revoke_key(store, id, own_server.clock()))
        assert shopper.get(hitl["poll_url"]).status_code == 401


def test_the_reader_may_do_nothing_but_read_this_case(
    server: RunningServer, client: httpx.Client, hitl: dict[str, Any], agent: httpx.Client
) -> None:
    other = server.open(client, **INLINE)
    assert agent.get(other["poll_url"]).status_code == 401
    assert agent.get(other["events_url"]).status_code == 401
    assert agent.get("/v1/reviews").status_code == 401
    assert agent.post(f"/v1/reviews/{hitl['case_id']}/cancel", json={}).status_code == 401
    assert agent.post("/v1/cases", json={"type": "confirmation", "prompt": "Go?"}).status_code == 401
    pressed = {"action": "confirm", "submitted_via": "x", "submitted_by": {"platform": "x"}}
    assert agent.post(hitl["submit_url"], json=pressed).status_code == 401
    assert client.get(hitl["poll_url"]).json()["status"] == "pending"


def test_the_digest_itself_is_no_credential(server: RunningServer, hitl: dict[str, Any]) -> None:
    with server.client(reader_of(AGENTS_KEY)["bearer_sha256"]) as thief:
        assert thief.get(hitl["poll_url"]).status_code == 401


@pytest.mark.parametrize(
    ("reader", "named"),
    [
        ({}, "reader: name the agent"),
        ({"bearer_sha256": "A" * 64}, "reader.bearer_sha256"),
        ({"bearer_sha256": "a" * 63}, "reader.bearer_sha256"),
        ({"bearer_sha256": AGENTS_KEY}, "reader.bearer_sha256"),
        ({"bearer_sha256": 7}, "reader.bearer_sha256"),
        ({"public_key": {}}, "reader.public_key: send a JSON Web Key"),
        ({"public_key": {"kty": "oct", "k": "c2VjcmV0"}}, "reader.public_key: send a JSON Web Key"),
        ({"public_key": {"kty": "OKP", "crv": "Ed25519", "x": "AA"}}, "reader.public_key"),
        ({"public_key": {"kty": "OKP", "crv": "Ed25519", "x": 7}}, "reader.public_key: x must be"),
        ({"public_key": {"kty": "EC", "crv": "P-256", "x": "AA", "y": "AA"}}, "reader.public_key"),
        ({"public_key": ED25519.as_dict(private=True)}, "reader.public_key: this is a private key"),
        ({"public_key": "key"}, "reader.public_key"),
        ({"principal": ""}, "reader.principal"),
        ({"bearer": "x"}, "reader"),
        ("buyer", "reader"),
        ([], "reader"),
    ],
    ids=str,
)
def test_a_reader_that_names_nobody_is_refused(client: httpx.Client, reader: Any, named: str) -> None:
    refused = client.post("/v1/cases", json={"type": "confirmation", "prompt": "Go?", "reader": reader})
    assert refused.status_code == 400
    assert named in refused.json()["message"]


def test_the_credential_is_stored_nowhere(tmp_path: Path) -> None:
    with running(tmp_path) as server, server.client(server.api_key) as client:
        hitl = server.open(client, reader=reader_of(AGENTS_KEY))
        with server.client(AGENTS_KEY) as agent:
            assert agent.get(hitl["poll_url"]).status_code == 200
    stored = b"".join(file.read_bytes() for file in tmp_path.iterdir() if file.is_file())
    assert reader_of(AGENTS_KEY)["bearer_sha256"].encode() in stored
    assert AGENTS_KEY.encode() not in stored


def test_an_erased_case_has_no_reader(own_server: RunningServer) -> None:
    with own_server.client(own_server.api_key) as client, own_server.client(AGENTS_KEY) as agent:
        hitl = own_server.open(client, reader=reader_of(AGENTS_KEY), timeout="1h", **INLINE)
        own_server.press(hitl, "confirm")
        assert agent.get(hitl["poll_url"]).status_code == 200
        own_server.clock.advance(timedelta(days=400))
        own_server.run(Sweep(own_server.parts.desk).run_once())
        assert agent.get(hitl["poll_url"]).status_code in (401, 404)
        case = own_server.run(own_server.parts.store.get_case(hitl["case_id"]))
        assert case is not None
        assert case.reader is None


def test_the_agents_callback_address_is_called_if_the_service_names_none(
    own_server: RunningServer,
) -> None:
    with own_server.client(own_server.api_key) as client:
        asked = {"type": "confirmation", "prompt": "Go?", "hitl_callback_url": "http://127.0.0.1:9/hitl"}
        opened = client.post("/v1/cases", json=asked).json()
        assert opened["hitl"]["callback_url"] == "http://127.0.0.1:9/hitl"
        both = client.post("/v1/cases", json={**asked, "callback_url": "http://127.0.0.1:9/own"}).json()
        assert both["hitl"]["callback_url"] == "http://127.0.0.1:9/own"


@pytest.mark.parametrize(
    "url", ["", "http://169.254.169.254/latest", "https://10.0.0.1/", "ftp://x", "nonsense"]
)
def test_a_callback_address_of_the_agent_that_cannot_be_called_is_left_out_with_a_warning(
    client: httpx.Client, url: str
) -> None:
    asked = {"type": "confirmation", "prompt": "Go?", "hitl_callback_url": url}
    opened = client.post("/v1/cases", json=asked)
    assert opened.status_code == 202
    assert opened.json()["hitl"].get("callback_url") is None
    (warning,) = opened.json()["data"]["warnings"]
    assert warning.startswith("hitl_callback_url: ")
    assert client.post("/v1/cases", json={**asked, "callback_url": url}).status_code == 400
