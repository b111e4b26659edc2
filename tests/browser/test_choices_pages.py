"""Choosing, confirming, and deciding how to go on, in a real browser: phone and desk, scripts or none."""

import re
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from axe_playwright_python.base import AXE_SCRIPT
from playwright.sync_api import Browser, Locator, Page, expect

from placet.reviews.confirmation.example import EXAMPLE as BACKUPS
from placet.reviews.custom.example import EXAMPLE as PHOTO
from placet.reviews.escalation.example import EXAMPLE as IMPORT
from placet.reviews.selection.example import EXAMPLE as ROOMS
from tests.browser.visiting import BOTH, press
from tests.pages.checks import EVERYTHING, OVERFLOWS, PHONE, RENDERED, settings_of, violations
from tests.server.running import RunningServer

Ask = Callable[..., dict[str, Any]]
Result = Callable[[dict[str, Any]], dict[str, Any]]

DOT = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJ"
    "RU5ErkJggg=="
)
LOFT = {**ROOMS["context"]["options"][0], "badges": ["New", "Quiet"], "image": DOT, "recommended": True}
CITIES = ("Ghent", "Liège", "Brussels")
MANY = [
    {
        "id": f"room-{number}",
        "title": f"Room {number}",
        "price": f"{(number * 37) % 1500 + 10:,}.50 EUR",
        "score": (number * 7 % 100) / 100,
        "city": CITIES[number % 3],
        "free_from": f"2026-{number % 12 + 1:02}-11",
    }
    for number in range(500)
]
FORTY = [room for room in MANY if room["city"] == "Liège" and "40" in f"{room['title']} {room['price']}"]
ORDERS = {
    "Price, rising": sorted(MANY, key=lambda room: float(str(room["price"])[:-4].replace(",", ""))),
    "Score, falling": sorted(MANY, key=lambda room: -float(str(room["score"]))),
    "Free from, rising": sorted(MANY, key=lambda room: str(room["free_from"])),
    "Name, falling": MANY[::-1],
    "In the order sent": MANY,
}
FAILURE = {
    "error": {
        "type": "TimeoutError",
        "message": "The supplier did not answer",
        "code": 504,
        "failed_at": "2026-05-06T02:14:00Z",
        "attempts": 3,
        "max_attempts": 5,
    },
    "params": {"batch_size": 100, "skip_missing_prices": False, "host": "prices.example"},
    "logs": [
        {"time": f"02:{minute:02}", "level": "error" if minute == 59 else "info", "message": f"page {minute}"}
        for minute in range(60)
    ],
    "suggestions": [{"action": "retry", "reason": "Smaller batches get through."}, "Call the supplier"],
    "reason_presets": ["Supplier is down", "Not urgent"],
}


@pytest.fixture
def ask(server: RunningServer, agent: httpx.Client, page: Page) -> Ask:
    """Opens a case like this one, with these changes to its context, and its page."""

    def ask(example: dict[str, Any], **context: Any) -> dict[str, Any]:
        names = ("type", "prompt", "message", "service", "agent", "actions")
        body = {name: example[name] for name in names if name in example}
        changed = {**example["context"], **context}
        body["context"] = {name: value for name, value in changed.items() if value is not None}
        hitl = server.open(agent, **body)
        page.goto(hitl["review_url"])
        return hitl

    return ask


@pytest.fixture
def result(agent: httpx.Client, page: Page) -> Result:
    """What the agent reads in its poll once the page says that it is done."""

    def result(hitl: dict[str, Any]) -> dict[str, Any]:
        expect(page.get_by_text("It cannot be changed any more.")).to_be_visible()
        found = agent.get(hitl["poll_url"]).json()["result"]
        return {"action": found["action"], "data": found["data"]}

    return result


def card(page: Page, title: str) -> Locator:
    return page.locator(".card").filter(has=page.get_by_label(title, exact=True))


def expect_problem(page: Page, field: str, said: str) -> None:
    """The problem is told in the list at the top, which leads to the place where it is told again."""
    link = page.get_by_role("alert").locator(f"a[href='#f-{field}']")
    expect(link).to_contain_text(said)
    expect(page.locator(f"#e-{field}")).to_contain_text(said)
    expect(page.locator(f"#f-{field}")).to_have_attribute("aria-describedby", re.compile(f"e-{field}"))


# Selection


