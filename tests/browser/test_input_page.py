"""The input page in a real browser against a real server: filled in, saved, resumed, checked and sent."""

from typing import Any

import httpx
import pytest
from playwright.sync_api import Browser, Page, expect

from placet.reviews.registry import REVIEW_TYPES
from tests.browser.visiting import give_back, take_tab
from tests.pages.checks import OVERFLOWS, RENDERED, painted, violations
from tests.server.running import RunningServer
from tests.waiting import eventually

PHONE: dict[str, Any] = {"viewport": {"width": 390, "height": 844}, "is_mobile": True, "has_touch": True}
DESK: dict[str, Any] = {"viewport": {"width": 1280, "height": 900}}
PASSPORT = "C01X00T47"


def opened(
    browser: Browser, hitl: dict[str, Any], *, js: bool = True, device: dict[str, Any] = PHONE
) -> Page:
    page = take_tab(browser, **device, java_script_enabled=js)
    page.goto(hitl["review_url"])
    return page


def option(*labels: str) -> list[dict[str, str]]:
    return [{"value": label.lower(), "label": label} for label in labels]


def field(key: str, type: str, **more: Any) -> dict[str, Any]:
    return {"key": key, "label": key.capitalize(), "type": type, **more}


EVERY_TYPE = [
    field("name", "text", placeholder="Ada Lovelace", hint="As in your passport.", required=True),
    field("story", "textarea", validation={"maxLength": 20}),
    field("amount", "number", validation={"min": 0, "max": 50}),
    field("below", "number", validation={"min": -50}),
    field("share", "range", validation={"min": 0, "max": 10}),
    field("day", "date", validation={"min": "2026-01-01", "max": "2026-12-31"}),
    field("email", "email"),
    field("site", "url"),
    field("agreed", "boolean"),
    field("mobile", "text", conditional={"field": "agreed", "operator": "eq", "value": True}),
    field("speed", "select", options=option("Slow", "Fast"), required=True),
    field("country", "select", options=option("At", "Be", "Cl", "De", "Ee", "Fr", "Gh")),
    field("tags", "multiselect", options=option("Late", "Lost")),
    field("pin", "text", sensitive=True),
    field("memo", "textarea", sensitive=True),
    field("colour", "x-colour"),
]


def ask(server: RunningServer, agent: httpx.Client, *fields: dict[str, Any]) -> dict[str, Any]:
    return server.open(
        agent,
        type="input",
        prompt="Who are you?",
        service="Desk",
        context={"form": {"fields": list(fields)}},
    )


def ask_journey(server: RunningServer, agent: httpx.Client) -> dict[str, Any]:
    return server.open(agent, **REVIEW_TYPES["input"].example())


def onward(page: Page, name: str = "Continue") -> None:
    page.locator(".bar").get_by_role("button", name=name, exact=True).click()


def fill_journey(page: Page, *, way: str) -> None:
    page.get_by_label("Name as in your passport").fill("Ada Lovelace")
    page.get_by_label("Where tickets should be sent").fill("ada@example.org")
    page.get_by_label("Day of arrival").fill("2026-09-07")
    page.get_by_label(way).check()


def fill_stay(page: Page) -> None:
    page.get_by_label("Nights").fill("2")
    page.get_by_role("group", name="step-free").get_by_label("No", exact=True).check()
    page.get_by_label("Vegan").check()


def saved(page: Page) -> None:
    """Wait until nothing typed is left to save."""
    expect(page.locator(".kept:not(.unsaved)")).to_be_visible()


def poll(agent: httpx.Client, hitl: dict[str, Any]) -> Any:
    return agent.get(hitl["poll_url"]).json()


def draft(server: RunningServer, hitl: dict[str, Any]) -> dict[str, Any]:
    found = server.run(server.parts.store.get_draft(hitl["case_id"]))
    return dict(found.values) if found else {}


