"""Spec 13 and the rules of 0.9 over HTTP: tokens, one answer, proof of it, and forgetting."""

import logging
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from placet.cases.events import find_broken_link
from placet.cases.tokens import digest_token
from placet.errors import SettingsError
from placet.server.logs import JsonFormatter
from placet.settings import Settings, check
from placet.signing.verify import verify_result
from tests.server.running import EXAMPLE, running

CONTENDERS = 16


def token_of(hitl: dict) -> str:
    return hitl["review_url"].partition("token=")[2]


def files_of(server) -> bytes:
    """Everything the server has written to disk."""
    database = Path(server.parts.settings.db)
    return b"".join(path.read_bytes() for path in database.parent.glob(f"{database.name}*"))


@pytest.mark.spec("13.1-only-digest", "7-storage", "7.5-token-form")
def test_only_digests_of_tokens_and_keys_reach_the_disk(tmp_path):
    with running(tmp_path) as server, server.client(server.api_key) as client:
        hitl = client.post(
            "/v1/cases", json={**EXAMPLE, "inline_actions": ["confirm"]}, headers={"Idempotency-Key": "k-1"}
        ).json()["hitl"]
        assert server.press(hitl, "confirm").status_code == 200
        written = files_of(server)
        for secret in (token_of(hitl), hitl["submit_token"], server.api_key):
            assert secret.encode() not in written
            assert digest_token(secret).encode() in written


@pytest.mark.spec("13.1-expiry-tracked")
def test_the_deadline_is_kept_in_the_database_and_survives_a_restart(tmp_path):
    with running(tmp_path) as server, server.client(server.api_key) as client:
        hitl = server.open(client, timeout="1m")
    with running(tmp_path) as server, server.client(server.api_key) as client:
        poll_path = hitl["poll_url"].partition("/v1/")[2]
        assert client.get(f"/v1/{poll_path}").json()["expires_at"] == hitl["expires_at"]
        server.advance(minutes=1)
        assert client.get(f"/v1/{poll_path}").json()["status"] == "expired"


