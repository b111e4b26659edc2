"""A list that stays open in a browser: other tabs sign in, choose a language, and questions come and go."""

from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.test_inbox_in_browser import sign_in
from tests.browser.visiting import press, visiting
from tests.server.running import RunningServer, running

LOOK = "document.dispatchEvent(new Event('visibilitychange'))"


@pytest.fixture
def empty(tmp_path: Any) -> Iterator[RunningServer]:
    """A server of this test's own, on which nothing waits."""
    with running(tmp_path, present=True) as server:
        yield server


def ready(page: Page) -> None:
    expect(page.locator("html[data-enhanced]")).to_be_attached()


def test_a_list_in_another_tab_says_who_is_signed_in_now(browser: Browser, empty: RunningServer) -> None:
    with visiting(browser) as page:
        sign_in(page, empty, empty.create_key("ada", "inbox:all"))
        ready(page)
        other = page.context.new_page()
        other.goto(f"{empty.url}/inbox")
        press(other, "Sign out")
        sign_in(other, empty, empty.create_key("ben", "inbox:all"))
        page.evaluate(LOOK)
        expect(page.get_by_text("Signed in as ben")).to_be_visible()
        press(page, "Sign out")
        other.reload()
        expect(other.get_by_label("Your key")).to_be_visible()


def test_a_list_that_stays_open_does_not_choose_the_language_again(
    browser: Browser, empty: RunningServer
) -> None:
    with visiting(browser) as page:
        sign_in(page, empty, empty.create_key("ada", "inbox:all"))
        page.get_by_role("link", name="Deutsch").click()
        expect(page.locator("html")).to_have_attribute("lang", "de")
        ready(page)
        other = page.context.new_page()
        other.goto(f"{empty.url}/inbox?lang=fr")
        page.evaluate(LOOK)
        expect(page.locator("html")).to_have_attribute("lang", "fr")
        other.goto(f"{empty.url}/inbox")
        assert other.locator("html").get_attribute("lang") == "fr"


def test_a_keyboard_user_sees_new_cases_and_keeps_their_place(browser: Browser, empty: RunningServer) -> None:
    with empty.client(empty.api_key) as agent, visiting(browser) as page:
        empty.open(agent, prompt="Is it here?", timeout="2h")
        sign_in(page, empty, empty.create_key("ada", "inbox:all"))
        ready(page)
        page.get_by_role("button", name="Is it here?").focus()
        empty.open(agent, prompt="Is it new?", timeout="1h")
        page.evaluate(LOOK)
        expect(page.get_by_role("button", name="Is it new?")).to_be_visible()
        expect(page.get_by_role("button", name="Is it here?")).to_be_focused()