@pytest.mark.each_value
@pytest.mark.parametrize("device", [PHONE, DESK], ids=str)
@pytest.mark.parametrize("js", [True, False])
def test_a_wizard_is_filled_in_checked_changed_and_sent(
    browser: Browser, server: RunningServer, agent: httpx.Client, js: bool, device: dict[str, Any]
) -> None:
    hitl = ask_journey(server, agent)
    page = opened(browser, hitl, js=js, device=device)
    expect(page.get_by_text("Step 1 of 3")).to_be_visible()
    fill_journey(page, way="By plane")
    if not js:
        onward(page)
        expect(page.get_by_text("brings up one more question")).to_be_visible()
    page.get_by_label("Passport number").fill(PASSPORT)
    onward(page)
    expect(page.get_by_text("Step 2 of 3")).to_be_visible()
    assert poll(agent, hitl)["progress"]["current_step"] == 2
    fill_stay(page)
    onward(page, "Back")
    expect(page.get_by_label("Name as in your passport")).to_have_value("Ada Lovelace")
    expect(page.get_by_label("Passport number")).to_have_value("")
    onward(page)
    expect(page.get_by_label("Vegan")).to_be_checked()
    onward(page)
    expect(page.get_by_text("•••• entered")).to_be_visible()
    assert PASSPORT not in page.content()
    page.get_by_role("button", name="Change Your journey").click()
    page.get_by_label("Name as in your passport").fill("Ada King")
    onward(page, "Check your answers")
    expect(page.get_by_text("Ada King")).to_be_visible()
    onward(page, "Send my answers")
    expect(page.get_by_text("It cannot be changed any more.")).to_be_visible()
    assert PASSPORT not in page.content()
    give_back(page)
    data = poll(agent, hitl)["result"]["data"]
    assert (data["traveller"], data["passport"], data["nights"]) == ("Ada King", PASSPORT, 2)


def test_a_form_left_on_one_device_is_taken_up_on_another(
    browser: Browser, server: RunningServer, agent: httpx.Client
) -> None:
    hitl = ask_journey(server, agent)
    phone = opened(browser, hitl)
    fill_journey(phone, way="By plane")
    phone.get_by_label("Passport number").fill(PASSPORT)
    onward(phone)
    phone.get_by_label("Nights").fill("5")
    phone.get_by_label("Anything the hotel should know").fill("A quiet room")
    phone.close()  # without another press; its context stays, which would take an unsent request with it
    eventually(lambda: draft(server, hitl).get("wishes") == "A quiet room")
    phone.context.close()
    desk = opened(browser, hitl, device=DESK)
    expect(desk.get_by_text("Step 2 of 3")).to_be_visible()
    expect(desk.get_by_label("Nights")).to_have_value("5")
    expect(desk.get_by_label("Anything the hotel should know")).to_have_value("A quiet room")
    assert PASSPORT not in desk.content()
    onward(desk, "Back")
    expect(desk.get_by_label("Where tickets should be sent")).to_have_value("ada@example.org")
    expect(desk.get_by_text("Saved, and not shown again.")).to_be_visible()
    assert PASSPORT not in desk.content()
    give_back(desk)
    progress = poll(agent, hitl)["progress"]
    assert (progress["total_steps"], progress["completed_fields"] >= 5) == (3, True)
    assert PASSPORT not in agent.get(hitl["poll_url"]).text


def test_two_devices_save_field_by_field(
    browser: Browser, server: RunningServer, agent: httpx.Client
) -> None:
    hitl = ask_journey(server, agent)
    phone, desk = opened(browser, hitl), opened(browser, hitl, device=DESK)
    phone.get_by_label("Name as in your passport").fill("Ada")
    saved(phone)
    desk.get_by_label("Where tickets should be sent").fill("ada@example.org")
    saved(desk)
    eventually(lambda: draft(server, hitl).get("email"))
    assert draft(server, hitl)["traveller"] == "Ada"
    give_back(phone)
    give_back(desk)


