"""On a page that writes 12.500 for twelve thousand five hundred, nobody's 15.000 is taken for fifteen."""

from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.visiting import visiting
from tests.server.running import RunningServer


@pytest.fixture(params=[True, False], ids=["with scripts", "without scripts"])
def german(browser: Browser, request: pytest.FixtureRequest) -> Iterator[Page]:
    with visiting(browser, java_script_enabled=request.param, locale="de") as page:
        yield page


def answered(agent: httpx.Client, hitl: dict[str, Any], page: Page) -> dict[str, Any]:
    expect(page.get_by_text("Diese Frage ist beantwortet", exact=True)).to_be_visible()
    found: dict[str, Any] = agent.get(hitl["poll_url"]).json()["result"]["data"]
    return found


def send(page: Page, name: str) -> None:
    page.locator(f".bar [name=action][value={name}]").click()


def test_thousands_in_a_form_are_asked_about(
    server: RunningServer, agent: httpx.Client, german: Page
) -> None:
    fields = [
        {"key": "budget", "label": "Budget", "type": "number", "required": True},
        {"key": "rate", "label": "Rate", "type": "number", "default": 3.125},
        {"key": "half", "label": "Half", "type": "number"},
    ]
    hitl = server.open(agent, type="input", context={"form": {"fields": fields}})
    german.goto(hitl["review_url"])
    german.get_by_label("Budget").fill("12.500")
    german.get_by_label("Half").fill("0.500")
    send(german, "submit")
    expect(german.get_by_role("alert").first).to_contain_text("Budget Schreiben Sie eine Zahl")
    expect(german.get_by_label("Budget")).to_have_value("12.500")
    german.get_by_label("Budget").fill("12500")
    send(german, "submit")
    assert answered(agent, hitl, german) == {"budget": 12500, "rate": 3.125, "half": 0.5}


def test_thousands_in_a_call_are_asked_about(
    server: RunningServer, agent: httpx.Client, german: Page
) -> None:
    call = {"id": "c1", "name": "transfer", "arguments": {"amount": 12500, "rates": [3.125, 2.5]}}
    hitl = server.open(agent, type="approval", context={"tool_calls": [call]})
    german.goto(hitl["review_url"])
    expect(german.locator(".call dl").first).to_contain_text("12.500")  # as the page itself writes it
    german.get_by_text("Vorher ändern").click()
    german.locator("[name='edit.1.amount']").fill("15.000")
    german.locator("[name='edit.1.rates']").fill("3.125\n1.500")
    german.locator("[name=action][value=x-edit]").click()
    expect(german.locator(".field.wrong")).to_have_count(2)
    german.locator("[name='edit.1.amount']").fill("15000")
    german.locator("[name='edit.1.rates']").fill("3.125\n1.5")
    german.locator("[name=action][value=x-edit]").click()
    decision = answered(agent, hitl, german)["decisions"]["c1"]
    assert decision["arguments"] == {"amount": 15000, "rates": [3.125, 1.5]}


def test_thousands_in_an_artifact_and_in_parameters_are_asked_about(
    server: RunningServer, agent: httpx.Client, german: Page
) -> None:
    hitl = server.open(agent, type="approval", context={"artifact": {"amount": 12500, "rate": 3.125}})
    german.goto(hitl["review_url"])
    german.locator("#f-edits > summary").click()
    german.locator("[name='edit.amount']").fill("15.000")
    send(german, "edit")
    expect(german.locator(".field.wrong [name='edit.amount']")).to_have_value("15.000")
    german.locator("[name='edit.amount']").fill("15000")
    send(german, "edit")
    assert answered(agent, hitl, german) == {"edits": {"amount": 15000}}

    params = {"amount": 12500, "rate": 3.125}
    hitl = server.open(agent, type="escalation", context={"error": {"message": "Jam"}, "params": params})
    german.goto(hitl["review_url"])
    german.locator("[name='param.amount']").fill("15.000")
    send(german, "retry")
    expect(german.locator(".field.wrong [name='param.amount']")).to_have_value("15.000")
    german.locator("[name='param.amount']").fill("15000")
    send(german, "retry")
    assert answered(agent, hitl, german) == {"modified_params": {"amount": 15000}}


def test_where_a_point_stands_before_decimals_it_is_read_so(
    server: RunningServer, agent: httpx.Client, browser: Browser
) -> None:
    fields = [{"key": "weight", "label": "Weight", "type": "number", "required": True}]
    hitl = server.open(agent, type="input", context={"form": {"fields": fields}})
    with visiting(browser) as page:
        page.goto(hitl["review_url"])
        page.get_by_label("Weight").fill("12.500")
        send(page, "submit")
        expect(page.get_by_text("This question is answered", exact=True)).to_be_visible()
    assert agent.get(hitl["poll_url"]).json()["result"]["data"] == {"weight": 12.5}
