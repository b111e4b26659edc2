"""People who change their mind, go on typing or paste while an answer is under way, or may be."""

from datetime import timedelta
from typing import Any

import httpx
import pytest
from playwright.sync_api import Browser, Page, Route, expect

from tests.browser.visiting import press, visiting
from tests.pages.checks import until
from tests.server.running import RunningServer
from tests.waiting import eventually

MAY_BE_RECORDED = "This may not have been recorded"


def visit(page: Page, url: str) -> None:
    page.goto(url)
    page.locator("html[data-enhanced]").wait_for()


def poll(agent: httpx.Client, hitl: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = agent.get(hitl["poll_url"]).json()
    return found


def saved(server: RunningServer, hitl: dict[str, Any]) -> dict[str, Any]:
    draft = server.run(server.parts.desk.store.get_draft(hitl["case_id"]))
    return dict(draft.values) if draft else {}


def held(page: Page, address: str) -> list[Route]:
    """The first request to it, which leaves and gets no reply until the test lets it go."""
    waiting: list[Route] = []

    def hold(route: Route) -> None:
        if waiting:
            route.continue_()
        else:
            waiting.append(route)

    page.route(address, hold)
    return waiting


def test_only_the_last_choice_is_sent_when_the_network_is_back(
    browser: Browser, server: RunningServer, agent: httpx.Client
) -> None:
    hitl = server.open(agent, only_reviewer="Ada")
    with visiting(browser) as page:
        visit(page, hitl["review_url"])
        page.context.set_offline(True)
        press(page, "Confirm")
        expect(page.locator("[data-live]")).to_contain_text("Not recorded")
        page.get_by_text("I won’t decide this").click()
        press(page, "Hand the question back")
        expect(page.locator("[data-live]")).to_contain_text("Not recorded")
        page.context.set_offline(False)
        expect(page.locator(".outcome h1")).to_have_text("The question was withdrawn")
    assert poll(agent, hitl)["status"] == "cancelled"


def test_what_is_typed_during_a_try_that_fails_is_not_left_out_of_the_next(
    browser: Browser, server: RunningServer, agent: httpx.Client
) -> None:
    hitl = server.open(agent)
    with visiting(browser) as page:
        visit(page, hitl["review_url"])
        waiting = held(page, "**/respond")
        press(page, "Confirm")
        expect(page.locator("[data-live]")).to_contain_text("Sending")
        page.get_by_label("Note (optional)").fill("But not the roses")
        waiting[0].abort()
        expect(page.locator("[data-live]")).to_contain_text("Not sent again")
        press(page, "Confirm")
        expect(page.locator(".outcome h1")).to_have_text("Confirmed")
    assert poll(agent, hitl)["result"]["data"] == {"note": "But not the roses"}


def test_what_is_typed_while_a_refusal_is_on_its_way_stays(
    browser: Browser, server: RunningServer, agent: httpx.Client
) -> None:
    hitl = server.open(agent, context={"confirm_word": "delete"})
    with visiting(browser) as page:
        visit(page, hitl["review_url"])
        waiting = held(page, "**/respond")
        press(page, "Confirm")
        expect(page.locator("[data-live]")).to_contain_text("Sending")
        page.get_by_label("To confirm, type").fill("delete")
        page.get_by_label("Note (optional)").fill("All of it")
        page.get_by_label("Note (optional)").blur()
        waiting[0].continue_()
        expect(page.get_by_role("alert").first).to_contain_text("Nothing was recorded yet")
        expect(page.get_by_label("To confirm, type")).to_have_value("delete")
        expect(page.get_by_label("Note (optional)")).to_have_value("All of it")
        press(page, "Confirm")
        expect(page.locator(".outcome h1")).to_have_text("Confirmed")
    assert poll(agent, hitl)["result"]["data"]["note"] == "All of it"


def test_what_is_typed_while_the_next_step_is_fetched_is_kept(
    browser: Browser, server: RunningServer, agent: httpx.Client
) -> None:
    steps = [
        {"title": key.upper(), "fields": [{"key": key, "label": key, "type": "text"}]}
        for key in ("town", "street")
    ]
    hitl = server.open(agent, type="input", context={"form": {"steps": steps}})
    with visiting(browser) as page:
        visit(page, hitl["review_url"])
        waiting = held(page, "**/respond")
        page.get_by_label("town").fill("Gent")
        press(page, "Continue")
        expect(page.locator("[data-live]")).to_contain_text("Sending")
        page.get_by_label("town").fill("Ghent")
        waiting[0].continue_()
        expect(page.locator(".steps")).to_have_text("Step 2 of 3")
        eventually(lambda: saved(server, hitl).get("town") == "Ghent")
        press(page, "Continue")
        expect(page.locator(".facts").first).to_contain_text("Ghent")


def test_an_answer_of_ones_own_is_never_called_somebody_elses(
    browser: Browser, server: RunningServer, agent: httpx.Client
) -> None:
    """Its reply was lost, and the news that the question is answered comes before it was asked for again."""
    hitl = server.open(agent)
    with visiting(browser) as page:
        news = held(page, "**/events")
        visit(page, hitl["review_url"])

        def lose(route: Route) -> None:
            page.unroute("**/respond")
            route.fetch(max_redirects=0)
            route.abort("connectionreset")

        page.route("**/respond", lose)
        press(page, "Confirm")
        expect(page.locator("[data-live]")).to_contain_text(MAY_BE_RECORDED)
        news[0].continue_()
        expect(page.locator(".outcome h1")).to_have_text("Confirmed")


@pytest.mark.parametrize("more", [{"type": "text"}, {"type": "textarea"}])
def test_a_secret_that_is_looked_at_while_it_is_typed_stays_out_of_the_browsers_storage(
    browser: Browser, server: RunningServer, agent: httpx.Client, more: dict[str, Any]
) -> None:
    fields = [
        {"key": "name", "label": "Your name", "type": "text"},
        {"key": "pin", "label": "Your pin", "sensitive": True, **more},
    ]
    hitl = server.open(agent, type="input", context={"form": {"fields": fields}})
    with visiting(browser, shared=False) as page:
        page.route("**/draft", lambda route: route.abort())
        visit(page, hitl["review_url"])
        page.get_by_role("button", name="Show Your pin").click()
        page.locator("[name='field.pin']").fill("47-11-63")
        page.get_by_label("Your name").fill("Ada")
        until(page, "JSON.stringify(sessionStorage).includes('Ada')")
        assert "47-11-63" not in page.evaluate("JSON.stringify(sessionStorage)")


def test_a_page_that_comes_back_in_another_language_reads_in_its_direction(
    browser: Browser, server: RunningServer, agent: httpx.Client
) -> None:
    """The language was changed in another tab meanwhile."""
    hitl, other = (server.open(agent, context={"confirm_word": "delete"}) for _ in range(2))
    with visiting(browser) as page:
        visit(page, hitl["review_url"])
        second = page.context.new_page()
        second.goto(other["review_url"])
        press(second, "العربية")
        expect(second.locator("html")).to_have_attribute("dir", "rtl")
        press(page, "Confirm")
        expect(page.get_by_role("alert").first).to_be_focused()
        expect(page.locator("html")).to_have_attribute("dir", "rtl")
        expect(page.locator("html")).to_have_attribute("lang", "ar")
        expect(page.locator("html")).to_have_attribute("data-locale", "ar-u-nu-latn")


def test_a_page_that_stays_open_over_midnight_says_today_of_what_was_tomorrow(
    browser: Browser, server: RunningServer, agent: httpx.Client
) -> None:
    hitl = server.open(agent, timeout="30h")
    end = server.clock() + timedelta(hours=30)
    with visiting(browser, timezone_id="UTC", locale="en-GB", shared=False) as page:
        midnight = end.replace(hour=0, minute=0, second=0, microsecond=0)
        page.clock.install(time=midnight - timedelta(minutes=5))
        visit(page, hitl["review_url"])
        until_when = page.locator("[data-deadline] [data-local]")
        expect(until_when).to_contain_text("tomorrow")
        page.clock.fast_forward("10:00")
        expect(until_when).to_contain_text("today")


def test_text_pasted_from_a_terminal_is_sent_without_what_nobody_sees_in_it(
    browser: Browser, server: RunningServer, agent: httpx.Client
) -> None:
    hitl = server.open(agent)
    with visiting(browser) as page:
        visit(page, hitl["review_url"])
        page.get_by_label("Note (optional)").fill("It says \x1b[31mdone\x1b[0m \x00\nfür 👍🏽")
        press(page, "Confirm")
        expect(page.locator(".outcome h1")).to_have_text("Confirmed")
    assert poll(agent, hitl)["result"]["data"] == {"note": "It says [31mdone[0m \nfür 👍🏽"}