def test_answers_changed_elsewhere_are_checked_again_before_they_count(
    browser: Browser, server: RunningServer, agent: httpx.Client
) -> None:
    hitl = ask_journey(server, agent)
    phone, desk = opened(browser, hitl), opened(browser, hitl, device=DESK)
    fill_journey(phone, way="I come on my own")
    onward(phone)
    fill_stay(phone)
    onward(phone)
    expect(phone.get_by_text("Ada Lovelace")).to_be_visible()
    desk.get_by_label("Name as in your passport").fill("Someone Else")
    saved(desk)
    onward(phone, "Send my answers")
    expect(phone.get_by_text("changed elsewhere meanwhile")).to_be_visible()
    expect(phone.get_by_text("Someone Else")).to_be_visible()
    assert poll(agent, hitl)["status"] == "in_progress"
    onward(phone, "Send my answers")
    expect(phone.get_by_text("It cannot be changed any more.")).to_be_visible()
    give_back(phone)
    give_back(desk)


@pytest.mark.parametrize("device", [PHONE, DESK], ids=["phone", "desk"])
def test_questions_come_and_go_with_the_answers_and_nothing_typed_is_lost(
    browser: Browser, server: RunningServer, agent: httpx.Client, device: dict[str, Any]
) -> None:
    hitl = ask_journey(server, agent)
    page = opened(browser, hitl, device=device)
    passport, railcard = page.get_by_label("Passport number"), page.get_by_label("Railcard number")
    expect(passport).to_be_hidden()
    page.get_by_label("By plane").check()
    expect(passport).to_be_visible()
    expect(page.locator(".heard")).to_have_text("Your answer brings up another question below.")
    passport.fill(PASSPORT)
    page.get_by_label("By train").check()
    expect(page.locator(".problem")).to_have_count(0)  # what was said of the empty box is over
    expect(railcard).to_be_visible()
    expect(passport).to_be_hidden()
    expect(passport).to_be_disabled()
    page.get_by_label("By plane").check()
    expect(passport).to_have_value(PASSPORT)
    give_back(page)


def test_a_problem_is_told_beside_the_field_once_it_is_left_and_goes_when_mended(
    browser: Browser, server: RunningServer, agent: httpx.Client
) -> None:
    hitl = ask_journey(server, agent)
    page = painted(opened(browser, hitl))
    email = page.get_by_label("Where tickets should be sent")
    email.press_sequentially("nowhere")
    saved(page)
    expect(page.locator(".problem")).to_have_count(0)  # not while it is typed
    page.keyboard.press("Tab")
    problem = page.locator("[data-field=email] .problem")
    expect(problem).to_contain_text("Write an email address, such as name@example.com.")
    expect(email).to_have_attribute("aria-invalid", "true")
    expect(email).to_have_attribute("aria-describedby", "e-email")
    expect(page.locator(".heard")).to_contain_text("Write an email address")
    expect(page.locator("[data-field=traveller] .problem")).to_have_count(0)  # untouched
    email.fill("ada@example.org")
    expect(problem).to_have_count(0)
    assert email.get_attribute("aria-invalid") is None
    give_back(page)


def test_problems_after_a_press_go_one_by_one(
    browser: Browser, server: RunningServer, agent: httpx.Client
) -> None:
    hitl = ask(server, agent, field("name", "text", required=True), field("age", "number", required=True))
    page = opened(browser, hitl, device=DESK)
    onward(page, "Send my answers")
    expect(page.get_by_role("alert").get_by_role("link")).to_have_count(2)
    page.get_by_label("Name").fill("Ada")
    expect(page.get_by_role("alert").get_by_role("link")).to_have_count(1)
    page.get_by_label("Age", exact=True).fill("36")
    expect(page.get_by_role("alert")).to_have_count(0)
    onward(page, "Send my answers")
    expect(page.get_by_text("It cannot be changed any more.")).to_be_visible()
    give_back(page)


