"""Custom actions of an escalation, from the draft over page, API and inline submit to the agent."""

from typing import Any

import httpx
import pytest

from placet.agent import read_case
from tests.server.running import RunningServer
from tests.server.test_spec_types import answer

ROLLBACK: dict[str, Any] = {
    "type": "escalation",
    "prompt": "The deployment failed its health check. How shall we go on?",
    "actions": ["retry", "roll_back", "call_on_duty", "abort"],
    "affirmative_actions": ["roll_back"],
    "inline_actions": ["roll_back", "abort"],
    "context": {
        "params": {"wait_seconds": 20},
        "suggestions": [{"action": "roll_back", "reason": "4.1 ran well."}],
        "action_labels": {"roll_back": "Back to 4.1", "call_on_duty": "Wake Grace"},
    },
}


@pytest.mark.spec("10.5-custom-action")
def test_a_custom_action_is_shown_taken_and_read_by_the_agent(
    server: RunningServer, client: httpx.Client
) -> None:
    opened = client.post("/v1/cases", json=ROLLBACK)
    assert opened.json()["data"]["affirmative_actions"] == ["retry", "roll_back"]
    hitl = opened.json()["hitl"]
    with server.page(hitl) as page:
        for words in ("Back to 4.1", "Roll back", "Wake Grace", "Call on duty", "Your answer goes to"):
            assert words in page.text
        assert "Skip this step" not in page.text
        done = page.post("respond", {"action": "roll_back", "reason": "Safer."})
        assert "Roll back" in done.text
    result = client.get(hitl["poll_url"]).json()["result"]
    assert (result["action"], result["data"]) == ("roll_back", {"reason": "Safer."})
    case = read_case(202, opened.content, url=server.url, now=server.clock())
    assert case is not None
    assert case.pressable == ("roll_back", "abort")
    yes = [one for one in (*ROLLBACK["actions"], "skip", "approve") if case.is_affirmative(one)]
    assert yes == ["retry", "roll_back", "skip"]


@pytest.mark.spec("10.5-custom-action")
def test_api_and_inline_submit_take_the_declared_actions_only(
    server: RunningServer, client: httpx.Client
) -> None:
    hitl = server.open(client, **ROLLBACK)
    for undeclared in ("skip", "approve", "roll_forward"):
        assert answer(server, hitl, undeclared).json()["error"] == "invalid_action"
    assert server.press(hitl, "call_on_duty").json()["error"] == "action_not_inline"
    changed = answer(server, hitl, "roll_back", {"modified_params": {"wait_seconds": 60}})
    assert changed.json()["fields"].keys() == {"modified_params"}
    assert client.get(hitl["poll_url"]).json()["status"] == "pending"
    assert server.press(hitl, "roll_back").status_code == 200
    assert client.get(hitl["poll_url"]).json()["result"]["action"] == "roll_back"
    plain = server.open(client, type="escalation")
    assert answer(server, plain, "roll_back").json()["error"] == "invalid_action"
