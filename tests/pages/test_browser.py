"""The pages in a real browser: accessible, usable by keyboard, quiet under a strict policy."""

from collections.abc import Iterator
from typing import Literal
from urllib.parse import parse_qsl

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, ViewportSize

from assent.reviews import BUILT_IN, CUSTOM
from tests.pages.gallery import RENDERER, every_page, offer_of, review_view
from tests.pages.payloads import PAYLOADS
from tests.pages.site import Site, serving

Theme = Literal["light", "dark"]
PHONE: ViewportSize = {"width": 360, "height": 720}
DESK: ViewportSize = {"width": 1100, "height": 800}
PAGES = every_page()
SMALL_TARGETS = """name => [...document.querySelectorAll(`
    button:not(.offscreen), summary, select, textarea, input[type=text], .card, .choice, .next
`)].filter(each => each.checkVisibility() && each.getBoundingClientRect().height < 47.5)
   .map(each => [name, each.outerHTML.slice(0, 80)])"""


def hostile_pages() -> dict[str, str]:
    """One page per kind whose every free place holds every payload."""
    everything = {f"{number}{payload}": payload for number, payload in enumerate(PAYLOADS)}
    rows = [{"one": payload, "two": payload} for payload in PAYLOADS]
    nested = {"texts": PAYLOADS, "table": rows, "facts": everything, "lines": "\n".join(PAYLOADS)}
    bodies = []
    for kind in (*BUILT_IN.values(), CUSTOM):
        body = kind.example()
        body["context"] |= nested
        bodies.append({**body, "prompt": PAYLOADS[0], "message": " ".join(PAYLOADS), "service": PAYLOADS[2]})
    bodies[0]["context"]["artifact"] = everything
    bodies[1]["context"]["options"] = [
        {"id": f"{number}{payload}"[:500], "title": payload, "more": payload}
        for number, payload in enumerate(PAYLOADS)
    ]
    bodies[4]["context"]["params"] = everything
    return {f"hostile-{body['type']}": RENDERER.review(review_view(offer_of(body))) for body in bodies}


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    with serving({**PAGES, **hostile_pages()}) as served:
        yield served


def opened(
    browser: Browser, *, theme: Theme = "light", viewport: ViewportSize = PHONE, js: bool = True
) -> Page:
    context = browser.new_context(viewport=viewport, color_scheme=theme, java_script_enabled=js)
    page = context.new_page()
    page.set_default_timeout(10_000)
    return page


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("theme", "viewport"),
    [("light", PHONE), ("dark", PHONE), ("light", DESK), ("dark", DESK)],
    ids=["light phone", "dark phone", "light desk", "dark desk"],
)
def test_no_page_has_an_accessibility_violation(
    browser: Browser, site: Site, theme: Theme, viewport: ViewportSize
) -> None:
    page = opened(browser, theme=theme, viewport=viewport)
    found = {}
    for name in PAGES:
        page.goto(f"{site.address}/{name}")
        violations = Axe().run(page).response["violations"]
        if violations:
            found[name] = [(one["id"], [node["html"] for node in one["nodes"]]) for one in violations]
    page.context.close()
    assert found == {}


@pytest.mark.parametrize("width", [320, 360, 1100])
def test_no_page_scrolls_sideways(browser: Browser, site: Site, width: int) -> None:
    page = opened(browser, viewport={"width": width, "height": 700})
    wide = []
    for name in site.pages:
        page.goto(f"{site.address}/{name}")
        if page.evaluate("document.documentElement.scrollWidth > document.documentElement.clientWidth"):
            wide.append(name)
    page.context.close()
    assert wide == []


def test_targets_are_large_enough_for_a_thumb(browser: Browser, site: Site) -> None:
    page = opened(browser)
    small = []
    for name in PAGES:
        page.goto(f"{site.address}/{name}")
        small += page.evaluate(
            SMALL_TARGETS,
            name,
        )
    page.context.close()
    assert small == []


