"""The demo in a real browser on a phone: decide, and the answer arrives in poll, stream and callback."""

import re
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest
from playwright.sync_api import Browser, Page, Request, expect

from tests.browser.visiting import visiting
from tests.cli.process import ServerProcess, serving
from tests.pages.checks import PHONE
from tests.server.running import events_of
from tests.waiting import eventually


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with serving(tmp_path_factory.mktemp("demo"), command="demo") as demo:
        demo.url()
        yield demo


@pytest.fixture
def agent(demo: ServerProcess) -> Iterator[httpx.Client]:
    with demo.client() as client:
        yield client


@pytest.fixture(params=[True, False], ids=["with scripts", "without scripts"])
def phone(request: pytest.FixtureRequest, browser: Browser) -> Iterator[Page]:
    """A phone in someone's hand; whatever goes wrong in the page fails the test."""
    failed: list[str] = []

    def note_failure(request: Request) -> None:
        failed.append(f"{request.url}: {request.failure}")

    device = {"is_mobile": True, "has_touch": True, "java_script_enabled": request.param}
    with visiting(browser, PHONE, quiet_console=True, **device) as page:
        page.on("requestfailed", note_failure)
        yield page
        page.remove_listener("requestfailed", note_failure)
    # A stream or a redirect is left behind when the person goes on.
    assert [one for one in failed if "net::ERR_ABORTED" not in one] == []


def approve(page: Page) -> str:
    page.get_by_role("button", name="Approve", exact=True).tap()
    return "approve"


def select(page: Page) -> str:
    page.get_by_label("Canal Loft").check()
    page.get_by_label("Garden Room").check()
    page.get_by_role("button", name="Send my choice").tap()
    return "select"


def fill_in(page: Page) -> str:
    page.get_by_label("Name as in your passport").fill("Ada Lovelace")
    page.get_by_label("Where tickets should be sent").fill("ada@example.org")
    page.get_by_label("Day of arrival").fill("2026-09-07")
    travel = page.get_by_role("group", name="How would you like to travel?")
    if travel.count():
        travel.get_by_label("I come on my own").check()
    else:
        page.get_by_label("How would you like to travel?").select_option(label="I come on my own")
    page.locator(".bar").get_by_role("button", name="Continue").tap()
    page.get_by_label("Nights").fill("2")
    page.get_by_role("group", name="step-free").get_by_label("No", exact=True).check()
    page.get_by_role("group", name="What do you eat?").get_by_label("Vegan").check()
    page.locator(".bar").get_by_role("button", name="Continue").tap()
    expect(page.get_by_text("Ada Lovelace")).to_be_visible()
    page.get_by_role("button", name="Send my answers").tap()
    return "submit"


def confirm(page: Page) -> str:
    for item in ("Autumn 2019", "Spring 2020", "Autumn 2020"):
        page.get_by_label(item).check()
    page.get_by_label("To confirm, type").fill("delete")
    page.get_by_role("button", name="Confirm", exact=True).tap()
    return "confirm"


def escalate(page: Page) -> str:
    page.get_by_label("Reason (optional)").first.fill("Try once more, slowly")
    page.get_by_role("button", name="Try again").tap()
    return "retry"


DECISIONS: dict[str, Callable[[Page], str]] = {
    "approval": approve,
    "selection": select,
    "input": fill_in,
    "confirmation": confirm,
    "escalation": escalate,
}


@pytest.mark.parametrize("type", DECISIONS)
def test_a_person_answers_on_a_phone_and_the_agent_learns_it_by_every_way(
    demo: ServerProcess, agent: httpx.Client, phone: Page, type: str
) -> None:
    hitl: dict[str, Any] = agent.post(f"/api/demo?type={type}").json()["hitl"]
    phone.goto(hitl["review_url"])
    assert "token=" not in phone.url
    expect(phone.get_by_role("heading", level=1)).to_have_text(hitl["prompt"])
    action = DECISIONS[type](phone)
    expect(phone.get_by_text("It cannot be changed any more.")).to_be_visible()
    poll = agent.get(hitl["poll_url"]).json()
    assert (poll["status"], poll["result"]["action"]) == ("completed", action)
    events = events_of(agent.get(hitl["events_url"]).text)
    assert events[-1][1] == "review.completed"
    told = rf"…{hitl['case_id'][-6:]}  callback received and verified: review\.completed"
    eventually(lambda: re.search(told, demo.stdout))


def test_opening_the_page_is_noticed_only_where_a_person_opens_it(
    agent: httpx.Client, phone: Page, request: pytest.FixtureRequest
) -> None:
    hitl = agent.post("/api/demo?type=approval").json()["hitl"]
    phone.goto(hitl["review_url"])
    if "with scripts" in request.node.callspec.id:
        eventually(lambda: agent.get(hitl["poll_url"]).json()["status"] == "opened")
    else:
        assert agent.get(hitl["poll_url"]).json()["status"] == "pending"


def test_a_mistake_is_shown_where_it_was_made_and_nothing_is_lost(agent: httpx.Client, phone: Page) -> None:
    hitl = agent.post("/api/demo?type=confirmation").json()["hitl"]
    phone.goto(hitl["review_url"])
    phone.get_by_label("Autumn 2019").check()
    phone.get_by_label("To confirm, type").fill("delite")
    phone.get_by_role("button", name="Confirm", exact=True).tap()
    expect(phone.get_by_role("alert")).to_contain_text("Nothing was recorded yet")
    expect(phone.get_by_label("Autumn 2019")).to_be_checked()
    assert agent.get(hitl["poll_url"]).json()["status"] in ("opened", "in_progress", "pending")
    confirm(phone)
    expect(phone.get_by_text("It cannot be changed any more.")).to_be_visible()
    assert agent.get(hitl["poll_url"]).json()["result"]["data"]["confirmed_items"]


def test_the_front_page_leads_to_every_question(demo: ServerProcess, phone: Page) -> None:
    phone.goto(demo.url())
    links = phone.locator("a[href*='/review/']")
    assert links.count() == 7  # five types, tool calls and a held message
    expect(phone.locator("body")).to_contain_text("Held message")
    links.first.tap()
    expect(phone.get_by_role("heading", level=1)).to_be_visible()
    assert "token=" not in phone.url


def test_a_question_is_passed_on_and_handed_back(agent: httpx.Client, phone: Page) -> None:
    hitl = agent.post("/api/demo?type=approval").json()["hitl"]
    phone.goto(hitl["review_url"])
    phone.get_by_text("Pass on to a colleague").tap()
    phone.get_by_role("button", name="Make a link").tap()
    link = phone.get_by_label("Link to pass on").input_value().strip()
    assert link != hitl["review_url"]
    phone.goto(link)
    phone.get_by_text("I won’t decide this").tap()
    phone.get_by_role("button", name="Hand the question back").tap()
    expect(phone.get_by_text("You handed this question back")).to_be_visible()
    assert agent.get(hitl["poll_url"]).json()["status"] != "cancelled"
