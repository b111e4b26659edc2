"""The pages in a real browser: accessible, usable by keyboard and thumb, quiet under a strict policy."""

from collections.abc import Iterator
from urllib.parse import parse_qsl

import pytest
from playwright.sync_api import Browser, Page, expect

from placet.reviews.registry import REVIEW_TYPES
from tests.pages.checks import (
    DESK,
    PHONE,
    painted,
)
from tests.pages.gallery import every_page, offer_of
from tests.pages.page_examination import opened
from tests.pages.site import Site, serving


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    with serving(every_page()) as served:
        yield served


def test_actions_are_equal_in_size_and_stay_in_reach_on_a_phone(browser: Browser, site: Site) -> None:
    page = opened(browser)
    page.goto(f"{site.address}/open-approval")
    boxes = [button.bounding_box() for button in page.locator(".bar button").all()]
    page.context.close()
    assert len({(round(box["width"]), round(box["height"])) for box in boxes if box}) == 1
    assert all(box and box["y"] + box["height"] <= PHONE["height"] for box in boxes)


def test_enter_in_a_text_box_decides_nothing(browser: Browser, site: Site) -> None:
    page = opened(browser)
    site.posts.clear()
    page.goto(f"{site.address}/open-confirmation")
    painted(page).locator("[name=confirm_word]").fill("delete")
    page.keyboard.press("Enter")
    page.goto(f"{site.address}/open-escalation")
    painted(page).locator("[name='param.batch_size']").press("Enter")
    page.goto(f"{site.address}/home")
    page.context.close()
    assert site.answers == []


def test_enter_in_a_wizard_goes_on(browser: Browser, site: Site) -> None:
    page = opened(browser)
    page.goto(f"{site.address}/open-input")
    site.posts.clear()
    painted(page).locator("[name='field.traveller']").press("Enter")
    expect(page).to_have_title("posted")
    page.context.close()
    assert ("action", "x-next") in parse_qsl(site.answers[-1][1])


@pytest.mark.parametrize("js", [True, False], ids=["with script", "without script"])
def test_an_answer_is_one_plain_post(browser: Browser, site: Site, js: bool) -> None:
    page = opened(browser, js=js)
    page.goto(f"{site.address}/open-selection")
    page.get_by_text("Garden Room").click()
    page.get_by_label("Note (optional)").fill("Quiet")
    site.posts.clear()
    page.get_by_role("button", name="Send my choice").click()
    expect(page).to_have_title("posted")
    page.context.close()
    path, body = site.answers[-1]
    assert path == "/review/x/respond"
    sent = dict(parse_qsl(body, keep_blank_values=True))
    assert (sent["action"], sent["selected"], sent["note"]) == ("select", "garden-room", "Quiet")
    assert {"csrf", "shown", "idempotency_key"} <= sent.keys()


# What a person presses on the way to an answer: the places to stop at, and the keys there.
WALKS = {
    "open-approval": [("[name=feedback]", "Fine"), ("[value=approve]", "Enter")],
    "open-selection": [("[value=canal-loft]", "Space"), ("[name=note]", "Near"), ("[value=select]", "Enter")],
    "open-selection-single": [("[type=radio]", "Space"), ("[value=select]", "Enter")],
    "open-confirmation-items": [("[type=checkbox]", "Space"), ("[value=confirm]", "Enter")],
    "open-escalation": [("[name='param.batch_size']", "50"), ("[value=retry]", "Enter")],
    "open-input": [("[name='field.traveller']", "Ada"), ("[value=x-next]", "Enter")],
    "wizard-summary": [("[value=submit]", "Enter")],
    "open-x": [("[value=refuse]", "Enter")],
}


@pytest.mark.parametrize("name", WALKS)
def test_every_question_can_be_answered_by_keyboard_alone(browser: Browser, site: Site, name: str) -> None:
    page = opened(browser, viewport=DESK)
    page.goto(f"{site.address}/{name}")
    site.posts.clear()
    painted(page)
    for place, keys in WALKS[name]:
        walk_to(page, place)
        if keys in ("Enter", "Space"):
            page.keyboard.press(keys)
        else:
            page.keyboard.type(keys)
    expect(page).to_have_title("posted")
    page.context.close()
    last_stop = WALKS[name][-1][0]
    assert f"action={last_stop.split('=')[1].rstrip(']')}" in site.answers[-1][1]


def walk_to(page: Page, place: str) -> None:
    for _ in range(60):
        page.keyboard.press("Tab")
        if page.evaluate("place => document.activeElement.matches(place)", place):
            return
    raise AssertionError(f"the Tab key never came to {place}")


def test_the_keyboard_meets_things_in_the_order_they_are_read(browser: Browser, site: Site) -> None:
    page = opened(browser, viewport=DESK)
    page.goto(f"{site.address}/open-approval")
    seen, stop_now = [], "document.activeElement.value || document.activeElement.textContent.trim()"
    painted(page)
    for _ in range(30):
        page.keyboard.press("Tab")
        seen.append(page.evaluate(stop_now))
    page.context.close()
    stops = ("Skip to the question", "approve", "edit", "reject", "Pass on to a colleague", "Details")
    assert [stop for stop in dict.fromkeys(seen) if stop in stops] == list(stops)


def test_the_page_tells_once_that_a_person_has_it_open(browser: Browser, site: Site) -> None:
    page = opened(browser)
    site.posts.clear()
    with page.expect_response("**/opened") as told:
        page.goto(f"{site.address}/open-approval")
    # Coming back to the page is no second opening.
    page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    page.goto(f"{site.address}/home", wait_until="networkidle")
    page.context.close()
    assert told.value.request.method == "POST"
    assert site.posts == [("/review/x/opened", "csrf=csrf-token")]


def test_without_script_nothing_is_told(browser: Browser, site: Site) -> None:
    page = opened(browser, js=False)
    site.posts.clear()
    page.goto(f"{site.address}/open-approval", wait_until="networkidle")
    page.context.close()
    assert site.posts == []


def test_untouched_text_comes_back_as_it_was(browser: Browser, site: Site) -> None:
    offer = offer_of(REVIEW_TYPES["approval"].example())
    page = opened(browser)
    page.goto(f"{site.address}/open-approval")
    site.posts.clear()
    page.get_by_role("button", name="Approve", exact=True).click()
    expect(page).to_have_title("posted")
    page.context.close()
    pairs = parse_qsl(site.answers[-1][1], keep_blank_values=True)
    data = REVIEW_TYPES["approval"].form_data(offer, pairs)
    assert REVIEW_TYPES["approval"].check(offer, "approve", data) == {}