def test_actions_are_equal_in_size_and_stay_in_reach_on_a_phone(browser: Browser, site: Site) -> None:
    page = opened(browser)
    page.goto(f"{site.address}/open-approval")
    boxes = [button.bounding_box() for button in page.locator(".bar button").all()]
    page.context.close()
    assert len({(round(box["width"]), round(box["height"])) for box in boxes if box}) == 1
    assert all(box and box["y"] + box["height"] <= 720 for box in boxes)


def test_enter_in_a_text_box_decides_nothing(browser: Browser, site: Site) -> None:
    page = opened(browser)
    site.posts.clear()
    page.goto(f"{site.address}/open-confirmation")
    page.locator("[name=confirm_word]").fill("delete")
    page.keyboard.press("Enter")
    page.goto(f"{site.address}/open-escalation")
    page.locator("[name='param.batch_size']").press("Enter")
    page.goto(f"{site.address}/home")
    page.context.close()
    assert site.answers == []


def test_enter_in_a_wizard_goes_on(browser: Browser, site: Site) -> None:
    page = opened(browser)
    page.goto(f"{site.address}/open-input")
    site.posts.clear()
    page.locator("[name='field.traveller']").press("Enter")
    page.wait_for_url("**/respond")
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
    page.wait_for_url("**/respond")
    page.context.close()
    path, body = site.answers[-1]
    assert path == "/review/x/respond"
    sent = dict(parse_qsl(body, keep_blank_values=True))
    assert (sent["action"], sent["selected"], sent["note"]) == ("select", "garden-room", "Quiet")
    assert {"csrf", "shown", "idempotency_key"} <= sent.keys()


def test_everything_can_be_done_by_keyboard(browser: Browser, site: Site) -> None:
    page = opened(browser, viewport=DESK)
    page.goto(f"{site.address}/open-approval")
    seen = []
    for _ in range(16):
        page.keyboard.press("Tab")
        seen.append(page.evaluate("document.activeElement.value || document.activeElement.textContent"))
    page.context.close()
    stops = ("Skip to the question", "Change it yourself", "approve", "edit", "reject", "Details")
    assert [stop for stop in dict.fromkeys(seen) if stop in stops] == list(stops)


def test_the_page_tells_once_that_a_person_has_it_open(browser: Browser, site: Site) -> None:
    page = opened(browser)
    site.posts.clear()
    with page.expect_request("**/opened") as told:
        page.goto(f"{site.address}/open-approval")
    page.wait_for_load_state("networkidle")
    page.context.close()
    assert told.value.method == "POST"
    assert site.posts == [("/review/x/opened", "csrf=csrf-token")]


def test_without_script_nothing_is_told(browser: Browser, site: Site) -> None:
    page = opened(browser, js=False)
    site.posts.clear()
    page.goto(f"{site.address}/open-approval")
    page.wait_for_load_state("networkidle")
    page.context.close()
    assert site.posts == []


def test_no_page_breaks_the_content_policy(browser: Browser, site: Site) -> None:
    page = opened(browser)
    said: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    for name in PAGES:
        page.goto(f"{site.address}/{name}")
    page.context.close()
    assert [text for text in said if "does not conform" not in text] == []


def test_hostile_content_runs_nothing_in_the_browser(browser: Browser, site: Site) -> None:
    page = opened(browser)
    said: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    page.on("dialog", lambda dialog: said.append(dialog.message))
    for name in hostile_pages():
        page.goto(f"{site.address}/{name}")
        assert page.evaluate("window.pwned") is None
        assert page.locator("script").count() == 1
        assert page.locator("form").count() == 3
        assert page.locator("style, iframe, base, svg, math, img, marquee").count() == 0
    page.context.close()
    assert said == []


def test_untouched_text_comes_back_as_it_was(browser: Browser, site: Site) -> None:
    offer = offer_of(BUILT_IN["approval"].example())
    page = opened(browser)
    page.goto(f"{site.address}/open-approval")
    site.posts.clear()
    page.get_by_role("button", name="Approve", exact=True).click()
    page.wait_for_url("**/respond")
    page.context.close()
    pairs = parse_qsl(site.answers[-1][1], keep_blank_values=True)
    data = BUILT_IN["approval"].form_data(offer, pairs)
    assert BUILT_IN["approval"].check(offer, "approve", data) == {}
