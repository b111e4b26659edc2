"""The inbox in a real browser: sign in, find what waits, decide it, come back; with scripts and without."""

from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest
from playwright.sync_api import Browser, Page, expect

from placet.desk.api_keys import revoke_key
from placet.reviews.registry import REVIEW_TYPES
from tests.browser.test_demo_in_browser import approve, confirm, escalate, fill_in, select
from tests.browser.visiting import BOTH, press, visiting
from tests.pages.checks import NARROW, OVERFLOWS, PHONE, SMALL_TARGETS, until, violations
from tests.server.running import RunningServer, running

MOST_BYTES = 60_000
WAITING, SIGN_IN = "Waiting for a decision", "Sign in to the inbox"


@pytest.fixture(scope="module")
def key(server: RunningServer) -> str:
    return server.create_key("ada", "inbox:all")


@pytest.fixture
def empty(tmp_path: Any) -> Iterator[RunningServer]:
    """A server of this test's own, on which nothing waits."""
    with running(tmp_path, present=True) as server:
        yield server


def sign_in(page: Page, server: RunningServer, key: str) -> None:
    page.goto(f"{server.url}/inbox")
    page.get_by_label("Your key").fill(key)
    press(page, "Sign in")
    expect(page.get_by_role("heading", level=1)).to_have_text(WAITING)


def go_to(page: Page, prompt: str) -> None:
    page.get_by_role("button", name=prompt).first.click()
    expect(page.get_by_role("heading", level=1)).to_have_text(prompt)


DECISIONS: dict[str, Callable[[Page], str]] = {
    "approval": approve,
    "selection": select,
    "input": fill_in,
    "confirmation": confirm,
    "escalation": escalate,
}


@BOTH
def test_a_person_signs_in_decides_and_comes_back(
    page: Page, server: RunningServer, agent: httpx.Client, key: str, scripts: bool
) -> None:
    prompt = f"Shall the shop {'open' if scripts else 'close'} on Sunday?"
    hitl = server.open(agent, prompt=prompt)
    sign_in(page, server, key)
    assert page.url == f"{server.url}/inbox"
    go_to(page, prompt)
    assert page.url == f"{server.url}/review/{hitl['case_id']}"
    press(page, "Confirm")
    expect(page.get_by_text("Answered by ada.")).to_be_visible()
    assert agent.get(hitl["poll_url"]).json()["responded_by"] == {"name": "ada"}
    page.get_by_role("link", name="Back to the inbox").click()
    expect(page.get_by_role("heading", level=1)).to_have_text(WAITING)
    expect(page.get_by_role("button", name=prompt)).to_have_count(0)
    page.get_by_role("link", name="Recently decided").click()
    expect(page.get_by_role("button", name=prompt)).to_contain_text("Confirmed")
    press(page, "Sign out")
    expect(page.get_by_role("heading", level=1)).to_have_text(SIGN_IN)


@pytest.mark.parametrize("js", [True, False], ids=["with scripts", "without scripts"])
def test_signing_out_ends_every_page_that_is_open(
    browser: Browser, server: RunningServer, agent: httpx.Client, key: str, js: bool
) -> None:
    prompt = f"Is this still open, {js}?"
    hitl = server.open(agent, prompt=prompt)
    with visiting(browser, java_script_enabled=js) as page:
        sign_in(page, server, key)
        go_to(page, prompt)
        page.get_by_role("link", name="Back to the inbox").click()
        press(page, "Sign out")
        expect(page.get_by_role("heading", level=1)).to_have_text(SIGN_IN)
        page.goto(f"{server.url}/review/{hitl['case_id']}")
        expect(page.get_by_role("heading", level=1)).to_have_text("Please sign in again")
        page.get_by_role("link", name="Back to the inbox").click()
        expect(page.get_by_role("heading", level=1)).to_have_text(SIGN_IN)


@pytest.mark.parametrize("type", DECISIONS)
def test_every_type_is_answered_on_a_phone(
    browser: Browser, server: RunningServer, agent: httpx.Client, key: str, type: str
) -> None:
    hitl = server.open(agent, **REVIEW_TYPES[type].example())
    with visiting(browser, has_touch=True, is_mobile=True) as page:
        sign_in(page, server, key)
        page.goto(f"{server.url}/inbox?type={type}")
        go_to(page, hitl["prompt"])
        action = DECISIONS[type](page)
        expect(page.get_by_text("It cannot be changed any more.")).to_be_visible()
    assert agent.get(hitl["poll_url"]).json()["result"]["action"] == action


def test_a_wrong_key_is_refused_beside_its_field(browser: Browser, server: RunningServer) -> None:
    with visiting(browser) as page:
        page.goto(f"{server.url}/inbox")
        page.get_by_label("Your key").fill("placet_nonsense")
        press(page, "Sign in")
        field = page.get_by_label("Your key")
        expect(page.get_by_role("alert")).to_contain_text("This key is not known here")
        expect(field).to_be_focused()
        expect(field).to_have_value("")
        expect(field).to_have_attribute("aria-invalid", "true")