def test_a_lost_network_is_told_and_what_was_typed_is_saved_when_it_is_back(
    browser: Browser, server: RunningServer, agent: httpx.Client
) -> None:
    hitl = ask_journey(server, agent)
    page = opened(browser, hitl)
    name = page.get_by_label("Name as in your passport")
    name.fill("Ada")
    saved(page)
    page.context.set_offline(True)
    name.fill("Ada Lovelace")
    expect(page.locator(".kept.unsaved")).to_have_text("Not saved yet; still trying.")
    expect(page.locator(".heard")).to_have_text("Not saved yet; still trying.")
    assert draft(server, hitl)["traveller"] == "Ada"
    page.context.set_offline(False)
    saved(page)
    assert draft(server, hitl)["traveller"] == "Ada Lovelace"
    give_back(page)


def test_a_question_closed_meanwhile_is_told_and_nothing_more_is_saved(
    browser: Browser, server: RunningServer, agent: httpx.Client
) -> None:
    hitl = ask_journey(server, agent)
    page = opened(browser, hitl)
    page.route("**/events", lambda route: route.abort())
    page.reload()
    agent.post(f"/v1/reviews/{hitl['case_id']}/cancel", json={}).raise_for_status()
    page.get_by_label("Name as in your passport").fill("Ada")
    expect(page.locator(".kept.unsaved")).to_have_text("Not saved: this question is closed.")
    give_back(page)


def test_a_page_that_lost_its_session_says_how_to_go_on(
    browser: Browser, server: RunningServer, agent: httpx.Client
) -> None:
    page = opened(browser, ask_journey(server, agent))
    page.context.clear_cookies()
    page.get_by_label("Name as in your passport").fill("Ada")
    expect(page.locator(".kept.unsaved")).to_contain_text("Copy what you typed, then open your link again.")
    give_back(page)


def test_a_form_in_use_is_accessible_and_fits_a_narrow_screen(
    browser: Browser, server: RunningServer, agent: httpx.Client
) -> None:
    narrow = {"viewport": {"width": 320, "height": 640}}
    page = opened(browser, ask(server, agent, *EVERY_TYPE), device=narrow)
    page.get_by_label("Story").fill("More than twenty signs")
    page.get_by_label("Email").fill("nowhere")
    page.get_by_role("group", name="Agreed").get_by_label("Yes").check()
    expect(page.get_by_label("Mobile")).to_be_visible()
    expect(page.locator("[data-field=email] .problem")).to_be_visible()
    saved(page)
    found = [violations(page)]
    page.emulate_media(color_scheme="dark", reduced_motion="reduce")
    found.append(violations(page, RENDERED))
    wide = page.evaluate(OVERFLOWS)
    give_back(page)
    assert found == [[], []]
    assert not wide


def test_every_field_brings_up_its_keyboard(
    browser: Browser, server: RunningServer, agent: httpx.Client
) -> None:
    page = opened(browser, ask(server, agent, *EVERY_TYPE))
    wanted = {
        "name": ("text", None, "name"),
        "amount": ("text", "decimal", "off"),
        "below": ("text", None, "off"),  # some number pads have no minus
        "share": ("text", "decimal", "off"),
        "day": ("date", None, None),
        "email": ("email", "email", "email"),
        "site": ("url", "url", "url"),
        "mobile": ("tel", "tel", "tel"),
        "pin": ("password", None, "off"),
        "colour": ("text", None, None),
    }
    for key, attributes in wanted.items():
        control = page.locator(f"#f-{key}")
        found = tuple(control.get_attribute(name) for name in ("type", "inputmode", "autocomplete"))
        assert (key, found) == (key, attributes)
    expect(page.locator("#f-day")).to_have_attribute("min", "2026-01-01")
    expect(page.get_by_label("Name")).to_have_accessible_description("As in your passport.")
    expect(page.get_by_role("group", name="Speed").get_by_role("radio")).to_have_count(2)
    expect(page.get_by_role("group", name="Agreed").get_by_role("radio")).to_have_count(3)  # or no answer
    expect(page.get_by_role("group", name="Tags").get_by_role("checkbox")).to_have_count(2)
    expect(page.get_by_label("Country").get_by_role("option")).to_have_count(8)
    expect(page.get_by_text("Questions not marked as optional need an answer.")).to_be_visible()
    give_back(page)


