"""Passkeys in Chromium with a virtual authenticator, and what people see who have none."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest
from playwright.sync_api import Browser, CDPSession, Page, expect

from placet.desk.passkey_invitations import invite
from tests.browser.visiting import visiting
from tests.pages.checks import DESK, PHONE, violations
from tests.server.running import RunningServer, running

POLICY = {
    "mode": "required",
    "required_for": ["browser_submit"],
    "requirements": {"any_of": [{"all_of": [{"proof_type": "x-passkey"}]}]},
    "binding": {"case_id": True, "action": True, "freshness_seconds": 300, "single_use": True},
    "fallback": {"on_missing": "reject", "on_invalid": "reject"},
}
DEVICE = {
    "protocol": "ctap2",
    "transport": "internal",
    "hasResidentKey": True,
    "hasUserVerification": True,
    "isUserVerified": True,
    "automaticPresenceSimulation": True,
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    folder = tmp_path_factory.mktemp("passkeys")
    with running(folder, present=True, base_url="http://localhost:{port}") as server:
        yield server


@contextmanager
def holding_device(browser: Browser, size: Any = PHONE) -> Iterator[tuple[Page, CDPSession, str]]:
    """A person's browser with an authenticator of its own; the text is the authenticator's id."""
    with visiting(browser, size, shared=False) as page:
        device = page.context.new_cdp_session(page)
        device.send("WebAuthn.enable")
        id = device.send("WebAuthn.addVirtualAuthenticator", {"options": DEVICE})["authenticatorId"]
        yield page, device, id


def invite_person(server: RunningServer, email: str) -> str:
    token = server.run(invite(server.parts.store, email, name="Ada Lovelace", now=server.clock()))
    return f"{server.url}/passkeys/new?token={token}"


def register(server: RunningServer, page: Page, email: str) -> None:
    page.goto(invite_person(server, email))
    assert violations(page) == []
    page.get_by_role("button", name="Create my passkey").click()
    expect(page.get_by_role("heading", name="Your passkey is ready")).to_be_visible()


def decide(page: Page, hitl: dict[str, Any]) -> None:
    page.goto(hitl["review_url"])
    page.locator("button[value=confirm]").click()
    expect(page.get_by_role("heading", name="Confirm that it is you")).to_be_visible()


def status(agent: httpx.Client, hitl: dict[str, Any]) -> str:
    return str(agent.get(hitl["poll_url"]).json()["status"])


@pytest.mark.spec("0.8-browser-path")
@pytest.mark.parametrize("size", [PHONE, DESK], ids=["phone", "desk"])
def test_a_person_registers_a_passkey_and_proves_an_answer(
    server: RunningServer, agent: httpx.Client, browser: Browser, size: Any
) -> None:
    hitl = server.open(agent, verification_policy=POLICY)
    with holding_device(browser, size) as (page, _, _):
        register(server, page, "ada@acme.example")
        decide(page, hitl)
        assert violations(page) == []
        assert status(agent, hitl) == "opened"
        page.get_by_role("button", name="Use my passkey").click()
        expect(page.get_by_text("Answered by Ada Lovelace")).to_be_visible()
    assert agent.get(hitl["poll_url"]).json()["responded_by"]["email"] == "ada@acme.example"


def test_a_cancelled_dialog_and_a_device_without_the_passkey_record_nothing(
    server: RunningServer, agent: httpx.Client, browser: Browser
) -> None:
    hitl = server.open(agent, verification_policy=POLICY)
    with holding_device(browser) as (page, device, id):
        register(server, page, "grace@acme.example")
        decide(page, hitl)
        device.send("WebAuthn.setUserVerified", {"authenticatorId": id, "isUserVerified": False})
        page.get_by_role("button", name="Use my passkey").click()
        expect(page.get_by_text("Nothing was confirmed")).to_be_visible()
        assert status(agent, hitl) == "opened"
        device.send("WebAuthn.setUserVerified", {"authenticatorId": id, "isUserVerified": True})
        page.get_by_role("button", name="Use my passkey").click()
        expect(page.get_by_text("Answered by Ada Lovelace")).to_be_visible()


def test_of_two_tabs_one_answers(server: RunningServer, agent: httpx.Client, browser: Browser) -> None:
    hitl = server.open(agent, verification_policy=POLICY)
    with holding_device(browser) as (page, _, _):
        register(server, page, "joan@acme.example")
        decide(page, hitl)
        waiting = page.url
        decide(page, hitl)
        assert page.url != waiting
        page.get_by_role("button", name="Use my passkey").click()
        expect(page.get_by_text("Answered by Ada Lovelace")).to_be_visible()
        page.goto(waiting)
        expect(page.get_by_text("Answered by Ada Lovelace")).to_be_visible()


def test_without_scripts_the_page_says_what_to_do(
    server: RunningServer, agent: httpx.Client, browser: Browser
) -> None:
    hitl = server.open(agent, verification_policy=POLICY)
    with visiting(browser, PHONE, java_script_enabled=False) as page:
        page.goto(invite_person(server, "linda@acme.example"))
        expect(page.get_by_text("A passkey needs JavaScript")).to_be_visible()
        decide(page, hitl)
        expect(page.get_by_text("A passkey needs JavaScript")).to_be_visible()
        expect(page.get_by_role("button", name="Use my passkey")).to_be_disabled()
        page.get_by_role("link", name="Back to the question").click()
        expect(page.locator("button[value=confirm]")).to_be_visible()
    assert status(agent, hitl) == "opened"
