"""Spec 7.5 (since 0.6) over HTTP: an answer that an agent relays after a person pressed a button."""

import re

import httpx
import pytest

from tests.server.running import EXAMPLE, PRESSED
from tests.waiting import PATIENCE_S

INLINE = ["confirm", "cancel"]


@pytest.fixture
def hitl(server, client) -> dict:
    return server.open(client, inline_actions=INLINE)


@pytest.mark.spec("7.5-offer", "7.5-token-with-url", "7.5-inline-actions")
def test_inline_submit_is_offered_only_where_the_service_asks_for_it(server, client, hitl):
    assert hitl["submit_url"].startswith(server.url)
    assert hitl["inline_actions"] == INLINE
    plain = server.open(client)
    assert plain.keys().isdisjoint({"submit_url", "submit_token", "inline_actions"})


@pytest.mark.spec("7.5-token-differs", "7.5-token-form")
def test_the_submit_token_is_its_own_43_characters(hitl):
    assert re.fullmatch(r"[A-Za-z0-9_-]{43}", hitl["submit_token"])
    assert hitl["submit_token"] not in hitl["review_url"]


@pytest.mark.spec("7.5-endpoint", "7.5-200")
@pytest.mark.parametrize("verb", ["respond", "submit"])
def test_a_press_completes_the_case(server, client, hitl, verb):
    advertised = {**hitl, "submit_url": hitl["submit_url"].replace("respond", verb)}
    response = server.press(advertised, "confirm")
    assert response.status_code == 200
    poll = client.get(hitl["poll_url"]).json()
    assert response.json() == {
        "status": "completed",
        "case_id": hitl["case_id"],
        "completed_at": poll["completed_at"],
    }


@pytest.mark.spec("7.5-body", "7.5-attributed")
@pytest.mark.parametrize(
    "change",
    [
        {"action": None},
        {"submitted_via": None},
        {"submitted_by": None},
        {"submitted_via": "carrier_pigeon"},
        {"submitted_via": "x-"},
        {"submitted_by": {"platform": "telegram"}},
        {"submitted_by": {"platform_user_id": "7"}},
        {"submitted_by": {"platform": "post", "platform_user_id": "7"}},
        {"data": "yes"},
        {"data": []},
        {"surprise": 1},
        {"action": ["confirm"]},
    ],
    ids=str,
)
def test_a_body_of_another_shape_is_refused_and_answers_nothing(client, hitl, change):
    body = {**{"action": "confirm", **PRESSED}, **change}
    sent = {name: value for name, value in body.items() if value is not None}
    headers = {"Authorization": f"Bearer {hitl['submit_token']}"}
    response = httpx.post(hitl["submit_url"], json=sent, headers=headers, timeout=PATIENCE_S)
    assert (response.status_code, response.json()["error"]) == (400, "invalid_submission")
    assert client.get(hitl["poll_url"]).json()["status"] == "pending"


@pytest.mark.spec("7.5-body")
@pytest.mark.parametrize(
    ("via", "platform"),
    [
        ("telegram_inline_button", "telegram"),
        ("slack_block_action", "slack"),
        ("discord_component", "discord"),
        ("whatsapp_reply_button", "whatsapp"),
        ("teams_adaptive_card", "teams"),
        ("x-signal", "x-signal"),
    ],
)
def test_every_platform_can_be_named(server, client, hitl, via, platform):
    by = {"platform": platform, "platform_user_id": "7"}
    assert server.press(hitl, "confirm", submitted_via=via, submitted_by=by).status_code == 200
    context = client.get(hitl["poll_url"]).json()["submission_context"]
    assert context == {"mode": "inline_submit", "submitted_via": via, "submitted_by": by}


@pytest.mark.spec("7.5-401", "7.5-no-crossing")
def test_no_other_credential_answers_a_case(server, client, hitl):
    other = server.open(client, inline_actions=INLINE)
    review_token = hitl["review_url"].partition("token=")[2]
    for credential in (None, "wrong", review_token, server.api_key, other["submit_token"]):
        with server.client(credential) as caller:
            response = caller.post(hitl["submit_url"], json={"action": "confirm", **PRESSED})
            assert (response.status_code, response.json()["error"]) == (401, "invalid_token")
    assert client.get(hitl["poll_url"]).json()["status"] == "pending"


