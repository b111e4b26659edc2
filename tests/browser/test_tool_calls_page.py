"""Deciding an agent's tool calls in a real browser, on a phone and at a desk, with scripts and without."""

from collections.abc import Callable
from copy import deepcopy
from datetime import timedelta
from typing import Any

import httpx
import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Locator, Page, expect

from placet.reviews.tool_calls.example import EXAMPLE
from tests.browser.visiting import BOTH, press, visiting
from tests.pages.checks import PHONE
from tests.server.running import RunningServer, events_of

Ask = Callable[..., dict[str, Any]]
CALLS: list[dict[str, Any]] = EXAMPLE["context"]["tool_calls"]
LETTER: dict[str, Any] = CALLS[0]["arguments"]
HOSTILE = '</fieldset></form><script>window.pwned=1</script><img src=x onerror="window.pwned=1">\u202egnp'


@pytest.fixture
def ask(server: RunningServer, agent: httpx.Client) -> Ask:
    def open_case(*calls: dict[str, Any], **changes: Any) -> dict[str, Any]:
        body = deepcopy(EXAMPLE)
        if calls:
            body["context"] = {"tool_calls": list(calls)}
        return server.open(agent, **{**body, **changes})

    return open_case


def answer_of(agent: httpx.Client, hitl: dict[str, Any]) -> Any:
    poll = agent.get(hitl["poll_url"]).json()
    if "result" not in poll:
        return poll["status"]
    return poll["result"]["action"], poll["result"]["data"]


def call_of(page: Page, number: int) -> Locator:
    return page.locator(f"#f-call-{number}")


def decide(page: Page, number: int, word: str) -> Locator:
    """Choose it, and what belongs to that choice."""
    page.get_by_label("Decide each call on its own").check()
    found = call_of(page, number)
    box = found.get_by_label(word, exact=True)
    box.check()
    return found.locator(f".when-{box.get_attribute('value')}").first


def form_of(page: Page, number: int) -> Locator:
    return page.locator(f"#edit-{number}")


def assert_accessible(page: Page) -> None:
    assert [one["id"] for one in Axe().run(page).response["violations"]] == []


def assert_nothing_sticks_out(page: Page) -> None:
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_a_person_decides_each_call_and_the_agent_hears_of_each(
    agent: httpx.Client, page: Page, ask: Ask, scripts: bool
) -> None:
    hitl = ask()
    page.goto(hitl["review_url"])
    expect(page.locator(".call")).to_have_count(3)
    expect(page.locator(".verdicts :checked")).to_have_count(0)
    expect(page.locator(".verdicts").first).to_be_hidden()
    expect(page.locator(".bar button:visible")).to_have_text(["Approve all", "Reject all"])
    expect(call_of(page, 1)).to_contain_text("asked for by Correspondence")
    expect(call_of(page, 2)).to_contain_text("High risk")
    expect(call_of(page, 3)).to_contain_text("2 times")
    expect(form_of(page, 1).get_by_label("Subject")).to_be_hidden()
    page.get_by_text("One more call runs with them").click()
    expect(page.get_by_text("search_orders")).to_be_visible()
    assert "47-11-63" not in page.content()
    assert_nothing_sticks_out(page)

    letter = decide(page, 1, "Approve with changes")
    letter.get_by_label("Subject").fill("Invoice 2026-118: four crates")
    letter.get_by_label("To").fill("accounts@pressworks.example\noffice@pressworks.example")
    letter.get_by_label("Priority").select_option(label="high")
    if not scripts:
        letter.get_by_role("button", name="Show my changes").click()
        assert page.url.endswith("#edit-1")
    else:
        expect(letter.get_by_role("button", name="Show my changes")).to_be_hidden()
        expect(page.locator(".decided")).to_have_text("Decided: 1 of 3")
    changes = letter.locator(".own:visible")
    expect(changes).to_have_count(3)
    expect(changes.nth(1).locator("ins")).to_contain_text("four crates")
    expect(changes.nth(2).locator("del")).to_contain_text("normal")
    expect(changes.nth(2).locator("ins")).to_contain_text("high")
    decide(page, 2, "Reject").get_by_label("Why not").fill("The barrels have not come.")
    decide(page, 3, "Approve")
    expect(page.locator(".bar button:visible")).to_have_text(["Send my decisions"])
    page.get_by_label("Note for the agent").fill("I am at the press.")
    if scripts:
        assert_accessible(page)
    press(page, "Send my decisions")

    expect(page.get_by_role("heading", level=1)).to_have_text("Decided call by call")
    for told in (
        "send_letter: approved with changes",
        "transfer_money: rejected",
        "set_reminder ×2: approved",
    ):
        expect(page.locator("main")).to_contain_text(told)
    expect(page.locator("main")).not_to_contain_text("new question")
    expect(page.locator("ins").last).to_contain_text("high")
    assert "47-11-63" not in page.content()
    edited = {
        **LETTER,
        "to": ["accounts@pressworks.example", "office@pressworks.example"],
        "subject": "Invoice 2026-118: four crates",
        "priority": "high",
    }
    assert answer_of(agent, hitl) == (
        "edit",
        {
            "decisions": {
                "call_letter": {"decision": "edit", "arguments": edited},
                "call_transfer": {"decision": "reject", "reason": "The barrels have not come."},
                "call_reminder_1": {"decision": "approve"},
                "call_reminder_2": {"decision": "approve"},
            },
            "note": "I am at the press.",
        },
    )


