"""Passing a question on, and not deciding it: nothing that was typed beside them, or for them, is lost."""

from typing import Any

import httpx
from playwright.sync_api import Browser, Page, expect

from placet.desk.review_desk import MAX_LINKS
from tests.browser.visiting import BOTH, press, visiting
from tests.server.running import RunningServer

NOTE, HANDED, REASON = "Note (optional)", "Who gets it, and why (optional)", "Reason (optional)"


def visit(page: Page, hitl: dict[str, Any], *, scripts: bool) -> None:
    page.goto(hitl["review_url"])
    if scripts:
        page.locator("html[data-enhanced]").wait_for()


def unfold(page: Page, title: str) -> None:
    page.locator("summary", has_text=title).click()


def poll(agent: httpx.Client, hitl: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = agent.get(hitl["poll_url"]).json()
    return found


@BOTH
def test_what_was_typed_for_the_answer_is_still_there_after_a_link_was_made(
    server: RunningServer, agent: httpx.Client, page: Page, scripts: bool
) -> None:
    items = {"items": ["The cellar", "The roof"]}
    hitl = server.open(agent, context=items)
    visit(page, hitl, scripts=scripts)
    page.get_by_label("The roof").check()
    page.get_by_label(NOTE).fill("Not the cellar")
    unfold(page, "Pass on to a colleague")
    page.get_by_label(HANDED).fill("Ben knows the house")
    press(page, "Make a link")
    expect(page.get_by_role("heading", name="A link for your colleague")).to_be_visible()
    page.get_by_role("link", name="Back to the question").click()
    expect(page.get_by_label(NOTE)).to_have_value("Not the cellar")
    expect(page.get_by_label("The roof")).to_be_checked()
    events = server.run(server.parts.store.list_events(hitl["case_id"]))
    assert b"Ben knows the house" in b"".join(event.data or b"" for event in events)


@BOTH
def test_a_question_that_was_passed_on_too_often_says_so_where_it_was_tried(
    server: RunningServer, agent: httpx.Client, page: Page, scripts: bool
) -> None:
    hitl = server.open(agent)
    for _ in range(MAX_LINKS - 1):
        server.run(server.parts.desk.pass_on(hitl["case_id"], actor="link:a"))
    visit(page, hitl, scripts=scripts)
    page.get_by_label(NOTE).fill("Only the roses")
    unfold(page, "Pass on to a colleague")
    page.get_by_label(HANDED).fill("Ben knows better")
    press(page, "Make a link")
    alert = page.get_by_role("alert").first
    expect(alert).to_contain_text("Pass on to a colleague This question has been passed on 49 times")
    alert.get_by_role("link").click()
    expect(page.get_by_label(HANDED)).to_be_focused()
    expect(page.get_by_label(HANDED)).to_have_value("Ben knows better")
    expect(page.get_by_label(NOTE)).to_have_value("Only the roses")
    press(page, "Confirm")
    expect(page.get_by_text("This question is answered", exact=True)).to_be_visible()
    assert poll(agent, hitl)["result"]["data"] == {"note": "Only the roses"}


@BOTH
def test_what_was_typed_beside_an_answer_that_does_not_fit_is_still_there(
    server: RunningServer, agent: httpx.Client, page: Page, scripts: bool
) -> None:
    hitl = server.open(agent, context={"confirm_word": "delete"}, only_reviewer="Ada")
    visit(page, hitl, scripts=scripts)
    unfold(page, "Pass on to a colleague")
    page.get_by_label(HANDED).fill("Ben knows better")
    unfold(page, "I won’t decide this")
    page.get_by_label(REASON).fill("It is not mine")
    press(page, "Confirm")
    expect(page.get_by_role("alert").first).to_contain_text("Nothing was recorded yet")
    expect(page.get_by_label(HANDED)).to_have_value("Ben knows better")
    expect(page.get_by_label(REASON)).to_have_value("It is not mine")
    expect(page.get_by_label(REASON)).to_be_visible()
    press(page, "Hand the question back")
    expect(page.get_by_role("heading", name="The question was withdrawn")).to_be_visible()
    assert poll(agent, hitl)["reason"] == "It is not mine"


@BOTH
def test_the_reason_for_not_deciding_is_not_the_one_for_the_answer(
    server: RunningServer, agent: httpx.Client, page: Page, scripts: bool
) -> None:
    draft = {"type": "escalation", "context": {"error": {"message": "No paper"}}}
    hitl = server.open(agent, **draft, only_reviewer="Ada")
    visit(page, hitl, scripts=scripts)
    page.locator("[name=reason]").fill("There is more in the cellar")
    unfold(page, "I won’t decide this")
    press(page, "Hand the question back")
    expect(page.get_by_role("heading", name="The question was withdrawn")).to_be_visible()
    assert "reason" not in poll(agent, hitl)


def test_a_reason_that_was_changed_after_a_failure_is_not_sent_behind_ones_back(
    browser: Browser, server: RunningServer, agent: httpx.Client
) -> None:
    hitl = server.open(agent, only_reviewer="Ada")
    with visiting(browser) as page:
        visit(page, hitl, scripts=True)
        unfold(page, "I won’t decide this")
        ours = page.get_by_role("button", name="This is no longer needed.")
        expect(ours).to_have_css("font-family", page.evaluate("getComputedStyle(document.body).fontFamily"))
        page.get_by_label(REASON).fill("It is n")
        page.route("**/hand-back", lambda route: route.fulfill(status=502, body="Bad gateway"))
        press(page, "Hand the question back")
        live = page.locator("[data-live]")
        expect(live).to_contain_text("This may not have been recorded")
        page.get_by_label(REASON).fill("It is not mine")
        expect(live).to_contain_text("Not sent again")
        page.unroute("**/hand-back")
        press(page, "Hand the question back")
        expect(page.get_by_role("heading", name="The question was withdrawn")).to_be_visible()
    assert poll(agent, hitl)["reason"] == "It is not mine"
