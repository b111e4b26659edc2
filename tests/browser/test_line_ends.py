"""Browsers change every line end on its way through a form: what a person decides stays what they saw."""

from typing import Any

import httpx
import pytest
from playwright.sync_api import Page, expect

from tests.browser.visiting import BOTH, press
from tests.server.running import RunningServer

FIRST, SECOND = "Pay 10 €,\nand no more", "Pay 10,000 €,\r\nand no more"


def decided(agent: httpx.Client, hitl: dict[str, Any], page: Page) -> dict[str, Any]:
    """The data of the answer, once the page tells of it."""
    expect(page.get_by_text("This question is answered", exact=True)).to_be_visible()
    found: dict[str, Any] = agent.get(hitl["poll_url"]).json()["result"]["data"]
    return found


@BOTH
@pytest.mark.parametrize("chosen", [FIRST, SECOND], ids=["one sign", "two signs"])
def test_an_option_of_several_lines_is_the_one_that_was_chosen(
    server: RunningServer, agent: httpx.Client, page: Page, chosen: str
) -> None:
    hitl = server.open(agent, type="selection", context={"options": [FIRST, SECOND], "multiple": False})
    page.goto(hitl["review_url"])
    page.get_by_label(chosen.replace("\r\n", "\n")).check()
    press(page, "Send my choice")
    assert decided(agent, hitl, page) == {"selected": [chosen]}


@BOTH
def test_items_of_several_lines_are_the_ones_that_were_ticked(
    server: RunningServer, agent: httpx.Client, page: Page
) -> None:
    hitl = server.open(agent, context={"items": [FIRST, SECOND], "allow_partial": True})
    page.goto(hitl["review_url"])
    page.get_by_label("Pay 10 €").check()
    press(page, "Confirm")
    assert decided(agent, hitl, page) == {"confirmed_items": [FIRST]}


@BOTH
def test_an_answer_of_several_lines_is_the_one_that_was_chosen(
    server: RunningServer, agent: httpx.Client, page: Page
) -> None:
    options = [{"value": FIRST, "label": "Little"}, {"value": SECOND, "label": "Much"}]
    fields = [
        {"key": "pay", "label": "How much?", "type": "select", "options": options, "required": True},
        {"key": "more", "label": "What else?", "type": "multiselect", "options": options},
    ]
    hitl = server.open(agent, type="input", context={"form": {"fields": fields}})
    page.goto(hitl["review_url"])
    page.get_by_role("radio", name="Little").check()
    page.get_by_role("checkbox", name="Much").check()
    press(page, "Send my answers")
    assert decided(agent, hitl, page) == {"pay": FIRST, "more": [SECOND]}


@pytest.mark.parametrize(
    "question",
    [
        {"type": "selection", "context": {"options": [{"id": "a\nb"}, {"id": "a\r\nb", "title": "Other"}]}},
        {"type": "confirmation", "context": {"items": [{"id": "a\rb"}, {"id": "a\nb", "title": "Other"}]}},
        {
            "type": "input",
            "context": {
                "form": {
                    "fields": [
                        {
                            "key": "k",
                            "label": "K",
                            "type": "select",
                            "options": [{"value": "a\nb", "label": "A"}, {"value": "a\r\nb", "label": "B"}],
                        }
                    ]
                }
            },
        },
    ],
    ids=lambda question: question["type"],
)
def test_what_a_form_cannot_tell_apart_is_not_asked(agent: httpx.Client, question: dict[str, Any]) -> None:
    response = agent.post("/v1/cases", json={"prompt": "Which one?", **question})
    assert response.status_code == 400
    assert "repeats the id" in response.text or "same value" in response.text


@BOTH
def test_a_parameter_that_nobody_touched_stays_as_it_was(
    server: RunningServer, agent: httpx.Client, page: Page
) -> None:
    params = {"command": "print\rnow", "to\nwhom": "Ada", "to\r\nwhom": "Eve", "copies": 1}
    hitl = server.open(agent, type="escalation", context={"error": {"message": "Jam"}, "params": params})
    page.goto(hitl["review_url"])
    page.get_by_label("Copies").fill("2")
    expect(page.locator("form.answer").get_by_role("textbox")).to_have_count(3)
    press(page, "Try again")
    assert decided(agent, hitl, page) == {"modified_params": {"copies": 2}}


@BOTH
def test_an_argument_that_nobody_touched_stays_as_it_was(
    server: RunningServer, agent: httpx.Client, page: Page
) -> None:
    arguments = {"command": "print\rnow", "pages": ["1\r2", "3"], "copies": 1}
    call = {"id": "c1", "name": "printer", "arguments": arguments}
    hitl = server.open(agent, type="approval", context={"tool_calls": [call]})
    page.goto(hitl["review_url"])
    page.get_by_text("Change it first").click()
    page.locator("#edit-1").get_by_label("Copies").fill("2")
    press(page, "Approve with changes")
    decision = decided(agent, hitl, page)["decisions"]["c1"]
    assert decision["arguments"] == {**arguments, "copies": 2}