@BOTH
@pytest.mark.parametrize(("button", "word"), [("Approve all", "approve"), ("Reject all", "reject")])
def test_one_press_decides_all_calls(
    agent: httpx.Client, page: Page, ask: Ask, button: str, word: str
) -> None:
    hitl = ask()
    page.goto(hitl["review_url"])
    press(page, button)
    expect(page.get_by_role("heading", level=1)).to_have_text({"approve": "Approved"}.get(word, "Rejected"))
    action, data = answer_of(agent, hitl)
    assert action == word
    assert data == {"decisions": {call["id"]: {"decision": word} for call in CALLS}}


@BOTH
def test_what_does_not_fit_is_told_where_it_stands_and_nothing_is_lost(
    agent: httpx.Client, page: Page, ask: Ask, scripts: bool
) -> None:
    hitl = ask()
    page.goto(hitl["review_url"])
    money = decide(page, 2, "Approve with changes")
    money.get_by_label("Amount").fill("9000")
    money.get_by_label("Pin").fill("08-15-27")
    page.get_by_label("Decide each call on its own").uncheck()
    press(page, "Approve all")
    alert = page.get_by_role("alert")
    expect(alert).to_contain_text("You chose something else here")
    decide(page, 1, "Answer in its place")
    press(page, "Send my decisions")
    expect(alert).to_contain_text("Write what the agent should hear")
    expect(alert).to_contain_text("Decide about this call")
    expect(alert).to_contain_text("Write 5000 or less")
    expect(money.get_by_label("Amount")).to_have_value("9000")
    expect(money.get_by_label("Pin")).to_have_value("")
    expect(money).to_contain_text("Saved, and not shown again")
    assert "08-15-27" not in page.content()
    alert.get_by_role("link", name="amount").click()
    expect(money.get_by_label("Amount")).to_be_focused()
    assert answer_of(agent, hitl) == "in_progress"
    if scripts:
        assert_accessible(page)
    money.get_by_label("Amount").fill("900")
    call_of(page, 1).get_by_label("What the agent should hear").fill("I have called them.")
    decide(page, 3, "Reject")
    press(page, "Send my decisions")
    expect(page.get_by_role("heading", level=1)).to_have_text("Decided call by call")
    action, data = answer_of(agent, hitl)
    decisions = data["decisions"]
    assert action == "edit"
    assert decisions["call_letter"] == {"decision": "respond", "answer": "I have called them."}
    assert decisions["call_transfer"]["arguments"] == {
        **CALLS[1]["arguments"],
        "amount": 900,
        "pin": "08-15-27",
    }
    assert "08-15-27" not in page.content()