def test_counts_sliders_and_secrets_help(
    browser: Browser, server: RunningServer, agent: httpx.Client
) -> None:
    hitl = ask(server, agent, *EVERY_TYPE)
    page = opened(browser, hitl, device=DESK)
    page.get_by_label("Story").fill("Twelve signs")
    expect(page.get_by_text("12 of 20 characters")).to_be_visible()
    page.get_by_label("Story").fill("More than twenty signs")
    expect(page.locator(".count.over")).to_have_text("22 of 20 characters")
    page.get_by_label("Share").fill("7")
    expect(page.locator("input[type=range]")).to_have_value("7")
    page.locator("input[type=range]").fill("3")
    expect(page.get_by_label("Share")).to_have_value("3")
    page.get_by_label("Pin").fill("47-11-63")
    page.get_by_role("button", name="Show Pin").click()
    expect(page.get_by_label("Pin")).to_have_attribute("type", "text")
    page.get_by_role("button", name="Hide Pin").click()
    expect(page.get_by_label("Pin")).to_have_attribute("type", "password")
    eventually(lambda: draft(server, hitl).get("pin") == "47-11-63")
    page.get_by_label("Pin").fill("")
    eventually(lambda: not draft(server, hitl).get("pin"))  # typed here and taken back
    page.get_by_label("Pin").fill("08-15-27")
    eventually(lambda: draft(server, hitl).get("pin") == "08-15-27")
    page.reload()
    assert "08-15-27" not in page.content()
    page.get_by_role("textbox", name="Pin").fill("")
    page.get_by_label("Name").fill("Ada")
    eventually(lambda: draft(server, hitl).get("name") == "Ada")
    assert draft(server, hitl)["pin"] == "08-15-27"  # an untouched box keeps it
    page.locator("#f-pin-emptied").check()
    eventually(lambda: not draft(server, hitl).get("pin"))
    give_back(page)


def test_the_browsers_own_back_finds_the_step_before(
    browser: Browser, server: RunningServer, agent: httpx.Client
) -> None:
    for js in (True, False):
        hitl = ask_journey(server, agent)
        page = opened(browser, hitl, js=js)
        fill_journey(page, way="I come on my own")
        onward(page)
        fill_stay(page)
        onward(page)
        expect(page.get_by_text("Step 3 of 3")).to_be_visible()
        page.go_back()
        expect(page.get_by_text("Step 2 of 3")).to_be_visible()
        page.go_back()
        expect(page.get_by_text("Step 1 of 3")).to_be_visible()
        expect(page.get_by_label("Name as in your passport")).to_have_value("Ada Lovelace")
        page.go_forward()
        expect(page.get_by_text("Step 2 of 3")).to_be_visible()
        page.goto(page.url.partition("?")[0] + "?step=2")
        expect(page.get_by_role("button", name="Send my answers")).to_be_visible()
        give_back(page)
    fresh = opened(browser, ask_journey(server, agent))
    fresh.goto(fresh.url.partition("?")[0] + "?step=2")
    expect(fresh.get_by_text("Step 1 of 3")).to_be_visible()  # nobody jumps to the end
    give_back(fresh)


def test_the_whole_form_by_keyboard(browser: Browser, server: RunningServer, agent: httpx.Client) -> None:
    hitl = ask_journey(server, agent)
    page = opened(browser, hitl, device=DESK)
    painted(page).get_by_label("Name as in your passport").focus()
    page.keyboard.type("Ada Lovelace")
    page.keyboard.press("Tab")
    page.keyboard.type("ada@example.org")
    page.keyboard.press("Tab")
    page.keyboard.type("09072026")
    while page.evaluate("document.activeElement.type") != "radio":
        page.keyboard.press("Tab")
    page.keyboard.press("ArrowUp")  # from none to the last
    expect(page.get_by_label("I come on my own")).to_be_checked()
    page.keyboard.press("Enter")
    expect(page.get_by_text("Step 2 of 3")).to_be_visible()
    page.get_by_label("Nights").focus()
    page.keyboard.press("Tab")
    page.keyboard.press("Space")
    expect(page.get_by_role("group", name="step-free").get_by_label("Yes")).to_be_checked()
    page.keyboard.press("Tab")
    page.keyboard.press("Space")
    expect(page.get_by_label("Meat")).to_be_checked()
    page.keyboard.press("Enter")
    expect(page.get_by_text("Step 3 of 3")).to_be_visible()
    page.get_by_role("button", name="Send my answers").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_text("It cannot be changed any more.")).to_be_visible()
    give_back(page)
    assert poll(agent, hitl)["result"]["data"]["arrival"] == "2026-09-07"


