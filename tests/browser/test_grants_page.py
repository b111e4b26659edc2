"""Allowing more calls like one, in a real browser: seen, widened, corrected, and ended again."""

from typing import Any

import httpx
import pytest
from playwright.sync_api import Page, expect

from tests.browser.visiting import BOTH, press
from tests.pages.checks import violations
from tests.server.running import RunningServer

HOSTILE = '"><img src=x onerror="window.pwned=1">\u202e'
CALL: dict[str, Any] = {
    "id": "call_1",
    "name": "send_email",
    "arguments": {"to": "ada@acme.example", "copies": 2, "urgent": False, HOSTILE: HOSTILE},
    "allowed_decisions": ["approve", "edit", "reject"],
    "high_risk": False,
}
RISKY = {**CALL, "id": "call_2", "name": "drop_table", "high_risk": True}


@pytest.fixture
def hitl(server: RunningServer, agent: httpx.Client) -> dict[str, Any]:
    context = {"tool_calls": [CALL, RISKY], "agent": "mailer"}
    return server.open(agent, type="approval", prompt="Send it?", context=context)


@BOTH
def test_a_person_allows_more_calls_corrects_a_slip_and_ends_it(
    agent: httpx.Client, page: Page, scripts: bool, hitl: dict[str, Any]
) -> None:
    page.goto(hitl["review_url"])
    allow = page.get_by_label("Allow more calls like this one without asking me")
    expect(allow).to_have_count(1)
    expect(allow).to_be_hidden()
    page.get_by_label("Decide each call on its own").check()
    for call in page.get_by_role("radiogroup").all():
        call.get_by_label("Approve", exact=True).check()
    expect(allow).not_to_be_checked()
    expect(page.get_by_label("How many calls")).to_be_hidden()
    allow.check()
    expect(page.locator(".grant").get_by_label("To")).to_have_value("ada@acme.example")
    page.locator(".grant").get_by_label("To").fill("*@acme.example")
    page.locator(".grant").get_by_label("Copies").fill("3")
    page.get_by_label("How many calls").fill("0")
    page.get_by_label("For how long").select_option("8h")
    assert not scripts or violations(page) == []
    press(page, "Send my decisions")

    expect(page.locator(".grant .problem")).to_contain_text("Allow it between 1 and")
    page.get_by_role("link", name="1. send_email").click()
    expect(page.locator(".grant").get_by_label("To")).to_have_value("*@acme.example")
    assert not scripts or violations(page) == []
    page.get_by_label("How many calls").fill("7")
    press(page, "Send my decisions")

    expect(page.get_by_text("7 calls left")).to_be_visible()
    (grant,) = [one for one in agent.get("/v1/grants").json()["grants"] if one["case_id"] == hitl["case_id"]]
    assert grant["patterns"] == {
        "to": {"glob": "*@acme.example"},
        "copies": {"from": 0, "to": 3},
        "urgent": {"exact": False},
        HOSTILE: {"exact": HOSTILE},
    }
    assert not scripts or violations(page) == []
    press(page, "End this now")
    expect(page.get_by_text("Ended. Every further call is asked about.")).to_be_visible()
    assert agent.get(f"/v1/grants/{grant['id']}").json()["state"] == "revoked"
    assert not scripts or page.evaluate("window.pwned === undefined")


@BOTH
def test_what_was_ticked_beside_a_call_that_is_rejected_allows_nothing(
    agent: httpx.Client, page: Page, hitl: dict[str, Any]
) -> None:
    page.goto(hitl["review_url"])
    page.get_by_label("Decide each call on its own").check()
    first, second = page.get_by_role("radiogroup").all()
    first.get_by_label("Approve", exact=True).check()
    page.get_by_label("Allow more calls like this one without asking me").check()
    first.get_by_label("Reject", exact=True).check()
    second.get_by_label("Reject", exact=True).check()
    press(page, "Send my decisions")
    expect(page.get_by_role("heading", level=1)).to_have_text("Rejected")
    assert "grants" not in agent.get(hitl["poll_url"]).json()["result"]["data"]


@BOTH
def test_nothing_is_allowed_that_the_page_does_not_show(
    server: RunningServer, agent: httpx.Client, page: Page, hitl: dict[str, Any]
) -> None:
    with server.page(hitl) as other:  # somebody else with the link filled this in, and decided nothing
        typed = {"grant.1.on": "yes", "grant.1.like.1": "**", "grant.1.uses": "90", "grant.1.for": "7d"}
        assert other.post("draft", typed).response.status_code == 200
    page.goto(hitl["review_url"])
    allow = page.get_by_label("Allow more calls like this one without asking me")
    expect(allow).to_be_hidden()
    press(page, "Approve all")
    expect(page.get_by_role("alert").first).to_contain_text("Decide about this call")
    assert agent.get(hitl["poll_url"]).json()["status"] != "completed"
    page.get_by_label("Decide each call on its own").check()
    page.get_by_role("radiogroup").first.get_by_label("Approve", exact=True).check()
    expect(allow).to_be_checked()
    allow.uncheck()
    page.get_by_label("Decide each call on its own").uncheck()
    press(page, "Approve all")
    expect(page.get_by_text("This question is answered", exact=True)).to_be_visible()
    assert "grants" not in agent.get(hitl["poll_url"]).json()["result"]["data"]
