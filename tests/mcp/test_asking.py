"""An assistant asks each kind of question, and gets what the person decided."""

import asyncio
from datetime import UTC, datetime
from functools import partial
from typing import Any

import httpx
import pytest
from mcp.types import TextContent

from placet.agent import Decided, PendingCase, read_case
from placet.channels.registry import MESSENGER_NAMES
from placet.mcp.arguments import DEFAULT_WAIT_S, MAX_WAIT_S
from placet.mcp.questions import MAX_OPEN_QUESTIONS
from placet.mcp.server import TITLES
from placet.mcp.tool_results import build_tool_result as result_of
from placet.mcp.tool_results import describe_outcome
from placet.reviews.registry import DECLARATIONS
from tests.docs.markdown import ROOT
from tests.mcp.assistant import ERA, Person, Setting, answer, open_page, read_structured, run, wait_until
from tests.waiting import PATIENCE_S

KINDS: dict[str, tuple[dict[str, Any], str, dict[str, Any]]] = {
    "ask_approval": (
        {"prompt": "May this mail go out?", "parts": {"to": "Jo", "body": "It is on its way."}},
        "approve",
        {},
    ),
    "ask_selection": (
        {
            "prompt": "Which room?",
            "options": [{"id": "loft", "title": "Loft", "seats": 24}, {"id": "hall", "title": "Hall"}],
            "recommended": ["loft"],
        },
        "select",
        {"selected": ["hall"]},
    ),
    "ask_input": (
        {"prompt": "When do you arrive?", "fields": [{"key": "day", "label": "Day", "type": "date"}]},
        "submit",
        {"day": "2026-05-06"},
    ),
    "ask_confirmation": (
        {"prompt": "Delete it?", "items": [{"id": "a", "label": "A"}], "irreversible": True, "timeout": "2h"},
        "confirm",
        {"confirmed_items": ["a"]},
    ),
    "ask_escalation": (
        {"prompt": "It failed. How now?", "error": "No answer in time", "params": {"size": 100}},
        "retry",
        {"modified_params": {"size": 10}},
    ),
}
ASKING = [f"ask_{name}" for name, declared in DECLARATIONS.items() if declared.is_askable]


@pytest.mark.parametrize("tool", KINDS)
@pytest.mark.parametrize("era", ERA)
def test_the_person_is_shown_the_link_and_their_decision_comes_back(
    setting: Setting, tool: str, era: str
) -> None:
    arguments, action, data = KINDS[tool]
    person = Person(then=partial(answer, action=action, **data))

    async def main() -> Any:
        async with setting.in_process(elicitation_callback=person, mode=ERA[era]) as client:
            return read_structured(await client.call_tool(tool, {**arguments, "wait_seconds": 30}))

    result = run(main())
    assert (result["status"], result["action"], result["verified"]) == ("completed", action, True)
    assert {name: result["data"].get(name) for name in data} == data
    assert [shown.message for shown in person.seen] == [f"Your decision is needed: {arguments['prompt']}"]
    assert result["review_url"] is None


def test_a_long_form_is_filled_in_page_by_page(setting: Setting) -> None:
    trip = {"key": "trip", "label": "Do you travel?", "type": "boolean"}
    day = {
        "key": "day",
        "label": "Day",
        "type": "date",
        "conditional": {"field": "trip", "operator": "eq", "value": True},
    }
    steps = [
        {"title": "You", "fields": [trip]},
        {"title": "Your trip", "description": "Only if you go.", "fields": [day]},
        {"title": "Summary"},
    ]
    filled = partial(answer, action="submit", trip=True, day="2026-05-06")
    pages: list[str] = []

    def fill_in(url: str) -> None:
        pages.append(httpx.get(url, follow_redirects=True, timeout=PATIENCE_S).text)
        filled(url)

    async def main() -> Any:
        async with setting.in_process(elicitation_callback=Person(then=fill_in), mode="legacy") as client:
            asked = {"prompt": "When do you arrive?", "steps": steps, "wait_seconds": 30}
            return read_structured(await client.call_tool("ask_input", asked))

    assert run(main())["data"] == {"trip": True, "day": "2026-05-06"}
    assert "Step 1 of 3" in pages[0]


def test_without_a_client_that_shows_links_the_model_gets_it_and_a_way_to_check(setting: Setting) -> None:
    async def main() -> None:
        async with setting.in_process() as client:
            asked = read_structured(
                await client.call_tool("ask_confirmation", {"prompt": "Go?", "wait_seconds": 0})
            )
            assert (asked["status"], asked["action"], asked["data"]) == ("pending", None, None)
            assert asked["review_url"].startswith(f"{setting.url}/review/")
            assert "never open" in asked["next_step"]
            assert f"check_question with case_id {asked['case_id']}" in asked["next_step"]
            check = {"case_id": asked["case_id"], "wait_seconds": 0}
            again = read_structured(await client.call_tool("check_question", check))
            assert (again["status"], again["review_url"]) == ("pending", asked["review_url"])
            assert answer(asked["review_url"], "cancel").status_code == 200
            ended = read_structured(await client.call_tool("check_question", check))
            assert (ended["status"], ended["action"], ended["verified"]) == ("completed", "cancel", True)
            assert ended["next_step"].startswith("The person said no.")
            assert (ended["prompt"], ended["review_url"]) == ("Go?", None)

    run(main())


