"""Nobody sends a secret that somebody else saved after their page was drawn: it showed them an empty box."""

from typing import Any

import httpx
from playwright.sync_api import Browser, Page, expect

from tests.browser.visiting import visiting
from tests.server.running import RunningServer


def fields(**more: Any) -> list[dict[str, Any]]:
    account = {"key": "account", "label": "Account", "type": "text", "sensitive": True}
    return [account, {"key": "remark", "label": "Remark", "type": "text", **more}]


def plant(server: RunningServer, hitl: dict[str, Any], **typed: str) -> None:
    """Somebody else with the link saves something, as a page's script would."""
    with server.page(hitl) as other:
        assert other.post("draft", typed).response.status_code == 200


def result(agent: httpx.Client, hitl: dict[str, Any], page: Page) -> dict[str, Any]:
    expect(page.get_by_text("This question is answered", exact=True)).to_be_visible()
    found: dict[str, Any] = agent.get(hitl["poll_url"]).json()["result"]["data"]
    return found


def test_a_secret_planted_into_an_open_form_is_not_sent(
    browser: Browser, server: RunningServer, agent: httpx.Client
) -> None:
    for js in (True, False):
        hitl = server.open(agent, type="input", context={"form": {"fields": fields()}})
        with visiting(browser, java_script_enabled=js) as page:
            page.goto(hitl["review_url"])
            plant(server, hitl, **{"field.account": "Eve’s", "asked": "account"})
            page.get_by_label("Remark").fill("Thank you")
            page.get_by_role("button", name="Send my answers").click()
            assert result(agent, hitl, page) == {"remark": "Thank you"}


def test_a_secret_that_was_called_saved_is_sent(
    browser: Browser, server: RunningServer, agent: httpx.Client
) -> None:
    hitl = server.open(agent, type="input", context={"form": {"fields": fields()}})
    plant(server, hitl, **{"field.account": "Ada’s", "asked": "account"})
    with visiting(browser, java_script_enabled=False) as page:
        page.goto(hitl["review_url"])
        expect(page.get_by_text("Saved, and not shown again.")).to_be_visible()
        page.get_by_role("button", name="Send my answers").click()
        assert result(agent, hitl, page) == {"account": "Ada’s"}


def test_a_secret_planted_after_the_answers_were_checked_is_told(
    browser: Browser, server: RunningServer, agent: httpx.Client
) -> None:
    steps = [{"title": one["label"], "fields": [one]} for one in fields(required=True)]
    hitl = server.open(agent, type="input", context={"form": {"steps": steps}})
    with visiting(browser, java_script_enabled=False) as page:
        page.goto(hitl["review_url"])
        page.get_by_role("button", name="Continue").click()
        page.get_by_label("Remark").fill("Thank you")
        page.get_by_role("button", name="Continue").click()
        expect(page.get_by_text("left empty")).to_be_visible()
        plant(server, hitl, **{"field.account": "Eve’s", "asked": "account"})
        page.get_by_role("button", name="Send my answers").click()
        expect(page.get_by_role("alert").first).to_contain_text("changed elsewhere meanwhile")
        expect(page.get_by_text("left empty")).to_be_hidden()
        expect(page.get_by_text("entered")).to_be_visible()


def test_a_secret_planted_beside_a_call_is_not_run_with(
    browser: Browser, server: RunningServer, agent: httpx.Client
) -> None:
    schema = {
        "type": "object",
        "properties": {"amount": {"type": "number"}, "pin": {"type": "string", "writeOnly": True}},
    }
    call = {"id": "c1", "name": "pay", "arguments": {"amount": 5, "pin": "47-11"}, "schema": schema}
    hitl = server.open(agent, type="approval", context={"tool_calls": [call]})
    with visiting(browser, java_script_enabled=False) as page:
        page.goto(hitl["review_url"])
        plant(server, hitl, **{"decision.1": "edit", "edit.1.pin": "66-66", "edit.1.amount": "5"})
        page.get_by_text("Change it first").click()
        page.locator("[name='edit.1.amount']").fill("6")
        page.get_by_role("button", name="Approve with changes").click()
        decision = result(agent, hitl, page)["decisions"]["c1"]
        assert decision["arguments"] == {"amount": 6, "pin": "47-11"}