@pytest.mark.spec("13.2-conflict", "13.2-first-completes", "0.9-atomic")
def test_of_many_answers_at_once_exactly_one_wins(server, client):
    for _ in range(5):
        hitl = server.open(client, inline_actions=["confirm", "cancel"])
        with ThreadPoolExecutor(CONTENDERS) as crowd:
            actions = ["confirm", "cancel"] * (CONTENDERS // 2)
            replies = list(crowd.map(server.press, [hitl] * CONTENDERS, actions))
        codes = [reply.status_code for reply in replies]
        assert sorted(codes) == [200] + [409] * (CONTENDERS - 1)
        poll = client.get(hitl["poll_url"]).json()
        assert poll["result"]["action"] == actions[codes.index(200)]
        log = server.run(server.parts.desk.list_events(hitl["case_id"]))
        assert [event.type for event in log].count("review.completed") == 1


@pytest.mark.spec("13.2-grace", "0.9-immutable", "7-grace", "0.9-corrections")
def test_an_answer_cannot_be_edited_however_soon(server, client):
    hitl = server.open(client)
    with server.page(hitl) as page:
        page.post("respond", {"action": "confirm"})
    with server.client() as visitor:
        again = visitor.post(hitl["review_url"].replace("?", "/respond?"), json={"action": "cancel"})
    assert again.status_code == 409
    follow_up = server.open(client, previous_case_id=hitl["case_id"])
    assert follow_up["previous_case_id"] == hitl["case_id"]


@pytest.mark.spec("13.3-https", "13.3-no-http", "7-https", "7-no-http", "0.7-https-loopback")
@pytest.mark.parametrize(
    ("base_url", "sound"),
    [
        ("https://placet.example", True),
        ("http://localhost:8400", True),
        ("http://127.0.0.1:8400", True),
        ("http://[::1]:8400", True),
        ("http://placet.example", False),
        ("http://10.0.0.5", False),
        ("http://localhost.evil.example", False),
        ("ftp://placet.example", False),
        ("placet.example", False),
    ],
)
def test_a_server_that_would_hand_out_plain_http_links_does_not_start(base_url, sound):
    settings = Settings(base_url=base_url)
    if sound:
        check(settings)
    else:
        with pytest.raises(SettingsError):
            check(settings)


@pytest.mark.spec("13.3-https", "7.5-https")
def test_every_address_handed_out_is_under_the_public_one(tmp_path):
    public = "https://decide.example/placet"
    with running(tmp_path, base_url=public) as server, server.client(server.api_key) as client:
        client.base_url = f"http://127.0.0.1:{server.parts.settings.port}"
        draft = {**EXAMPLE, "inline_actions": ["confirm"]}
        hitl = client.post("/v1/cases", json=draft).json()["hitl"]
    for name in ("review_url", "poll_url", "events_url", "submit_url"):
        assert hitl[name].startswith(f"{public}/")


@pytest.mark.spec("13.4-signed", "13.4-verifiable", "0.9-signature-profile")
@pytest.mark.parametrize("algorithm", ["ES256", "RS256", "EdDSA"])
def test_a_result_can_be_verified_by_anyone_with_the_published_keys(tmp_path, algorithm):
    with running(tmp_path, signing=algorithm) as server, server.client(server.api_key) as client:
        hitl = server.open(client, inline_actions=["confirm"])
        server.press(hitl, "confirm", data={"note": "Yes."})
        poll = client.get(hitl["poll_url"]).json()
        signature = poll["result"]["signature"]
        assert signature["algorithm"] == algorithm
        assert signature["signer"] == f"{server.url}/.well-known/jwks.json"
        with server.client() as anyone:
            keys = anyone.get(signature["signer"]).json()
        verify_result(poll, keys)


@pytest.mark.spec("13.4-signed")
def test_signing_can_be_left_out(tmp_path):
    with running(tmp_path, signing="none") as server, server.client(server.api_key) as client:
        hitl = server.open(client, inline_actions=["confirm"])
        server.press(hitl, "confirm")
        assert "signature" not in client.get(hitl["poll_url"]).json()["result"]
        assert client.get("/.well-known/jwks.json").json() == {"keys": []}


@pytest.mark.spec("13.6-retention")
def test_thirty_days_after_its_end_a_case_is_forgotten_and_its_chain_still_holds(tmp_path):
    secret = "The ferns are called Basil and Sybil."
    with running(tmp_path) as server, server.client(server.api_key) as client:
        hitl = server.open(client, prompt=secret, context={"names": secret}, inline_actions=["confirm"])
        server.press(hitl, "confirm", data={"note": secret})
        server.advance(days=29, hours=23)
        server.sweep()
        assert client.get(hitl["poll_url"]).json()["result"]["data"] == {"note": secret}
        server.advance(hours=2)
        server.sweep()
        assert client.get(hitl["poll_url"]).status_code == 404
        assert client.get(hitl["events_url"]).status_code == 404
        with server.client(follow_redirects=True) as visitor:
            assert visitor.get(hitl["review_url"]).status_code == 404
        assert client.get("/v1/reviews").json()["cases"] == []
        log = server.run(server.parts.desk.list_events(hitl["case_id"]))
        assert find_broken_link(log) is None
        assert all(secret.encode() not in (event.data or b"") for event in log)


@pytest.mark.spec("13.6-only-needed")
def test_the_page_shows_no_ids_tokens_or_callback_addresses(server, client):
    hitl = server.open(client, callback_url="http://127.0.0.1:9/secret-hook", inline_actions=["confirm"])
    with server.page(hitl) as page:
        shown = page.text
    for hidden in (token_of(hitl), hitl["submit_token"], "secret-hook", server.api_key):
        assert hidden not in shown
    # Its verified name says who asks; nothing else is known of the key.
    assert "acme" not in shown.replace("<bdi>acme</bdi>", "")


@pytest.mark.spec("13.7-who-responded")
def test_the_log_says_who_did_what_in_a_chain_that_cannot_be_rewritten(server, client):
    hitl = server.open(client, inline_actions=["confirm"])
    with server.page(hitl) as page:
        page.post("opened", {})
    server.press(hitl, "confirm")
    log = server.run(server.parts.desk.list_events(hitl["case_id"]))
    assert [event.type for event in log] == ["review.created", "review.opened", "review.completed"]
    created, opened, completed = (event.actor for event in log)
    assert created == "key:acme"
    assert opened.startswith("link:")
    assert completed == "inline:telegram"
    assert find_broken_link(log) is None


@pytest.mark.spec("0.9-log-redaction", "10.3.1-sensitive-log")
def test_what_is_logged_carries_no_token_and_no_answer(tmp_path, caplog):
    caplog.set_level(logging.DEBUG)
    field = {"key": "pin", "label": "PIN", "type": "text", "sensitive": True, "validation": {"maxLength": 4}}
    with running(tmp_path, log_requests=True) as server, server.client(server.api_key) as client:
        hitl = server.open(client, type="input", context={"form": {"fields": [field]}})
        with server.page(hitl) as page:
            page.post("respond", {"field.pin": "4711-k!zw", "asked": "pin", "action": "submit"})
            page.post("respond", {"field.pin": "k!zw", "asked": "pin", "action": "submit"})
        assert client.get(hitl["poll_url"]).json()["status"] == "completed"
    ours = [record for record in caplog.records if record.name.startswith("placet")]
    lines = "\n".join(JsonFormatter().format(record) for record in ours)
    assert f"/review/{hitl['case_id']}" in lines
    for secret in (token_of(hitl), server.api_key, "4711-k!zw", "k!zw"):
        assert secret not in lines


@pytest.mark.spec("0.9-owner-only")
def test_a_case_that_was_opened_anonymously_can_be_polled_so_and_no_other(tmp_path):
    with running(tmp_path) as server:
        server.parts.add_demo()
        with server.client() as anyone, server.client(server.api_key) as client:
            hitl = anyone.post("/api/demo", params={"type": "confirmation"}).json()["hitl"]
            assert anyone.get(hitl["poll_url"]).status_code == 200
            owned = server.open(client)
            assert anyone.get(owned["poll_url"]).status_code == 401
            assert anyone.post("/v1/cases", json=EXAMPLE).status_code == 401


@pytest.mark.spec("0.9-owner-only")
def test_a_key_does_only_what_its_scopes_allow(server, client):
    hitl = server.open(client)
    with server.client(server.create_key("acme", "cases:read")) as reader:
        assert reader.get("/v1/reviews").status_code == 200
        assert reader.get(hitl["poll_url"]).status_code == 200
        for response in (
            reader.post("/v1/cases", json=EXAMPLE),
            reader.post(f"/v1/reviews/{hitl['case_id']}/cancel"),
            reader.post("/v1/callbacks", json={"url": "http://127.0.0.1:9/"}),
        ):
            assert (response.status_code, response.json()["error"]) == (403, "not_permitted")


@pytest.mark.spec("0.7-discovery", "0.8-discovery", "0.9-known-versions")
@pytest.mark.parametrize("version", ["0.5", "0.6", "0.7", "0.8", "0.9"])
def test_discovery_has_the_shape_of_the_version_asked_for(client, version):
    document = client.get("/.well-known/hitl.json", params={"version": version}).json()["hitl_protocol"]
    assert document["spec_version"] == version
    assert ("supports_inline_submit" in document["capabilities"]) == (version >= "0.6")
    assert ("authentication" in document) == (version >= "0.8")


@pytest.mark.spec("0.9-known-versions")
def test_discovery_in_an_unknown_version_is_refused(client):
    assert client.get("/.well-known/hitl.json", params={"version": "2.0"}).status_code == 400
    newest = client.get("/.well-known/hitl.json").json()
    assert newest["hitl_protocol"]["spec_version"] == "0.9"