@pytest.mark.parametrize("era", ERA)
@pytest.mark.parametrize("says", ["decline", "cancel"])
def test_a_link_that_was_not_opened_is_no_answer_and_can_be_shown_again(
    setting: Setting, says: str, era: str
) -> None:
    unwilling, willing = Person(says), Person(then=partial(answer, action="approve"))

    async def main() -> None:
        async with setting.in_process(elicitation_callback=unwilling, mode=ERA[era]) as client:
            asked = read_structured(
                await client.call_tool("ask_approval", {"prompt": "May I?", "text": "It."})
            )
            assert (asked["status"], asked["action"], asked["review_url"]) == ("pending", None, None)
            assert "That is no answer" in asked["next_step"]
        async with setting.in_process(elicitation_callback=willing, mode=ERA[era]) as client:
            check = {"case_id": asked["case_id"], "wait_seconds": 30, "show_link": True}
            ended = read_structured(await client.call_tool("check_question", check))
            assert (ended["status"], ended["action"]) == ("completed", "approve")

    run(main())
    assert unwilling.seen[0].url == willing.seen[0].url
    if era == "2025":
        assert unwilling.seen[0].elicitation_id != willing.seen[0].elicitation_id


def test_the_client_is_told_when_there_is_nothing_left_to_do_behind_the_link(setting: Setting) -> None:
    person = Person(then=partial(answer, action="confirm"))

    async def main() -> None:
        async with setting.in_process(
            elicitation_callback=person, message_handler=person.listen, mode="legacy"
        ) as client:
            asked = {"prompt": "Really?", "wait_seconds": 30}
            assert read_structured(await client.call_tool("ask_confirmation", asked))["action"] == "confirm"
            await wait_until(lambda: person.completed)

    run(main())
    assert person.completed == [person.seen[0].elicitation_id]


@pytest.mark.parametrize("era", ERA)
def test_who_waits_for_progress_hears_what_the_person_does(setting: Setting, era: str) -> None:
    heard: list[tuple[float, str | None]] = []

    async def listen(progress: float, total: float | None, message: str | None) -> None:
        heard.append((progress, message))

    async def main() -> Any:
        async with setting.in_process(mode=ERA[era]) as client:
            asked = read_structured(
                await client.call_tool("ask_confirmation", {"prompt": "Go?", "wait_seconds": 0})
            )
            check = {"case_id": asked["case_id"], "wait_seconds": 30}
            waiting = asyncio.create_task(client.call_tool("check_question", check, progress_callback=listen))
            await wait_until(lambda: bool(heard))  # at once: it has begun to wait
            await asyncio.to_thread(open_page, asked["review_url"])
            await wait_until(
                lambda: "The person has opened the question." in [message for _, message in heard]
            )
            await asyncio.to_thread(answer, asked["review_url"], "confirm")
            return read_structured(await waiting)

    assert run(main())["action"] == "confirm"
    assert "The person has opened the question." in [message for _, message in heard]
    assert [count for count, _ in heard] == sorted({count for count, _ in heard})


def test_nobody_answered_in_time_is_never_taken_for_an_approval(setting: Setting) -> None:
    async def main() -> Any:
        async with setting.in_process() as client:
            asked = {"prompt": "May I?", "text": "It.", "timeout": "1s", "default_action": "reject"}
            return read_structured(await client.call_tool("ask_approval", {**asked, "wait_seconds": 60}))

    result = run(main())
    assert (result["status"], result["action"], result["default_action"]) == ("expired", None, "reject")
    assert "nothing was decided or approved" in result["next_step"]


def test_a_decision_whose_signature_does_not_hold_is_withheld(setting: Setting) -> None:
    case = read_case(
        202,
        b'{"hitl": {"spec_version": "0.9", "case_id": "c", "type": "approval", "prompt": "?",'
        b' "review_url": "/", "poll_url": "/"}}',
        url=setting.url,
        now=datetime.now(UTC),
    )
    assert case is not None
    forged = Decided(case_id="c", action="approve", data={"feedback": "yes"}, verified=False)
    told = result_of(describe_outcome(PendingCase(case=case), forged))
    assert told.is_error
    assert told.structured_content is not None
    assert (told.structured_content["action"], told.structured_content["data"]) == (None, None)
    assert "Do not act on it" in told.structured_content["next_step"]


def test_an_assistant_is_taught_when_to_ask_and_every_argument_is_explained(setting: Setting) -> None:
    async def main() -> None:
        async with setting.in_process() as client:
            assert "cannot be undone" in (client.instructions or "")
            (prompt,) = (await client.list_prompts()).prompts
            assert prompt.name == "when-to-ask-a-person"
            (message,) = (await client.get_prompt(prompt.name)).messages
            assert isinstance(message.content, TextContent)
            tools = (await client.list_tools()).tools
            for tool in tools:
                assert tool.description
                assert tool.output_schema
                named = tool.name in message.content.text or not tool.name.startswith("ask_")
                assert named, tool.name
                undescribed = [
                    name
                    for name, schema in tool.input_schema["properties"].items()
                    if "description" not in schema
                ]
                assert undescribed == []
            assert {tool.name for tool in tools} == {
                *KINDS,
                "check_question",
                "list_questions",
                "withdraw_question",
            }

    run(main())


def test_the_docs_name_every_tool_and_limit() -> None:
    page = (ROOT / "docs" / "howto" / "mcp.md").read_text("utf-8")
    assert [name for name in (*TITLES, *ASKING) if f"| `{name}` |" not in page] == []
    assert f"waits {DEFAULT_WAIT_S} seconds unless told otherwise, {MAX_WAIT_S} at most" in page
    assert f"More than {MAX_OPEN_QUESTIONS} questions" in page
    assert [name for name in MESSENGER_NAMES if f"]({name}.md)" not in page] == []