@BOTH
def test_half_made_decisions_wait_for_the_person(
    agent: httpx.Client, browser: Browser, page: Page, ask: Ask, scripts: bool
) -> None:
    hitl = ask()
    page.goto(hitl["review_url"])
    decide(page, 1, "Approve with changes").get_by_label("Subject").fill("A better subject")
    reason = decide(page, 2, "Reject").get_by_label("Why not")
    if scripts:
        with page.expect_response(lambda reply: "reason.2=Later" in (reply.request.post_data or "")):
            reason.fill("Later")
            page.get_by_label("Note for the agent").focus()
        expect(page.locator(".kept")).to_contain_text("Saved at")
    else:
        reason.fill("Later")
        call_of(page, 1).get_by_role("button", name="Show my changes").click()
    with visiting(browser, PHONE, java_script_enabled=not scripts) as other:
        other.goto(hitl["review_url"])
        expect(call_of(other, 1).get_by_label("Approve with changes")).to_be_checked()
        expect(form_of(other, 1).get_by_label("Subject")).to_have_value("A better subject")
        expect(call_of(other, 1).locator("ins").first).to_contain_text("A better subject")
        expect(call_of(other, 2).get_by_label("Why not")).to_have_value("Later")
        expect(call_of(other, 3).locator(".verdicts :checked")).to_have_count(0)
    assert answer_of(agent, hitl) == "in_progress"


@BOTH
def test_a_reason_that_one_press_would_send_is_in_sight(
    server: RunningServer, agent: httpx.Client, page: Page, ask: Ask
) -> None:
    hitl = ask()
    with server.page(hitl) as other:  # somebody else with the link wrote it, and decided nothing
        assert other.post("draft", {"reason.2": "Ask Eve instead"}).response.status_code == 200
    page.goto(hitl["review_url"])
    expect(call_of(page, 2).get_by_label("Why not")).to_be_visible()
    expect(call_of(page, 1).get_by_label("Why not")).to_be_hidden()
    call_of(page, 2).get_by_label("Why not").fill("")
    press(page, "Reject all")
    expect(page.get_by_text("This question is answered", exact=True)).to_be_visible()
    decisions = agent.get(hitl["poll_url"]).json()["result"]["data"]["decisions"].values()
    assert all(one == {"decision": "reject"} for one in decisions)


@BOTH
def test_only_what_is_allowed_is_offered(agent: httpx.Client, page: Page, ask: Ask) -> None:
    hitl = ask(
        {"id": "a", "name": "ask_expert", "arguments": {}, "allowed_decisions": ["respond", "reject"]},
        inline_actions=["reject"],
    )
    page.goto(hitl["review_url"])
    expect(page.locator(".bar button")).to_have_text(["Send this answer", "Reject"])
    expect(page.get_by_role("button", name="Approve")).to_have_count(0)
    page.get_by_label("What the agent should hear").fill("Ask me.\nNot her.")
    press(page, "Send this answer")
    expect(page.locator("main")).to_contain_text("ask_expert: answered in its place")
    assert answer_of(agent, hitl) == (
        "edit",
        {"decisions": {"a": {"decision": "respond", "answer": "Ask me.\nNot her."}}},
    )


@BOTH
def test_hostile_calls_are_only_texts(agent: httpx.Client, page: Page, ask: Ask, scripts: bool) -> None:
    schema = {
        "properties": {
            HOSTILE.replace("\u202e", ""): {"type": "string", "description": HOSTILE},
            "tree": {"$ref": "#"},
            "pick": {"enum": [HOSTILE, "plain"]},
            **{f"p{n}": {"type": "string"} for n in range(5)},
        }
    }
    name = HOSTILE.replace("\u202e", "")
    hitl = ask(
        {
            "id": HOSTILE[:150],
            "name": HOSTILE,
            "description": HOSTILE,
            "path": [HOSTILE],
            "arguments": {name: HOSTILE, "pick": HOSTILE, "tree": {"tree": {"tree": {}}}, "x": "y" * 50_000},
            "schema": schema,
        }
    )
    page.goto(hitl["review_url"])
    expect(page.locator(".call h3")).to_contain_text("⟦U+202E⟧")
    page.get_by_text("Change it first").click()
    page.locator('[name="edit.1.pick"]').select_option(label="plain")
    press(page, "Approve with changes")
    expect(page.get_by_role("heading", level=1)).to_have_text("Decided call by call")
    if scripts:
        assert page.evaluate("window.pwned") is None
        expect(page.locator("main script, main img")).to_have_count(0)
    (decision,) = answer_of(agent, hitl)[1]["decisions"].values()
    assert decision["arguments"]["pick"] == "plain"
    assert decision["arguments"][name] == HOSTILE


