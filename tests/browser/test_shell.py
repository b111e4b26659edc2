"""The frame of every page in a real browser: the first sight, the meantime, bad networks, and the end."""

import re
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from playwright.sync_api import Browser, Page, Route, expect

from tests.browser.visiting import press, visiting
from tests.pages.checks import NARROW, PHONE, until, violations
from tests.server.running import RunningServer
from tests.waiting import eventually

LETTER = {
    "type": "approval",
    "prompt": "May this reply go out to a customer whose parcel is late?",
    "message": "A reply to a customer is ready and waits for your approval. " * 6,
    "context": {
        "artifact": {"to": "Jonas", "body": "Dear Jonas,\n" + "we are sorry. " * 200},
        "reversible": False,
    },
    "service": "Parcel Desk",
    "agent": "Support assistant",
}


def poll(agent: httpx.Client, hitl: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = agent.get(hitl["poll_url"]).json()
    return found


def visit(page: Page, url: str, *, js: bool = True) -> None:
    """Open a link, and wait for the scripts to have done what they do."""
    page.goto(url)
    if js:
        page.locator("html[data-enhanced]").wait_for()


# The first screen


@pytest.mark.parametrize("js", [True, False], ids=["with scripts", "without scripts"])
def test_the_first_screen_of_a_phone_holds_all_that_is_at_stake(
    browser: Browser, server: RunningServer, agent: httpx.Client, js: bool
) -> None:
    hitl = server.open(agent, **LETTER, default_action="reject", timeout="2h")
    with visiting(browser, java_script_enabled=js, timezone_id="Asia/Kolkata") as page:
        visit(page, hitl["review_url"], js=js)
        bar = page.locator(".bar").bounding_box()
        assert bar is not None
        assert bar["y"] + bar["height"] <= PHONE["height"]
        for words in (
            "Parcel Desk",
            "Support assistant",
            LETTER["prompt"],
            "cannot be undone",
            "Dear Jonas",  # what is to be approved begins here
        ):
            box = page.get_by_text(str(words)).first.bounding_box()
            assert box is not None
            height = box["height"] if words != "Dear Jonas" else 60
            assert box["y"] + height <= bar["y"], words
        terms = page.locator(".terms-line")
        expect(terms).to_contain_text("After that, it counts as a no.")
        expect(terms).to_contain_text("in 2 hours")
        expect(terms.locator("time")).to_contain_text("GMT+5:30" if js else "UTC")
        assert "UTC" in str(terms.locator("time").get_attribute("title"))
        box = terms.bounding_box()
        assert box is not None
        assert box["y"] + box["height"] <= bar["y"]


def test_three_to_five_long_actions_fit_the_narrowest_phone(
    browser: Browser, server: RunningServer, agent: httpx.Client
) -> None:
    actions = [
        "weiterleiten",
        "zuruecksenden",
        "unveraendert_freigeben",
        "nachverhandeln",
        "endgueltig_ablehnen",
    ]
    with visiting(browser, NARROW) as page:
        for number in (3, 4, 5):
            hitl = server.open(agent, type="x-verwaltung", actions=actions[:number], context={"a": "b"})
            visit(page, hitl["review_url"])
            buttons = page.locator(".bar button")
            boxes = [one.bounding_box() for one in buttons.all()]
            assert len(boxes) == number
            assert all(box and box["height"] >= 48 for box in boxes)
            assert len({round(box["width"]) for box in boxes if box}) == 1
            assert not page.evaluate("document.documentElement.scrollWidth > innerWidth")
            clipped = "all => all.filter(one => one.scrollWidth > one.clientWidth + 1).length"
            assert buttons.evaluate_all(clipped) == 0


def test_the_countdown_stays_true_and_ends_in_words(
    browser: Browser, server: RunningServer, agent: httpx.Client
) -> None:
    hitl = server.open(agent, timeout="15m")
    with visiting(browser, shared=False) as page:
        page.clock.install()
        visit(page, hitl["review_url"])
        away, news = page.locator("[data-deadline] [data-away]"), page.locator("[data-live]")
        expect(away).to_have_text("in 15 minutes")
        page.get_by_label("Note (optional)").fill("I was about to say yes")
        page.clock.run_for("04:00")
        expect(away).to_have_text("in 11 minutes")
        expect(news).to_have_text("")
        page.clock.run_for("01:10")
        expect(news).to_contain_text("This question closes in 10 minutes.")
        page.clock.run_for("09:00")
        expect(news).to_contain_text("This question closes in 1 minute.")
        expect(away).to_have_text("in 50 seconds")
        page.clock.run_for("01:00")
        expect(news).to_contain_text("The time is up")
        expect(page.get_by_role("button", name="Confirm", exact=True)).to_be_disabled()
        expect(page.get_by_label("Note (optional)")).to_have_value("I was about to say yes")


def test_the_countdown_speaks_the_language_of_the_page(
    browser: Browser, server: RunningServer, agent: httpx.Client
) -> None:
    hitl = server.open(agent, timeout="2h")
    with visiting(browser, locale="de-DE", timezone_id="Europe/Berlin") as page:
        visit(page, hitl["review_url"])
        expect(page.locator("html")).to_have_attribute("lang", "de")
        expect(page.locator("[data-deadline]")).to_contain_text("in 2 Stunden")
        expect(page.locator("[data-deadline] time")).to_contain_text("MEZ")
        press(page, "Français")
        expect(page.locator("html")).to_have_attribute("lang", "fr")
        expect(page.locator("[data-deadline]")).to_contain_text("dans 2 heures")
        page.reload()
        visit(page, hitl["review_url"])
        expect(page.locator("html")).to_have_attribute("lang", "fr")
    assert poll(agent, hitl)["status"] in ("pending", "opened")


# Meanwhile


@pytest.mark.parametrize(
    ("happen", "title"),
    [
        ("answer", "Someone else has answered"),
        ("cancel", "The question was withdrawn"),
        ("expire", "The time is up"),
    ],
)
def test_what_happens_elsewhere_is_told_at_once_and_nothing_typed_is_lost(
    browser: Browser, server: RunningServer, agent: httpx.Client, happen: str, title: str
) -> None:
    hitl = server.open(agent, inline_actions=["confirm"], timeout="10s" if happen == "expire" else "1h")
    with visiting(browser) as page:
        with page.expect_response("**/events"):
            visit(page, hitl["review_url"])
        page.get_by_label("Note (optional)").fill("Only the ferns")
        if happen == "answer":
            server.press(hitl, "confirm")
        elif happen == "cancel":
            agent.post(f"/v1/reviews/{hitl['case_id']}/cancel", json={})
        else:
            server.advance(seconds=11)
            server.sweep()
        expect(page.locator("[data-live]")).to_contain_text(title)
        expect(page.locator("[data-live]")).to_be_in_viewport()
        for button in page.locator(".bar button").all():
            expect(button).to_be_disabled()
        assert violations(page) == []
        expect(page.get_by_label("Note (optional)")).to_have_value("Only the ferns")
        page.locator("[data-live] a").click()
        expect(page.locator(".outcome h1")).to_be_visible()
        assert page.locator("form").count() == 0


# Poor networks


def test_a_lost_reply_is_asked_for_again_and_counts_once(
    browser: Browser, server: RunningServer, agent: httpx.Client
) -> None:
    hitl = server.open(agent)
    with visiting(browser, shared=False) as page:
        visit(page, hitl["review_url"])
        page.get_by_label("Note (optional)").fill("Gladly")
        keys: list[str] = []

        def lose(route: Route) -> None:
            keys.append(str(route.request.post_data))
            route.fetch(max_redirects=0)
            route.abort("connectionreset")

        page.route("**/respond", lose)
        press(page, "Confirm")
        news = page.locator("[data-live]")
        expect(news).to_contain_text("This may not have been recorded")
        assert violations(page) == []
        expect(page.get_by_label("Note (optional)")).to_have_value("Gladly")
        page.unroute("**/respond")
        with page.expect_request("**/respond") as again:
            press(page, "Send again now")
        assert [str(again.value.post_data)] == keys
        expect(page.locator(".outcome h1")).to_have_text("Confirmed")
        until(page, "sessionStorage.length === 0")
    assert poll(agent, hitl)["result"]["data"] == {"note": "Gladly"}


@pytest.mark.parametrize(
    ("status", "words"), [(502, "<h1>Bad gateway</h1>"), (200, "<h1>Welcome, guest</h1>")]
)
def test_words_of_a_proxy_are_no_answer(
    browser: Browser, server: RunningServer, agent: httpx.Client, status: int, words: str
) -> None:
    hitl = server.open(agent)
    with visiting(browser) as page:
        visit(page, hitl["review_url"])
        page.route("**/respond", lambda route: route.fulfill(status=status, body=words))
        press(page, "Confirm")
        expect(page.locator("[data-live]")).to_contain_text("This may not have been recorded")
        page.unroute("**/respond")
        press(page, "Send again now")
        expect(page.locator(".outcome h1")).to_have_text("Confirmed")


def test_offline_says_not_recorded_and_sends_when_the_network_is_back(
    browser: Browser, server: RunningServer, agent: httpx.Client
) -> None:
    hitl = server.open(agent)
    with visiting(browser) as page:
        visit(page, hitl["review_url"])
        page.get_by_label("Note (optional)").fill("On the train")
        page.context.set_offline(True)
        press(page, "Confirm")
        expect(page.locator("[data-live]")).to_contain_text("Not recorded")
        assert poll(agent, hitl)["status"] != "completed"
        page.context.set_offline(False)
        expect(page.locator(".outcome h1")).to_have_text("Confirmed")
    assert poll(agent, hitl)["result"]["data"] == {"note": "On the train"}


def test_a_double_press_is_one_request_and_shows_that_it_is_under_way(
    browser: Browser, server: RunningServer, agent: httpx.Client
) -> None:
    hitl = server.open(agent)
    with visiting(browser) as page:
        visit(page, hitl["review_url"])
        waiting: list[Route] = []

        def hold(route: Route) -> None:
            waiting.append(route)

        page.route("**/respond", hold)
        button = page.locator(".bar [value=confirm]")
        button.dblclick()
        expect(button).to_have_attribute("aria-busy", "true")
        expect(page.locator("[data-live]")).to_contain_text("Sending")
        press(page, "Do not do it")
        assert len(waiting) == 1
        waiting[0].continue_()
        expect(page.locator(".outcome h1")).to_have_text("Confirmed")
    assert poll(agent, hitl)["result"]["action"] == "confirm"


def test_what_is_changed_after_a_failure_is_not_sent_behind_ones_back(
    browser: Browser, server: RunningServer, agent: httpx.Client
) -> None:
    hitl = server.open(agent)
    with visiting(browser) as page:
        visit(page, hitl["review_url"])
        page.route("**/respond", lambda route: route.abort())
        press(page, "Confirm")
        expect(page.locator("[data-live]")).to_contain_text("may not have been recorded")
        page.get_by_label("Note (optional)").fill("On second thoughts")
        expect(page.locator("[data-live]")).to_contain_text("Not sent again")
        page.unroute("**/respond")
        press(page, "Do not do it")
        expect(page.locator(".outcome h1")).to_have_text("Not to be done")
    assert poll(agent, hitl)["result"]["data"] == {"note": "On second thoughts"}


def test_what_was_typed_survives_a_reload_and_secrets_are_not_kept(
    browser: Browser, server: RunningServer, agent: httpx.Client
) -> None:
    fields = [
        {"key": "name", "label": "Your name", "type": "text"},
        {"key": "pin", "label": "Your pin", "type": "text", "sensitive": True},
    ]
    hitl = server.open(agent, type="input", context={"form": {"fields": fields}})
    with visiting(browser, shared=False) as page:
        page.route("**/draft", lambda route: route.abort())  # the server cannot be told
        visit(page, hitl["review_url"])
        page.get_by_label("Your name").fill("Ada")
        page.locator("[name='field.pin']").fill("47-11-63")
        until(page, "sessionStorage.length > 0")
        assert "47-11-63" not in page.evaluate("JSON.stringify(sessionStorage)")
        page.reload()
        expect(page.get_by_label("Your name")).to_have_value("Ada")
        expect(page.locator("[name='field.pin']")).to_have_value("")
        expect(page.locator("[data-live]")).to_contain_text("What you typed is still here")


# Refusals


@pytest.mark.parametrize("js", [True, False], ids=["with scripts", "without scripts"])
def test_an_answer_to_something_else_than_is_asked_is_refused_in_words(
    browser: Browser, server: RunningServer, agent: httpx.Client, js: bool
) -> None:
    hitl = server.open(agent)

    def stale(route: Route) -> None:
        reply = route.fetch()
        shown = re.sub(r'(name="shown" value=")[^"]+', r"\g<1>" + "0" * 64, reply.text())
        route.fulfill(response=reply, body=shown)

    with visiting(browser, java_script_enabled=js) as page:
        page.goto(hitl["review_url"])
        page.route(f"**/review/{hitl['case_id']}", stale)
        visit(page, page.url, js=js)
        page.unroute(f"**/review/{hitl['case_id']}")
        page.get_by_label("Note (optional)").fill("Yes to the old one")
        press(page, "Confirm")
        expect(page.get_by_text("This is not what you were shown")).to_be_visible()
        if js:
            expect(page.get_by_label("Note (optional)")).to_have_value("Yes to the old one")
        page.get_by_role("link", name="Back to the question").click()
        press(page, "Confirm")
        expect(page.locator(".outcome h1")).to_have_text("Confirmed")


@pytest.mark.parametrize("js", [True, False], ids=["with scripts", "without scripts"])
def test_what_is_wrong_is_shown_with_everything_still_typed(
    browser: Browser, server: RunningServer, agent: httpx.Client, js: bool
) -> None:
    hitl = server.open(agent, context={"confirm_word": "delete"})
    with visiting(browser, java_script_enabled=js) as page:
        visit(page, hitl["review_url"], js=js)
        page.get_by_label("Note (optional)").fill("All of it")
        page.get_by_label("To confirm, type").fill("delite")
        press(page, "Confirm")
        expect(page.get_by_role("alert").first).to_contain_text("Nothing was recorded yet")
        expect(page.get_by_role("alert").first).to_be_focused()
        expect(page.get_by_label("Note (optional)")).to_have_value("All of it")
        page.get_by_label("To confirm, type").fill("delete")
        press(page, "Confirm")
        expect(page.locator(".outcome h1")).to_have_text("Confirmed")
    assert poll(agent, hitl)["result"]["data"]["note"] == "All of it"


# Afterwards


def wrong_link(server: RunningServer, hitl: dict[str, Any]) -> None:
    hitl["review_url"] = hitl["review_url"][:-3] + "xxx"


def expire(server: RunningServer, hitl: dict[str, Any]) -> None:
    server.advance(hours=2)
    server.sweep()


def erase(server: RunningServer, hitl: dict[str, Any]) -> None:
    server.press(hitl, "confirm")
    server.advance(days=31)
    server.sweep()
    server.advance(days=31)
    server.sweep()


STATES: dict[str, tuple[Callable[[RunningServer, dict[str, Any]], object], str]] = {
    "answered": (lambda server, hitl: server.press(hitl, "confirm"), "Confirmed"),
    "wrong link": (wrong_link, "This link does not open anything"),
    "expired": (expire, "Nobody answered in time"),
    "erased": (erase, "This question is answered"),
}


@pytest.mark.parametrize("js", [True, False], ids=["with scripts", "without scripts"])
def test_each_end_has_its_own_page_the_same_on_every_visit(
    browser: Browser, server: RunningServer, agent: httpx.Client, js: bool
) -> None:
    with visiting(browser, java_script_enabled=js) as page:
        for become, title in STATES.values():
            hitl = server.open(agent, inline_actions=["confirm"], timeout="1h")
            become(server, hitl)
            for _ in range(2):
                visit(page, hitl["review_url"], js=js)
                expect(page.locator("h1")).to_have_text(title)
                assert page.locator("form").count() == 0


@pytest.mark.parametrize("js", [True, False], ids=["with scripts", "without scripts"])
def test_a_question_is_passed_on_and_then_not_decided(
    browser: Browser, server: RunningServer, agent: httpx.Client, js: bool
) -> None:
    hitl = server.open(agent)
    with visiting(browser, java_script_enabled=js, permissions=["clipboard-read", "clipboard-write"]) as page:
        visit(page, hitl["review_url"], js=js)
        page.get_by_text("Pass on to a colleague").click()
        press(page, "Make a link")
        link = page.get_by_label("Link to pass on").input_value().strip()
        if js:
            press(page, "Copy the link")
            expect(page.get_by_text("Copied.")).to_be_visible()
            assert page.evaluate("navigator.clipboard.readText()") == link
        else:
            expect(page.get_by_role("button", name="Copy the link")).to_be_hidden()
        visit(page, link, js=js)
        page.get_by_text("I won’t decide this").click()
        page.get_by_label("Reason (optional)").last.fill("Not mine to say")
        press(page, "Hand the question back")
        expect(page.get_by_text("You handed this question back")).to_be_visible()
        expect(page.get_by_text("Not mine to say").first).to_be_visible()
    assert poll(agent, hitl)["status"] != "cancelled"


# Weight


def test_a_page_asks_for_everything_it_needs_in_one_go(
    browser: Browser, server: RunningServer, agent: httpx.Client
) -> None:
    hitl = server.open(agent, **LETTER)
    with visiting(browser, shared=False) as page:
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        visit(page, hitl["review_url"])
        expect(page.locator("[data-live]")).to_be_attached()
        eventually(lambda: any(url.endswith("/opened") for url in asked))
        files = [url for url in asked if "/static/" in url]
        assert len(files) == len(set(files))
        kept = page.request.get(files[0])
        assert "immutable" in kept.headers["cache-control"]
        assert kept.headers["content-encoding"] == "gzip"