def type_into(page: Page, type: str) -> None:
    if type == "selection":
        page.get_by_label("Garden Room").check()
    note = "reason" if type == "escalation" else "feedback" if type == "approval" else "note"
    page.locator(f"form.answer [name={note}]").fill("Kept for later")


@pytest.mark.parametrize("type", ["approval", "selection", "confirmation", "escalation"])
def test_a_note_on_any_page_is_saved_too(
    browser: Browser, server: RunningServer, agent: httpx.Client, type: str
) -> None:
    hitl = server.open(agent, **REVIEW_TYPES[type].example())
    phone = opened(browser, hitl)
    type_into(phone, type)
    eventually(lambda: "Kept for later" in str(draft(server, hitl)))
    give_back(phone)
    desk = opened(browser, hitl, device=DESK)
    expect(desk.locator("form.answer textarea").last).to_have_value("Kept for later")
    if type == "selection":
        expect(desk.get_by_label("Garden Room")).to_be_checked()
    give_back(desk)


def test_a_post_that_is_not_ours_saves_nothing(server: RunningServer, agent: httpx.Client) -> None:
    hitl = ask_journey(server, agent)
    with server.page(hitl) as page:
        typed = {"asked": "traveller", "field.traveller": "Ada", "step": "0"}
        for csrf in ("", "x"):
            assert page.post("draft", {**typed, "csrf": csrf}).response.status_code == 401
        assert page.client.get(f"{page.response.url.copy_with(query=None)}/draft").status_code == 401
        assert draft(server, hitl) == {}
        kept = page.post("draft", typed).response
        assert (kept.status_code, kept.headers["cache-control"]) == (200, "no-store")
        assert "traveller" not in kept.json()["problems"]
        assert kept.json()["problems"]["email"] == "Fill this in."
        agent.post(f"/v1/reviews/{hitl['case_id']}/cancel", json={}).raise_for_status()
        assert page.post("draft", typed).response.status_code == 409
    with server.client() as stranger:
        address = f"/review/{hitl['case_id']}/draft"
        assert stranger.post(address, data=typed).status_code == 401
    assert draft(server, hitl) == {}


def test_problems_are_told_in_the_persons_language(
    browser: Browser, server: RunningServer, agent: httpx.Client
) -> None:
    hitl = ask_journey(server, agent)
    page = opened(browser, hitl, device={**PHONE, "locale": "de-DE"})
    page.locator("#f-email").fill("nirgends")
    page.locator("#f-arrival").focus()
    expect(page.locator("[data-field=email] .problem")).to_contain_text("E-Mail")
    give_back(page)


def test_a_save_that_was_overtaken_by_a_press_takes_nobody_back(
    server: RunningServer, agent: httpx.Client
) -> None:
    hitl = ask_journey(server, agent)
    typed = {"field.traveller": "Ada", "field.email": "a@example.org", "field.arrival": "2026-09-07"}
    asked = {"asked": ["traveller", "email", "arrival", "way"], "step": "0", "field.way": "own", **typed}
    with server.page(hitl) as page:
        second = page.post("respond", {**asked, "action": "x-next"})
        assert "Step 2 of 3" in second.text
        late = page.post("draft", {"asked": "traveller", "step": "0", "field.traveller": "Ada"})
        assert late.response.status_code == 200
        assert poll(agent, hitl)["progress"]["current_step"] == 2
    with server.page(hitl) as later:
        assert "Step 2 of 3" in later.text
