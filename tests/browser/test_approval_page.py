"""Approving, changing and rejecting in a real browser, on a phone and at a desk, with scripts and without."""

import random
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from playwright.sync_api import Browser, Page, expect

from placet.pages.diffs import compare
from placet.reviews.approval.example import EXAMPLE
from tests.browser.visiting import BOTH, press
from tests.pages.checks import DESK, violations
from tests.server.running import RunningServer

Ask = Callable[..., dict[str, Any]]
BODY: str = EXAMPLE["context"]["artifact"]["body"]
PRESETS = ["The tone is wrong", {"label": "Too generous", "text": "We do not give money back here."}]
COMPARE = """async ([module, texts]) => {
    const { compare } = await import(module);
    return texts.map(([before, now]) => compare(before, now));
}"""
HOSTILE = '</textarea><script>window.pwned=1</script><img src=x onerror="window.pwned=1"> \u202egnp.exe'


@pytest.fixture
def ask(server: RunningServer, agent: httpx.Client) -> Ask:
    def open_case(artifact: Any = None, previous: dict[str, Any] | None = None, **context: Any) -> Any:
        body = {name: EXAMPLE[name] for name in ("type", "prompt", "message", "service", "agent")}
        shown = {**EXAMPLE["context"], **context}
        if artifact is not None:
            shown["artifact"] = artifact
        follows = {"previous_case_id": previous["case_id"]} if previous else {}
        return server.open(agent, **body, context=shown, **follows)

    return open_case


def answer_of(agent: httpx.Client, hitl: dict[str, Any]) -> Any:
    poll = agent.get(hitl["poll_url"]).json()
    if "result" not in poll:
        return poll["status"]
    return {name: poll["result"][name] for name in ("action", "data")}


def start_editing(page: Page) -> None:
    page.get_by_text("Change it yourself").click()


def own_changes(page: Page, number: int) -> Any:
    return page.locator("#f-edits .own").nth(number)


def assert_accessible(page: Page) -> None:
    assert violations(page) == []


def test_a_person_approves_exactly_what_is_shown(agent: httpx.Client, page: Page, ask: Ask) -> None:
    hitl = ask()
    page.goto(hitl["review_url"])
    expect(page.get_by_role("button", name="Show my changes")).to_be_hidden()
    expect(page.locator("#edited")).to_be_hidden()
    press(page, "Approve")
    expect(page.get_by_role("heading", level=1)).to_have_text("Approved")
    assert answer_of(agent, hitl) == {"action": "approve", "data": {}}


def test_a_person_changes_a_text_and_sees_which_words(
    agent: httpx.Client, page: Page, ask: Ask, scripts: bool
) -> None:
    hitl = ask()
    page.goto(hitl["review_url"])
    start_editing(page)
    page.get_by_label("Body").fill(BODY.replace("Thursday", "Friday"))
    page.get_by_label("Feedback").fill("They called.")
    if not scripts:
        press(page, "Show my changes")
        assert page.url.endswith("#f-edits")
    else:
        expect(page.get_by_role("button", name="Show my changes")).to_be_hidden()
    shown = own_changes(page, 2)
    expect(shown.locator("del")).to_have_text("removed: Thursday")
    expect(shown.locator("ins")).to_have_text("added: Friday")
    expect(shown.get_by_role("status")).to_have_text("Words changed: 1")
    expect(own_changes(page, 1)).to_be_hidden()
    expect(page.locator("#edited")).to_be_visible()
    expect(page.get_by_label("Feedback")).to_have_value("They called.")
    if scripts:
        assert_accessible(page)
    press(page, "Approve")
    expect(page.get_by_role("alert")).to_contain_text("ask for changes to send them, or undo them")
    expect(page.get_by_label("Body")).to_have_value(BODY.replace("Thursday", "Friday"))
    expect(own_changes(page, 2).locator("ins")).to_have_text("added: Friday")
    press(page, "Request changes")
    expect(page.get_by_role("heading", level=1)).to_have_text("Changes requested")
    edits = {"body": BODY.replace("Thursday", "Friday")}
    assert answer_of(agent, hitl) == {"action": "edit", "data": {"feedback": "They called.", "edits": edits}}


