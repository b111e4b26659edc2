"""How much a page weighs as it is sent, and that nothing it needs waits for something else it needs."""

from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

from placet.reviews.registry import SAMPLES, load_custom_type
from tests.server.running import RunningServer, running

MOST_BYTES = 60_000
LATENCY_MS = 400
KINDS = {**SAMPLES, load_custom_type().name: load_custom_type()}

# The browser's own account of what it fetched: where from, how large, and when it began to ask.
FETCHED = """() => ["navigation", "resource"].flatMap(sort => performance.getEntriesByType(sort))
  .filter(one => one.initiatorType !== "fetch" && one.initiatorType !== "beacon")
  .map(one => ({
    name: one.name, bytes: one.encodedBodySize, began: one.startTime, answered: one.responseStart,
    ended: one.responseEnd,
  }))"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with running(tmp_path_factory.mktemp("weight")) as server:
        yield server


@pytest.fixture(scope="module")
def links(server: RunningServer) -> dict[str, str]:
    """Where there is a question of every type, one that is answered, and none."""
    turn = KINDS["tool_calls"].example()
    last = turn["context"]["tool_calls"][-1:]  # each further call brings a form of its own
    with server.client(server.api_key) as owner:
        asked = {name: server.open_sample(owner, kind) for name, kind in KINDS.items()}
        asked["tool_calls"] = server.open(owner, **turn | {"context": turn["context"] | {"tool_calls": last}})
        done = server.open(owner)
        with server.page(done) as page:
            assert page.post("respond", {"action": "confirm"}).response.status_code == 200
    found = {name: hitl["review_url"] for name, hitl in asked.items()}
    return {**found, "answered": done["review_url"], "wrong": f"{server.url}/review/review_0?token=x"}


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A browser that has never been here."""
    context = browser.new_context(viewport={"width": 390, "height": 844})
    context.set_default_timeout(60_000)
    yield context.new_page()
    context.close()


def fetched(page: Page, link: str) -> list[dict[str, Any]]:
    page.goto(link)
    if page.locator("script[type=module]").count():
        page.wait_for_selector("html[data-enhanced]", state="attached")
    found: list[dict[str, Any]] = page.evaluate(FETCHED)
    return found


@pytest.mark.parametrize("name", [*KINDS, "answered", "wrong"])
def test_a_page_with_its_style_and_scripts_is_light(page: Page, links: dict[str, str], name: str) -> None:
    parts = {part["name"]: part["bytes"] for part in fetched(page, links[name])}
    assert sum(parts.values()) < MOST_BYTES, parts
    assert all(parts.values())


def test_the_first_page_is_usable_before_anything_else_has_come(page: Page, links: dict[str, str]) -> None:
    said: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    page.route("**/static/**", lambda route: None)
    page.goto(links["approval"], wait_until="commit")
    button = page.locator(".bar button").first
    button.wait_for()
    bounds = button.bounding_box()
    assert bounds is not None
    assert bounds["height"] >= 48
    assert said == []
    page.unroute_all(behavior="ignoreErrors")
    page.goto(links["selection"])
    assert page.locator("style").count() == 0
    assert page.evaluate("() => [...document.styleSheets].every(one => one.cssRules.length)")


@pytest.mark.parametrize("name", ["approval", "input"])
def test_style_and_scripts_are_asked_for_together_as_soon_as_the_page_is_there(
    page: Page, links: dict[str, str], name: str
) -> None:
    wire = page.context.new_cdp_session(page)
    wire.send("Network.enable")
    wire.send(
        "Network.emulateNetworkConditions",
        {"offline": False, "latency": LATENCY_MS, "downloadThroughput": -1, "uploadThroughput": -1},
    )
    _, *others = fetched(page, links[name])
    assert len(others) > 2
    # Each takes a round trip: what is asked for only once something else has come begins after that ended.
    assert all(part["ended"] - part["began"] > LATENCY_MS * 0.75 for part in others)
    first = min(part["ended"] for part in others)
    assert {part["name"] for part in others if part["began"] >= first} == set()
