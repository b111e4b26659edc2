"""An assistant asks each kind of question, and gets what the person decided."""

from functools import partial
from typing import Any

import pytest

from tests.mcp.assistant import ERA, Person, Setting, answer, run, structured

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


@pytest.mark.parametrize("tool", KINDS)
@pytest.mark.parametrize("era", ERA)
def test_the_person_is_shown_the_link_and_their_decision_comes_back(
    setting: Setting, tool: str, era: str
) -> None:
    arguments, action, data = KINDS[tool]
    person = Person(then=partial(answer, action=action, **data))

    async def main() -> Any:
        async with setting.over_stdio(elicitation_callback=person, mode=ERA[era]) as client:
            return structured(await client.call_tool(tool, {**arguments, "wait_seconds": 30}))

    result = run(main())
    assert (result["status"], result["action"], result["verified"]) == ("completed", action, True)
    assert {name: result["data"].get(name) for name in data} == data
    assert [shown.message for shown in person.seen] == [f"Your decision is needed: {arguments['prompt']}"]
    assert result["review_url"] is None