@BOTH
def test_changes_are_undone_and_the_original_is_approved(agent: httpx.Client, page: Page, ask: Ask) -> None:
    hitl = ask()
    page.goto(hitl["review_url"])
    start_editing(page)
    page.get_by_label("Subject").fill("Something else")
    page.get_by_label("Feedback").fill("Fine after all")
    press(page, "Undo my changes")
    expect(page.locator("#edited")).to_be_hidden()
    expect(page.get_by_label("Subject")).to_have_value("Your bookshelf is on its way")
    expect(page.get_by_label("Feedback")).to_have_value("Fine after all")
    press(page, "Approve")
    expect(page.get_by_role("heading", level=1)).to_have_text("Approved")
    assert answer_of(agent, hitl) == {"action": "approve", "data": {"feedback": "Fine after all"}}


@BOTH
def test_numbers_and_lists_inside_an_artifact_are_changed_by_their_names(
    agent: httpx.Client, page: Page, ask: Ask
) -> None:
    hitl = ask({"mail": {"copies": 2, "urgent": False}, "to": [{"name": "Ada"}, {"name": "Eve"}]})
    page.goto(hitl["review_url"])
    start_editing(page)
    page.get_by_label("Mail › Copies").fill("many")
    page.get_by_label("Mail › Urgent").select_option(label="Yes")
    page.get_by_label("To › 2 › Name").fill("Eva")
    press(page, "Request changes")
    expect(page.get_by_role("alert")).to_contain_text("Type a number here")
    assert answer_of(agent, hitl) in ("pending", "opened", "in_progress")
    expect(page.get_by_label("To › 2 › Name")).to_have_value("Eva")
    page.get_by_label("Mail › Copies").fill("3")
    press(page, "Request changes")
    expect(page.get_by_role("heading", level=1)).to_have_text("Changes requested")
    edits = {"mail": {"copies": 3, "urgent": True}, "to": [{"name": "Ada"}, {"name": "Eva"}]}
    assert answer_of(agent, hitl) == {"action": "edit", "data": {"edits": edits}}


@BOTH
def test_a_person_rejects_for_a_reason_that_the_service_suggested(
    agent: httpx.Client, page: Page, ask: Ask, scripts: bool
) -> None:
    labels = {"approve": "Send the reply", "reject": "Do not send"}
    hitl = ask(reason_presets=PRESETS, action_labels=labels)
    page.goto(hitl["review_url"])
    suggested = page.get_by_role("group", name="Suggested reasons")
    page.get_by_label("Feedback").fill("Ask the shop first.")
    if scripts:
        suggested.get_by_role("button", name="Too generous").click()
        expect(suggested.get_by_role("status")).to_be_visible()
        expect(page.get_by_label("Feedback")).to_have_value(
            "We do not give money back here.\n\nAsk the shop first."
        )
        assert_accessible(page)
    else:
        suggested.get_by_label("Too generous").check()
        expect(suggested.get_by_text("We do not give money back here.")).to_be_visible()
    expect(page.get_by_role("button", name="Send the reply Approve")).to_have_attribute("value", "approve")
    expect(page.get_by_text("Reason presets")).to_have_count(0)
    press(page, "Do not send Reject")
    expect(page.get_by_role("heading", level=1)).to_have_text("Rejected")
    feedback = "We do not give money back here.\n\nAsk the shop first."
    assert answer_of(agent, hitl) == {"action": "reject", "data": {"feedback": feedback}}


def test_three_rounds_show_what_was_asked_for_and_what_became_of_it(
    server: RunningServer, agent: httpx.Client, page: Page, ask: Ask, scripts: bool
) -> None:
    texts = ["We are sorry. It comes soon.", "We are sorry. It comes on Thursday.", "It comes on Friday."]
    hitl = ask({"subject": "Late", "body": texts[0]})
    for text, feedback in zip(texts[1:], ["When does it come?", "No: Friday"], strict=True):
        page.goto(hitl["review_url"])
        page.get_by_label("Feedback").fill(feedback)
        press(page, "Request changes")
        expect(page.get_by_role("heading", level=1)).to_have_text("Changes requested")
        hitl = ask({"subject": "Late", "body": text}, hitl)
    page.goto(hitl["review_url"])
    for _ in ("open", "closed"):
        rounds = page.locator(".round")
        expect(rounds).to_have_count(2)
        newest, oldest = rounds.nth(0), rounds.nth(1)
        expect(newest).to_have_attribute("open", "")
        expect(newest.get_by_text("No: Friday")).to_be_visible()
        expect(newest.locator("dt", has_text="Body")).to_be_visible()
        expect(newest.locator("ins")).to_contain_text("Friday")
        expect(oldest.get_by_text("When does it come?")).to_be_hidden()
        oldest.locator("summary").click()
        expect(oldest.get_by_text("When does it come?")).to_be_visible()
        expect(oldest.locator("ins")).to_have_text("added: on Thursday")
        expect(oldest.locator("del")).to_have_text("removed: soon")
        if scripts:
            assert_accessible(page)
        if page.get_by_role("button", name="Approve", exact=True).count():
            press(page, "Approve")
            expect(page.get_by_role("heading", level=1)).to_have_text("Approved")