@pytest.mark.spec("7.5-no-crossing")
def test_the_submit_token_opens_neither_page_nor_poll(server, client, hitl):
    page = hitl["review_url"].partition("token=")[0] + f"token={hitl['submit_token']}"
    with server.client(follow_redirects=True) as visitor:
        assert visitor.get(page).status_code == 401
        respond = page.replace("?", "/respond?")
        assert visitor.post(respond, json={"action": "confirm"}).status_code == 401
    with server.client(hitl["submit_token"]) as caller:
        assert caller.get(hitl["poll_url"]).status_code == 401
        assert caller.post("/v1/cases", json=EXAMPLE).status_code == 401
        assert caller.post(f"/v1/reviews/{hitl['case_id']}/cancel").status_code == 401
    assert client.get(hitl["poll_url"]).json()["status"] == "pending"


@pytest.mark.spec("7.5-no-crossing")
def test_a_case_without_inline_submit_takes_no_inline_answer(server, client):
    plain = server.open(client)
    address = plain["poll_url"].replace("status", "respond")
    token = plain["review_url"].partition("token=")[2]
    with server.client(token) as caller:
        assert caller.post(address, json={"action": "confirm", **PRESSED}).status_code == 401


@pytest.mark.spec("7.5-403", "7.5-inline-actions", "0.7-403-body")
def test_an_action_that_was_not_offered_inline_is_refused_with_the_way_to_the_page(server, client):
    hitl = server.open(client, inline_actions=["cancel"])
    response = server.press(hitl, "confirm")
    body = response.json()
    assert (response.status_code, body["error"]) == (403, "action_not_inline")
    assert body["case_id"] == hitl["case_id"]
    assert body["review_url"] == hitl["review_url"].partition("?")[0]
    assert client.get(hitl["poll_url"]).json()["status"] == "pending"


@pytest.mark.spec("7.5-inline-actions")
def test_an_empty_list_of_inline_actions_means_none(server, client):
    hitl = server.open(client, inline_actions=[])
    assert {"submit_url", "submit_token", "inline_actions"}.isdisjoint(hitl)
    address = hitl["poll_url"].replace("/status", "/submit")
    refused = server.press({**hitl, "submit_url": address, "submit_token": "x" * 43}, "confirm")
    assert refused.status_code == 401


@pytest.mark.spec("7.5-inline-actions")
@pytest.mark.parametrize(
    "draft",
    [
        {"type": "approval", "prompt": "May I?", "inline_actions": ["edit"]},
        {**EXAMPLE, "inline_actions": ["approve"]},
        {
            "type": "selection",
            "prompt": "Which?",
            "context": {"options": [{"id": "a", "title": "A"}]},
            "inline_actions": ["select"],
        },
    ],
    ids=lambda draft: draft["type"],
)
def test_what_a_button_cannot_say_cannot_be_offered_inline(client, draft):
    assert client.post("/v1/cases", json=draft).status_code == 400


@pytest.mark.spec("7.5-409", "13.2-conflict", "13.2-first-completes")
def test_the_second_answer_loses_and_says_so(server, client, hitl):
    assert server.press(hitl, "confirm").status_code == 200
    second = server.press(hitl, "cancel")
    assert (second.status_code, second.json()["error"]) == (409, "duplicate_submission")
    assert client.get(hitl["poll_url"]).json()["result"]["action"] == "confirm"


@pytest.mark.spec("7.5-410", "0.9-deadline-at-answer")
def test_an_answer_after_the_deadline_is_late_even_if_no_timer_has_run(server, client, hitl):
    late = server.open(client, inline_actions=INLINE, timeout="1m")
    server.advance(minutes=1)
    response = server.press(late, "confirm")
    assert (response.status_code, response.json()["error"]) == (410, "case_expired")
    assert client.get(late["poll_url"]).json()["status"] == "expired"


def test_the_same_press_sent_twice_gets_the_first_receipt(server, hitl):
    headers = {"Authorization": f"Bearer {hitl['submit_token']}", "Idempotency-Key": "press-1"}
    body = {"action": "confirm", **PRESSED}
    first, again = (
        httpx.post(hitl["submit_url"], json=body, headers=headers, timeout=PATIENCE_S) for _ in range(2)
    )
    assert first.status_code == again.status_code == 200
    assert first.json() == again.json()
    other = httpx.post(
        hitl["submit_url"], json={**body, "action": "cancel"}, headers=headers, timeout=PATIENCE_S
    )
    assert other.status_code == 409


@pytest.mark.spec("7.5-same-path")
def test_the_browser_and_the_button_have_addresses_of_their_own(hitl):
    assert "/v1/reviews/" in hitl["submit_url"]
    assert "/v1/" not in hitl["review_url"]


@pytest.mark.spec("7.5-since-0.6")
def test_version_0_5_knows_no_inline_submit(client):
    draft = {**EXAMPLE, "inline_actions": INLINE, "spec_version": "0.5"}
    response = client.post("/v1/cases", json=draft)
    assert response.status_code == 400
    assert "0.6" in response.json()["message"]
