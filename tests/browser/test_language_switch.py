"""A person who changes the language half-way keeps what they typed, with scripts and without."""

from typing import Any

import httpx
from playwright.sync_api import Browser, Page, expect

from tests.browser.visiting import BOTH, Way, press, visiting
from tests.server.running import RunningServer

WORD = {"items": [{"id": "db", "label": "The database"}], "confirm_word": "DELETE"}


def field(key: str, **more: Any) -> dict[str, Any]:
    return {"key": key, "label": key.capitalize(), "type": "text", **more}


def speaks(page: Page, language: str) -> None:
    expect(page.locator("html")).to_have_attribute("lang", language)


def draft_of(server: RunningServer, hitl: dict[str, Any]) -> dict[str, Any]:
    draft = server.run(server.parts.desk.store.get_draft(hitl["case_id"]))
    assert draft is not None
    return dict(draft.values)


@BOTH
def test_a_form_in_steps_keeps_its_step_and_what_was_typed(
    browser: Browser, server: RunningServer, agent: httpx.Client, way: Way
) -> None:
    secret = field("pin", sensitive=True)
    steps = [
        {"title": "You", "fields": [field("name", required=True)]},
        {"title": "Trip", "fields": [field("town", required=True), secret, field("street")]},
    ]
    form = server.open(agent, type="input", context={"form": {"steps": steps}})
    with visiting(browser, way[1], java_script_enabled=way[0]) as page:
        page.goto(form["review_url"])
        page.get_by_label("Name").fill("Ada")
        press(page, "Deutsch")
        speaks(page, "de")
        expect(page.get_by_label("Name")).to_have_value("Ada")
        press(page, "Weiter")
        page.get_by_label("Street").fill("Quay 4")
        page.get_by_label("Pin").fill("12-34-56")
        press(page, "Français")
        speaks(page, "fr")
        expect(page.locator(".steps")).to_have_text("Étape 2 sur 3")
        expect(page.get_by_label("Street")).to_have_value("Quay 4")
        expect(page.get_by_label("Pin")).to_have_value("")
        expect(page.locator("#h-pin")).to_contain_text("Sauvegardé")
        assert "12-34-56" not in page.content()
    assert draft_of(server, form) == {"name": "Ada", "town": "", "pin": "12-34-56", "street": "Quay 4"}


@BOTH
def test_notes_and_ticks_are_kept_and_no_deed_is(
    browser: Browser, server: RunningServer, agent: httpx.Client, way: Way
) -> None:
    letter = server.open(agent, type="approval", context={"artifact": {"body": "Dear Ada"}})
    deed = server.open(agent, context=WORD)
    with visiting(browser, way[1], java_script_enabled=way[0]) as page:
        page.goto(letter["review_url"])
        page.get_by_label("Feedback").fill("Say good morning first")
        page.get_by_text("Change it yourself").click()
        page.get_by_label("Body").fill("Dear Bea")
        press(page, "Español")
        speaks(page, "es")
        expect(page.locator("#f-feedback")).to_have_value("Say good morning first")
        expect(page.get_by_label("Body")).to_have_value("Dear Bea")
        page.goto(deed["review_url"])
        page.get_by_label("The database").check()
        page.locator("#f-confirm_word").fill("DELETE")
        press(page, "English")
        speaks(page, "en")
        expect(page.get_by_label("The database")).to_be_checked()
    assert draft_of(server, letter) == {"feedback": "Say good morning first", "edits": {"body": "Dear Bea"}}
    assert draft_of(server, deed) == {"confirmed_items": ["db"], "note": ""}
    statuses = [agent.get(f"/v1/reviews/{one['case_id']}/status").json()["status"] for one in (letter, deed)]
    assert set(statuses) <= {"opened", "in_progress"}


def test_a_question_that_closed_meanwhile_is_told_in_the_new_language(
    browser: Browser, server: RunningServer, agent: httpx.Client
) -> None:
    hitl = server.open(agent, inline_actions=["confirm"])
    with visiting(browser, java_script_enabled=False) as page:
        page.goto(hitl["review_url"])
        server.press(hitl, "confirm")
        press(page, "Deutsch")
        speaks(page, "de")
        expect(page.get_by_role("heading", level=1)).to_have_text("Bestätigt")
        assert page.url.endswith(hitl["case_id"])