def test_two_hundred_calls_can_be_decided_on_a_phone(
    server: RunningServer, agent: httpx.Client, browser: Browser, ask: Ask
) -> None:
    calls = [
        {**CALLS[2], "id": f"call_{n}", "arguments": {"topic": f"Matter {n}", "days": 1 + n % 30}}
        for n in range(200)
    ]
    hitl = ask(*calls)
    with visiting(browser, PHONE, quiet_console=True) as page:
        page.goto(hitl["review_url"])
        expect(page.locator(".call")).to_have_count(200)
        decide(page, 200, "Reject")
        page.locator(".call:not(:last-of-type) [value=approve]").evaluate_all(
            "all => all.forEach(box => box.click())"
        )
        expect(page.locator(".decided")).to_have_text("Decided: 200 of 200")
        press(page, "Send my decisions")
        expect(page.get_by_role("heading", level=1)).to_have_text("Decided call by call")
    action, data = answer_of(agent, hitl)
    assert action == "edit"
    assert [said["decision"] for said in data["decisions"].values()] == ["approve"] * 199 + ["reject"]


def test_a_large_argument_is_refused_or_shown_and_cannot_be_changed(
    server: RunningServer, agent: httpx.Client, browser: Browser, ask: Ask
) -> None:
    large = {"id": "a", "name": "write_file", "arguments": {"text": "word " * 200_000}}
    body = {**EXAMPLE, "context": {"tool_calls": [large]}}
    assert agent.post("/v1/cases", json=body).status_code in (400, 413)
    hitl = ask({**large, "arguments": {"text": "word " * 40_000}})
    with visiting(browser, PHONE, quiet_console=True) as page:
        page.goto(hitl["review_url"])
        expect(page.get_by_text("too large to be changed here")).to_be_visible()
        expect(page.locator(".bar button")).to_have_text(["Approve", "Reject"])
        press(page, "Approve")
        expect(page.get_by_role("heading", level=1)).to_have_text("Approved")
    assert answer_of(agent, hitl)[0] == "approve"


def test_it_reads_well_narrow_dark_and_from_right_to_left(
    server: RunningServer, browser: Browser, ask: Ask
) -> None:
    hitl = ask()
    with visiting(browser, {"width": 320, "height": 640}, color_scheme="dark", locale="ar") as page:
        page.goto(hitl["review_url"])
        expect(page.locator("html")).to_have_attribute("dir", "rtl")
        page.locator("#f-each").check()
        page.locator("#d-1-edit").check()
        page.locator("#d-2-reject").check()
        assert_nothing_sticks_out(page)
        assert_accessible(page)


def test_deadlines_and_reminders_hold_for_tool_calls_too(
    server: RunningServer, agent: httpx.Client, ask: Ask
) -> None:
    hitl = ask(timeout="2h", reminder_at=(server.clock() + timedelta(hours=1)).isoformat())
    server.advance(hours=1, minutes=1)
    server.sweep()
    server.advance(hours=1)
    poll = agent.get(hitl["poll_url"]).json()
    assert (poll["status"], poll["default_action"]) == ("expired", "reject")
    assert "result" not in poll
    told = [name for _, name, _ in events_of(agent.get(hitl["events_url"]).text)]
    assert told[-2:] == ["review.reminder", "review.expired"]
    assert server.press(hitl, "approve").status_code == 410