def test_a_person_compares_cards_and_chooses_within_the_limits(
    page: Page, ask: Ask, result: Result, scripts: bool
) -> None:
    hitl = ask(ROOMS, options=[LOFT, *ROOMS["context"]["options"][1:]], reason_presets=["Close by"])
    expect(page.locator(":checked")).to_have_count(0)
    loft = card(page, "Canal Loft")
    expect(loft.locator(".advice")).to_have_text("Recommended")
    expect(loft.locator(".badges > li")).to_have_text(["New", "Quiet"])
    expect(loft.locator("img")).to_have_attribute("src", DOT)
    expect(loft.locator(".price")).to_have_text("Price per day310 EUR")
    expect(page.locator(".limits")).to_have_text("Choose 1 to 2.")

    page.get_by_label("Note (optional)").fill("For the workshop")
    press(page, "Send my choice")
    expect_problem(page, "selected", "Choose at least one.")
    expect(page.get_by_label("Note (optional)")).to_have_value("For the workshop")

    for title in ("Canal Loft", "Weavers' Hall"):
        page.get_by_label(title).check()
    if scripts:
        expect(page.locator(".tally")).to_have_text("2 of 2 chosen")
        card(page, "Garden Room").click()
        expect(card(page, "Garden Room").get_by_role("alert")).to_have_text(
            "You can choose at most 2. Take one back first."
        )
        expect(page.get_by_label("Garden Room")).not_to_be_checked()
    else:
        page.get_by_label("Garden Room").check()
        press(page, "Send my choice")
        expect_problem(page, "selected", "Choose at most 2; you chose 3.")
        expect(page.locator(".card :checked")).to_have_count(3)
    page.get_by_label("Weavers' Hall").uncheck()
    page.get_by_label("Garden Room").check()
    press(page, "Send my choice")
    assert result(hitl) == {
        "action": "select",
        "data": {"selected": ["canal-loft", "garden-room"], "note": "For the workshop"},
    }
    expect(page.locator("#recap ~ dl").get_by_text("Garden Room")).to_be_visible()


def test_one_of_five_hundred_is_found_and_sent(page: Page, ask: Ask, result: Result, scripts: bool) -> None:
    hitl = ask({**ROOMS, "context": {"options": MANY, "max_selections": 3}})
    cards = page.locator(".card")
    expect(cards).to_have_count(500)
    if not scripts:
        expect(page.get_by_role("searchbox")).to_have_count(0)
        page.get_by_role("navigation", name="Go to").get_by_role("link", name="401–450").click()
        page.get_by_label("Room 403", exact=True).check()
    else:
        shown, search = page.locator(".card:visible"), page.get_by_role("searchbox", name="Search")
        search.fill("LIEGE 40")
        expect(page.locator(".found")).to_have_text(f"{len(FORTY)} of 500 shown")
        expect(shown).to_have_count(len(FORTY))
        page.get_by_label("Room 403", exact=True).check()
        search.fill("brussels nowhere")
        expect(page.locator(".found")).to_contain_text("Nothing matches.")
        expect(shown).to_have_count(1)
        search.press("Enter")
        search.fill("")
        expect(shown).to_have_count(500)
        for column, order in ORDERS.items():
            page.get_by_label("Sort").select_option(label=column)
            titles = [room["title"] for room in order]
            assert page.locator(".card > label").all_text_contents() == titles, column
        took = page.evaluate(
            """() => {
              const sort = document.querySelector("#sort");
              return Math.min(...[1, 2, 3].map(column => {
                const start = performance.now();
                sort.selectedIndex = column;
                sort.dispatchEvent(new Event("change"));
                document.body.getBoundingClientRect();
                return performance.now() - start;
              }));
            }"""
        )
        assert took < 5000, "sorting is quick"
        expect(page.get_by_label("Room 403", exact=True)).to_be_checked()
    press(page, "Send my choice")
    assert result(hitl)["data"] == {"selected": ["room-403"]}


@BOTH
def test_a_single_choice_is_a_radio_and_nothing_else(page: Page, ask: Ask, result: Result) -> None:
    hitl = ask(ROOMS, multiple=False, max_selections=None)
    expect(page.get_by_role("radio")).to_have_count(4)
    expect(page.locator(".tally")).to_have_count(0)
    press(page, "Send my choice")
    expect_problem(page, "selected", "Choose at least one.")
    page.get_by_label("Garden Room").check()
    page.get_by_label("Canal Loft").check()
    press(page, "Send my choice")
    assert result(hitl)["data"] == {"selected": ["canal-loft"]}


@pytest.mark.parametrize("way", [(True, PHONE)], ids=["phone with scripts"])
def test_an_option_that_was_not_offered_is_refused_kindly(page: Page, ask: Ask) -> None:
    ask(ROOMS)
    page.evaluate("document.querySelector('.card input').value = 'barn'")
    page.get_by_label("Canal Loft").check()
    page.get_by_label("Note (optional)").fill("Well")
    press(page, "Send my choice")
    expect_problem(page, "selected", "These were not offered: barn.")
    expect(page.get_by_label("Note (optional)")).to_have_value("Well")