@BOTH
def test_hostile_texts_are_only_texts_wherever_they_are_compared(
    agent: httpx.Client, page: Page, ask: Ask, scripts: bool
) -> None:
    first = ask(
        {HOSTILE: HOSTILE, "plain": "x"}, presets=[HOSTILE[:80]], action_labels={"approve": "<b>Go</b>"}
    )
    httpx.post(
        first["review_url"].replace("?token=", "/respond?token="),
        json={"action": "edit", "data": {"feedback": HOSTILE.replace("\u202e", "")}},
        timeout=60,
    ).raise_for_status()
    hitl = ask({HOSTILE: HOSTILE + " 2", "plain": "<i>y</i>"}, first, presets=[HOSTILE[:80]])
    page.goto(hitl["review_url"])
    expect(page.locator(".round").first).to_contain_text("⟦U+202E⟧")
    start_editing(page)
    typed = HOSTILE.replace("\u202e", "") + "\n<s>new</s>"
    page.get_by_label("Plain").fill(typed)
    if not scripts:
        press(page, "Show my changes")
    expect(own_changes(page, 0).locator("ins")).to_contain_text("<script>")
    if scripts:
        expect(page.locator("main img, main script, main s, main i")).to_have_count(0)
        assert page.evaluate("window.pwned") is None
    expect(page.get_by_label("Plain")).to_have_value(typed)
    press(page, "Request changes")
    expect(page.get_by_role("heading", level=1)).to_have_text("Changes requested")
    assert answer_of(agent, hitl)["data"]["edits"] == {"plain": typed}


def test_scripts_and_server_find_the_same_changes(browser: Browser, ask: Ask) -> None:
    dice = random.Random(7)
    parts = ["one", "two", "three", " ", "\n", ", ", "好", "d\u200cd", "  "]
    texts = [["".join(dice.choices(parts, k=dice.randrange(12))) for _ in "ab"] for _ in range(300)]
    known = [["We are very sorry.", "We are sorry."], ["It left this morning.", "It will leave tomorrow."]]
    context = browser.new_context(viewport=DESK)
    page = context.new_page()
    page.goto(ask()["review_url"])
    module = page.locator("script[type=module]").first.get_attribute("src") or ""
    drawn = page.evaluate(COMPARE, [module.replace("placet.js", "diff.js"), [*known, *texts]])
    context.close()
    for (before, after), found in zip([*known, *texts], drawn, strict=True):
        assert "".join(text for sign, text in found["pieces"] if sign != "added") == before
        assert "".join(text for sign, text in found["pieces"] if sign != "removed") == after
    for (before, after), found in zip(known, drawn, strict=False):
        comparison = compare(before, after)
        assert [[piece.sign, piece.value] for piece in comparison.changes[0].pieces] == found["pieces"]
        assert comparison.words == found["words"]


def test_a_long_text_is_compared_while_one_types(browser: Browser, ask: Ask) -> None:
    lines = [f"Line {number} says {number * 7919 % 1000} things." for number in range(300)]
    context = browser.new_context(viewport=DESK)
    page = context.new_page()
    page.set_default_timeout(60_000)
    page.goto(ask("\n".join(lines))["review_url"])
    start_editing(page)
    expect(page.get_by_role("button", name="Show my changes")).to_be_hidden()
    lines[3], lines[250] = "Line 3 says nothing.", "Gone."
    page.get_by_label("Artifact").fill("\n".join(lines))
    shown = own_changes(page, 0)
    expect(shown.locator("ins").first).to_contain_text("nothing")
    expect(shown.locator(".gap")).to_have_count(2)
    expect(shown.locator("ins").last).to_contain_text("Gone")
    context.close()
