"""The same page from right to left, in every language's own width, and on paper."""

from typing import Any

import httpx
import pytest
from playwright.sync_api import Browser, Page, expect

from tests.pages.checks import BROKEN_WORDS, DESK, PHONE
from tests.server.running import RunningServer

PROSE = "# A title\n\nWords that run from left to right."
# How far the text of an element starts from the left edge of the sheet that it lies on.
INDENT = "each => each.getBoundingClientRect().left - each.parentElement.getBoundingClientRect().left"
ARABIC_DIGITS = "() => /[\\u0660-\\u0669]/.test(document.body.innerText)"


def shown(browser: Browser, hitl: dict[str, Any], locale: str, **options: Any) -> Page:
    page = browser.new_context(locale=locale, **options).new_page()
    page.goto(hitl["review_url"])
    page.locator("html[data-enhanced]").wait_for()
    return page


def test_text_that_runs_against_the_page_starts_at_its_own_edge(
    browser: Browser, server: RunningServer, agent: httpx.Client
) -> None:
    context = {"artifact": PROSE, "format": "markdown", "note": "A first line.\nA second line."}
    hitl = server.open(agent, type="approval", context=context)
    page = shown(browser, hitl, "ar-EG", viewport=DESK)
    assert page.locator(".markdown").evaluate(INDENT) <= 17  # the padding of its sheet
    assert page.locator(".said .lines").last.evaluate(INDENT) <= 0
    page.context.close()


def test_scripts_write_the_digits_of_the_rest_of_the_page(
    browser: Browser, server: RunningServer, agent: httpx.Client
) -> None:
    hitl = server.open(agent, type="approval", context={"artifact": {"body": "One two three."}}, timeout="3h")
    page = shown(browser, hitl, "ar-EG", viewport=PHONE)
    expect(page.locator("[data-deadline]")).to_contain_text("3")
    page.locator("#f-edits > summary").click()
    page.locator("#f-edit-1").fill("One two four.")
    expect(page.locator("#f-edits .told")).to_contain_text("1")
    assert not page.evaluate(ARABIC_DIGITS)
    page.context.close()


@pytest.mark.parametrize("language", ["en", "de", "es", "fr"])
def test_no_action_is_named_by_half_a_word_on_a_phone(
    browser: Browser, server: RunningServer, agent: httpx.Client, language: str
) -> None:
    found = []
    for type, more in (("approval", {"artifact": "x"}), ("escalation", {"error": "It failed."})):
        page = shown(browser, server.open(agent, type=type, context=more), language, viewport=PHONE)
        found += page.evaluate(BROKEN_WORDS)
        page.context.close()
    assert found == []


def test_earlier_rounds_and_what_was_answered_are_printed(
    browser: Browser, server: RunningServer, agent: httpx.Client
) -> None:
    first = server.open(agent, type="approval", context={"artifact": {"body": "On Monday."}})
    with server.page(first) as form:
        form.post("respond", {"action": "edit", "feedback": "Rather Tuesday."})
    chain = {"previous_case_id": first["case_id"]}
    second = server.open(agent, type="approval", context={"artifact": {"body": "On Tuesday."}}, **chain)
    for hitl, told in ((first, ["Rather Tuesday."]), (second, ["Rather Tuesday.", "Monday"])):
        page = shown(browser, hitl, "en", viewport=DESK)
        page.locator("details[open]").evaluate_all("all => all.forEach(each => each.removeAttribute('open'))")
        page.emulate_media(media="print")
        for words in told:
            expect(page.get_by_text(words).first).to_be_visible()
        expect(page.get_by_text("Fingerprint")).to_be_hidden()
        page.context.close()


def test_calls_that_run_without_a_decision_are_printed(
    browser: Browser, server: RunningServer, agent: httpx.Client
) -> None:
    call = {"id": "c1", "name": "send_letter", "arguments": {"to": "Ada"}}
    along = {"id": "c2", "name": "archive", "arguments": {"folder": "Letters of May"}}
    hitl = server.open(agent, type="approval", context={"tool_calls": [call], "automatic": [along]})
    page = shown(browser, hitl, "en", viewport=DESK)
    page.emulate_media(media="print")
    expect(page.get_by_text("Letters of May")).to_be_visible()
    page.context.close()