# Confirmation


def test_every_item_and_the_word_are_needed_and_nothing_is_lost(
    page: Page, ask: Ask, result: Result, scripts: bool
) -> None:
    hitl = ask(BACKUPS)
    expect(page.locator(".final")).to_contain_text("It cannot be undone.")
    expect(page.get_by_text("Deleted backups cannot be brought back")).to_be_visible()
    expect(page.locator("input[type=checkbox]")).to_have_count(3)
    word = page.get_by_label("To confirm, type “delete”")
    page.get_by_label("Spring 2020").check()
    word.fill("Delete")
    page.get_by_label("Note (optional)").fill("Checked twice")
    press(page, "Confirm")

    expect_problem(page, "confirmed_items", "Tick every item to confirm; 2 are not ticked yet.")
    expect_problem(page, "confirm_word", "Capital and small letters count: type “delete”.")
    expect(card(page, "Autumn 2019").locator(".problem")).to_have_text("Not ticked yet")
    expect(card(page, "Spring 2020").locator(".problem")).to_have_count(0)
    expect(page.get_by_label("Spring 2020")).to_be_checked()
    expect(word).to_have_value("Delete")
    expect(page.get_by_label("Note (optional)")).to_have_value("Checked twice")

    for item in ("Autumn 2019", "Autumn 2020"):
        page.get_by_label(item).check()
    word.fill("delete")
    if scripts:
        expect(page.locator(".tally")).to_have_text("3 of 3 ticked")
        expect(card(page, "Autumn 2019").locator(".problem")).to_have_count(0)
        expect(page.get_by_text("The word is right.")).to_be_visible()
        allowed = "word => word.dispatchEvent(new ClipboardEvent('paste', {cancelable: true, bubbles: true}))"
        assert word.evaluate(allowed), "the word may be pasted"
    press(page, "Confirm")
    assert result(hitl) == {
        "action": "confirm",
        "data": {"confirmed_items": ["2019-autumn", "2020-spring", "2020-autumn"], "note": "Checked twice"},
    }


@BOTH
def test_some_items_are_enough_where_the_service_allows_it(page: Page, ask: Ask, result: Result) -> None:
    hitl = ask(BACKUPS, allow_partial=True, confirm_word=None)
    press(page, "Confirm")
    expect_problem(page, "confirmed_items", "Tick at least one item to confirm.")
    page.get_by_label("Autumn 2020").check()
    press(page, "Confirm")
    assert result(hitl)["data"] == {"confirmed_items": ["2020-autumn"]}


@BOTH
def test_not_doing_it_needs_neither_ticks_nor_the_word(page: Page, ask: Ask, result: Result) -> None:
    hitl = ask(BACKUPS, reason_presets=["We may need them"])
    page.get_by_text("We may need them").click()
    press(page, "Do not do it")
    assert result(hitl) == {"action": "cancel", "data": {"note": "We may need them"}}


# Escalation


def test_a_person_sees_what_failed_and_tries_again_with_other_parameters(
    page: Page, ask: Ask, result: Result, scripts: bool
) -> None:
    hitl = ask({**IMPORT, "context": FAILURE})
    failed = page.locator(".failure")
    expect(failed.locator(".failed")).to_have_text("The supplier did not answer")
    for part in ("TimeoutError", "504", "3 of 5 times", "ago"):
        expect(failed).to_contain_text(part)
    expect(page.locator(".suggestions")).to_contain_text("Smaller batches get through.")
    log = page.get_by_role("region", name="Newest lines")
    expect(log.locator("li").last).to_have_text("02:59 Error page 59")
    assert log.evaluate("log => log.scrollHeight > log.clientHeight"), "it scrolls"
    lowest = "one => one.getBoundingClientRect().bottom"
    assert log.locator("li").last.evaluate(lowest) <= log.evaluate(lowest), "the newest line is in view"
    log.focus()
    expect(log).to_be_focused()
    page.get_by_text("35 earlier lines").click()
    expect(page.get_by_role("region", name="Earlier lines")).to_contain_text("02:00 info page 0")

    size, host = page.get_by_label("Batch size"), page.get_by_label("Host")
    expect(size).to_have_attribute("inputmode", "numeric")
    size.fill("lots")
    page.get_by_label("Skip missing prices").select_option(label="Yes")
    if scripts:
        expect(page.get_by_text("Changed. Before: 100")).to_be_visible()
        expect(page.get_by_text("Changed. Before: prices.example")).to_be_hidden()
    page.get_by_label("Reason (optional)").first.fill("Once more")
    press(page, "Try again")

    expect_problem(page, "modified_params", "One of them does not fit.")
    expect(page.locator("#e-param-1")).to_contain_text("Write a number, such as 100.")
    expect(size).to_have_value("lots")
    expect(page.get_by_text("Changed. Before: No")).to_be_visible()
    expect(page.get_by_label("Reason (optional)").first).to_have_value("Once more")
    size.fill("20")
    host.fill("other.example")
    press(page, "Try again")
    assert result(hitl) == {
        "action": "retry",
        "data": {
            "reason": "Once more",
            "modified_params": {"batch_size": 20, "skip_missing_prices": True, "host": "other.example"},
        },
    }


