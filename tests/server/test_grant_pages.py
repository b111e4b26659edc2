"""A person allows more calls like one on the page, sees what became of it, and ends it there."""

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from placet.testing.samples import new_id
from tests.server.running import ReviewPage, RunningServer

CALL = {
    "id": "call_1",
    "name": "send_email",
    "description": "The weekly report.",
    "arguments": {"to": "ada@acme.example", "copies": 1},
    "schema": None,
    "allowed_decisions": ["approve", "edit", "reject"],
    "path": [],
    "high_risk": False,
}
RISKY = {**CALL, "id": "call_2", "name": "drop_table", "arguments": {"table": "users"}, "high_risk": True}
ALLOWING = {
    "decision.1": "approve",
    "decision.2": "approve",
    "grant.1.on": "yes",
    "grant.1.like.1": "*@acme.example",
    "grant.1.like.2": "1",
    "grant.1.uses": "3",
    "grant.1.for": "1h",
    "action": "edit",
}


@pytest.fixture
def client(server: RunningServer) -> Iterator[httpx.Client]:
    """An owner of the test's own."""
    with server.client(server.create_key(new_id("owner"))) as client:
        yield client


@pytest.fixture
def hitl(server: RunningServer, client: httpx.Client) -> dict[str, Any]:
    context = {"tool_calls": [CALL, RISKY], "agent": "mailer", "thread_id": "t"}
    return server.open(client, type="approval", prompt="Send it?", context=context)


def newest(client: httpx.Client) -> dict[str, Any]:
    found: dict[str, Any] = client.get("/v1/grants", params={"limit": 1}).json()["grants"][0]
    return found


def use(client: httpx.Client, key: str) -> Any:
    call = {"tool": "send_email", "arguments": {"to": "eve@acme.example", "copies": 1}, "agent": "mailer"}
    return client.post("/v1/grants/use", json={"key": key, "call_id": key, **call}).json()["grant"]


def allow(page: ReviewPage, **fields: str) -> ReviewPage:
    return page.post("respond", ALLOWING | fields)


def test_a_person_allows_more_calls_and_the_agent_uses_them(
    server: RunningServer, client: httpx.Client, hitl: dict[str, Any]
) -> None:
    with server.page(hitl) as page:
        assert page.text.count("Allow more calls like this one") == 1
        done = allow(page)
        assert "3 more calls like it allowed for" in done.text
        assert "3 calls left" in done.text
    grant = newest(client)
    assert grant["case_id"] == hitl["case_id"]
    assert grant["patterns"] == {"to": {"glob": "*@acme.example"}, "copies": {"exact": 1}}
    assert grant["granted_by"].startswith("link:")
    assert use(client, f"{hitl['case_id']}/1")["uses_left"] == 2
    with server.page(hitl) as page:
        assert "2 calls left" in page.text


def test_a_person_ends_what_they_allowed(
    server: RunningServer, client: httpx.Client, hitl: dict[str, Any]
) -> None:
    with server.page(hitl) as page:
        done = allow(page)
        grant = newest(client)
        ended = done.post("revoke", {"grant": grant["id"]})
        assert "Ended. Every further call is asked about." in ended.text
        assert "End this now" not in ended.text
    shown = client.get(f"/v1/grants/{grant['id']}").json()
    assert (shown["state"], shown["revoked_by"]) == ("revoked", grant["granted_by"])
    assert use(client, f"{hitl['case_id']}/2") is None


def test_only_a_page_of_ours_ends_a_grant_and_only_of_its_own_case(
    server: RunningServer, client: httpx.Client, hitl: dict[str, Any]
) -> None:
    with server.page(hitl) as page:
        done = allow(page)
        grant = newest(client)
        assert done.post("revoke", {"grant": grant["id"], "csrf": "guessed"}).response.status_code == 401
        assert done.post("revoke", {"grant": "grant_unknown"}).response.status_code == 404
    other = server.open(client, type="confirmation", prompt="Go?")
    with server.page(other) as page:
        assert page.post("revoke", {"grant": grant["id"]}).response.status_code == 404
    assert client.get(f"/v1/grants/{grant['id']}").json()["state"] == "live"


def test_what_does_not_fit_is_said_beside_the_call_and_nothing_is_recorded(
    server: RunningServer, client: httpx.Client, hitl: dict[str, Any]
) -> None:
    with server.page(hitl) as page:
        again = allow(page, **{"grant.1.uses": "5000"})
        assert again.response.status_code == 400
        assert again.text.count("Allow it between 1 and") == 2
        assert 'href="#f-grant.call_1"' in again.text
        assert 'id="f-grant.call_1"' in again.text
        assert 'value="*@acme.example"' in again.text
    assert client.get(hitl["poll_url"]).json()["status"] != "completed"


def test_a_call_of_high_risk_cannot_be_allowed_by_a_forged_form(
    server: RunningServer, client: httpx.Client, hitl: dict[str, Any]
) -> None:
    forged = {name.replace("grant.1", "grant.2"): value for name, value in ALLOWING.items()}
    with server.page(hitl) as page:
        page.post("respond", forged)
    poll = client.get(hitl["poll_url"]).json()
    assert "grants" not in poll["result"]["data"]


def test_a_button_in_a_chat_cannot_allow_anything(server: RunningServer, client: httpx.Client) -> None:
    context = {"tool_calls": [CALL], "agent": "mailer"}
    inline = ["approve", "reject"]
    hitl = server.open(client, type="approval", prompt="Send?", context=context, inline_actions=inline)
    patterns = {"to": {"exact": "ada@acme.example"}, "copies": {"exact": 1}}
    asked = {"call_id": "call_1", "patterns": patterns, "uses": 5, "for": "1h"}
    refused = server.press(hitl, "approve", data={"grants": [asked]})
    assert (refused.status_code, refused.json()["error"]) == (400, "invalid_submission")
    assert server.press(hitl, "approve").status_code == 200