@BOTH
def test_questions_are_found_by_type_and_words(
    page: Page, server: RunningServer, agent: httpx.Client, key: str
) -> None:
    server.open(agent, prompt="Paint the zebra crossing?")
    sign_in(page, server, key)
    page.get_by_text("Find a question").click()
    page.get_by_label("Words").fill("zebra")
    page.get_by_label("Kind").select_option("Confirmation")
    press(page, "Show")
    found = page.locator(".case-links button")
    assert {"zebra" in text for text in found.all_inner_texts()} == {True}
    expect(page.get_by_label("Words")).to_have_value("zebra")
    page.get_by_role("link", name="Show all").click()
    expect(page).to_have_url(f"{server.url}/inbox")


def test_what_comes_and_goes_shows_without_a_reload(browser: Browser, empty: RunningServer) -> None:
    look = "document.dispatchEvent(new Event('visibilitychange'))"
    with empty.client(empty.api_key) as agent, visiting(browser) as page:
        sign_in(page, empty, empty.create_key("ada", "inbox:all"))
        expect(page.get_by_role("heading", name="Nothing waits for you")).to_be_visible()
        until(page, "'enhanced' in document.documentElement.dataset")
        hitl = empty.open(agent, prompt="Is it new?", timeout="2h")
        page.evaluate(look)
        expect(page.get_by_role("button", name="Is it new?")).to_be_visible()
        expect(page.get_by_role("button", name="Is it new?")).to_contain_text("in 2 hours")
        expect(page.locator("[data-told]")).to_have_text("The list has changed.")
        agent.post(f"/v1/reviews/{hitl['case_id']}/cancel")
        page.evaluate(look)
        expect(page.get_by_role("heading", name="Nothing waits for you")).to_be_visible()


def test_a_key_that_is_revoked_closes_the_list_by_itself(browser: Browser, empty: RunningServer) -> None:
    with visiting(browser) as page:
        sign_in(page, empty, empty.create_key("ada", "inbox"))
        until(page, "'enhanced' in document.documentElement.dataset")
        keys = empty.run(empty.parts.store.list_api_keys())
        for one in keys:
            empty.run(revoke_key(empty.parts.store, one.id, empty.clock()))
        page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
        expect(page.get_by_role("heading", level=1)).to_have_text(SIGN_IN)


def test_a_link_on_another_site_leads_a_signed_in_person_to_their_list(
    browser: Browser, server: RunningServer, key: str
) -> None:
    with visiting(browser) as page:
        sign_in(page, server, key)
        elsewhere = server.url.replace("127.0.0.1", "localhost")
        link = f'<!doctype html><title>elsewhere</title><a href="{server.url}/inbox">Inbox</a>'
        page.route(f"{elsewhere}/elsewhere", lambda route: route.fulfill(body=link, content_type="text/html"))
        page.goto(f"{elsewhere}/elsewhere")
        page.get_by_role("link", name="Inbox").click()
        expect(page.get_by_role("heading", level=1)).to_have_text(WAITING)


def test_a_page_on_another_site_cannot_post_here(
    browser: Browser, server: RunningServer, agent: httpx.Client, key: str
) -> None:
    hitl = server.open(agent, prompt="Is this forged?")
    form = (
        f'<!doctype html><title>elsewhere</title><form method="post" action="{server.url}/inbox/open">'
        f'<input name="case" value="{hitl["case_id"]}"><button>Win</button></form>'
    )
    with visiting(browser) as page:
        sign_in(page, server, key)
        elsewhere = server.url.replace("127.0.0.1", "localhost")
        page.route(f"{elsewhere}/elsewhere", lambda route: route.fulfill(body=form, content_type="text/html"))
        page.goto(f"{elsewhere}/elsewhere")
        press(page, "Win")
        expect(page.get_by_role("heading", level=1)).to_have_text("Please sign in again")
    assert agent.get(hitl["poll_url"]).json()["status"] == "pending"


@pytest.mark.parametrize("language", ["en-GB", "ar"])
def test_the_list_is_accessible_narrow_and_light(
    browser: Browser, server: RunningServer, agent: httpx.Client, key: str, language: str
) -> None:
    for _ in range(30):
        server.open(agent)
    with visiting(browser, NARROW, locale=language) as page:
        page.goto(f"{server.url}/inbox")
        page.locator("#f-key").fill(key)
        page.locator("button.yes").click()
        page.wait_for_selector("html[data-enhanced] .case-links", state="attached")
        assert page.locator("html").get_attribute("dir") == ("rtl" if language == "ar" else "ltr")
        assert violations(page) == []
        assert not page.evaluate(OVERFLOWS)
        page.set_viewport_size(PHONE)
        assert page.evaluate(SMALL_TARGETS) == []
        page.emulate_media(color_scheme="dark", reduced_motion="reduce")
        assert violations(page) == []
        page.context.clear_cookies(name="placet_style")
        page.reload()
        page.wait_for_selector("html[data-enhanced]", state="attached")
        sizes = page.evaluate(
            """() => ["navigation", "resource"].flatMap(sort => performance.getEntriesByType(sort))
              .map(one => one.encodedBodySize)"""
        )
        assert len(sizes) > 2
        assert sum(sizes) < MOST_BYTES