@BOTH
@pytest.mark.parametrize(("button", "action"), [("Skip this step", "skip"), ("Stop", "abort")])
def test_continuing_without_ignores_changed_parameters(
    page: Page, ask: Ask, result: Result, button: str, action: str
) -> None:
    hitl = ask({**IMPORT, "context": FAILURE})
    page.get_by_label("Batch size").fill("20")
    page.get_by_text("Not urgent").click()
    press(page, button)
    assert result(hitl) == {"action": action, "data": {"reason": "Not urgent"}}


# Custom types


def test_a_type_of_ones_own_is_labelled_and_answered(page: Page, ask: Ask, result: Result) -> None:
    hitl = ask(PHOTO, odd={"deep": [{"list": [1, None, True]}]}, nothing="")
    expect(page.get_by_role("heading", name="Photo usage")).to_be_visible()
    for text in ("Marta Oduya", "14 March 2026", "12,000", "The counter on a Saturday"):
        expect(page.get_by_text(text).first).to_be_visible()
    expect(page.locator(".bar button")).to_have_text(["Allow", "Allow once", "Refuse"])
    page.get_by_label("Note (optional)").fill("Only this year")
    press(page, "Allow once")
    assert result(hitl) == {"action": "allow_once", "data": {"note": "Only this year"}}


@BOTH
def test_a_type_of_ones_own_without_context_is_not_blank(page: Page, ask: Ask, result: Result) -> None:
    hitl = ask({"type": "x-odd-thing", "prompt": "Shall we?", "actions": ["go_ahead"], "context": {}})
    expect(page.get_by_role("heading", name="Odd thing")).to_be_visible()
    expect(page.get_by_text("Nothing more was sent than the question above.")).to_be_visible()
    press(page, "Go ahead")
    assert result(hitl) == {"action": "go_ahead", "data": {}}


# Everyone


@pytest.mark.timeout(300)
def test_every_state_is_accessible(
    browser: Browser, server: RunningServer, agent: httpx.Client, full: bool
) -> None:
    context = browser.new_context(viewport=PHONE)
    context.add_init_script(AXE_SCRIPT)
    page = context.new_page()
    cases: list[tuple[dict[str, Any], dict[str, Any], str]] = [
        (ROOMS, {"options": [LOFT, *MANY[:20]], "min_selections": 2, "max_selections": 2}, "Send my choice"),
        (BACKUPS, {}, "Confirm"),
        (IMPORT, {**FAILURE, "params": {"size": 1}}, "Try again"),
    ]
    found: dict[str, list[Any]] = {}
    for number, (example, changes, button) in enumerate(cases):
        body = {**example, "context": {**example["context"], **changes}}
        page.goto(server.open(agent, **body)["review_url"])
        found |= everywhere(page, f"{body['type']} open", number=number, full=full)
        if body["type"] == "escalation":
            page.get_by_label("Size").fill("x")
        press(page, button)
        expect(page.get_by_role("alert").first).to_contain_text("Nothing was recorded yet")
        found |= everywhere(page, f"{body['type']} with problems", number=number + 1, full=full)
    context.close()
    assert {name: one for name, one in found.items() if one} == {}


WITH_SIZES = {**EVERYTHING, "rules": {"target-size": {"enabled": True}}}


def everywhere(page: Page, state: str, *, number: int, full: bool) -> dict[str, list[Any]]:
    """What is wrong with this state of a page, in both themes and at both sizes."""
    page.emulate_media(reduced_motion="reduce")
    found: dict[str, list[Any]] = {}
    for viewport, theme in settings_of(number, full=full):
        page.set_viewport_size(viewport)
        page.emulate_media(color_scheme=theme)
        options = RENDERED if found else WITH_SIZES
        found[f"{state}, {viewport['width']} px, {theme}"] = violations(page, options)
        assert not page.evaluate(OVERFLOWS), state
    page.set_viewport_size(PHONE)
    page.emulate_media(color_scheme="light")
    return found
