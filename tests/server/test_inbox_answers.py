"""Answers from the inbox to questions of every type, as the asker gets them."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from placet.client import PlacetClient
from placet.hook import HumanInTheLoopHook, ReactAgent, SqliteSaver
from placet.hook.reviews import ServerReviews
from placet.hook.thread_resumption import resume_pending
from placet.reviews.registry import SAMPLES, load_custom_type
from tests.hook.scripted_model import Office, Scripted, call, expect_interruption, expect_result
from tests.server.inboxes import InboxPerson, get_last_event, person
from tests.server.running import ReviewPage, RunningServer

KINDS = {**SAMPLES, load_custom_type().name: load_custom_type()}
ANSWERS: dict[str, list[dict[str, Any]]] = {
    "approval": [{"action": "approve"}],
    "selection": [{"action": "select", "selected": "canal-loft"}],
    "confirmation": [
        {
            "action": "confirm",
            "confirm_word": "delete",
            "confirmed_items": ["2019-autumn", "2020-spring", "2020-autumn"],
        }
    ],
    "escalation": [{"action": "retry"}],
    "input": [
        {
            "action": "x-next",
            "step": "0",
            "asked": ["traveller", "email", "arrival", "way"],
            "field.traveller": "Ada Byron",
            "field.email": "ada@example.com",
            "field.arrival": "2026-09-07",
            "field.way": "own",
        },
        {
            "action": "x-next",
            "step": "1",
            "asked": ["nights", "step_free", "meals"],
            "field.nights": "2",
            "field.step_free": "false",
            "field.meals": "vegan",
        },
        {"action": "submit", "step": "2"},
    ],
    "tool_calls": [{"action": "approve"}],
    "held_message": [{"action": "reject"}],
    "x-": [{"action": "refuse"}],
}


@pytest.fixture
def ada(server: RunningServer) -> Iterator[InboxPerson]:
    with person(server, server.create_key("ada", "inbox:all")) as found:
        yield found


def test_every_sort_of_question_is_tried() -> None:
    assert ANSWERS.keys() == KINDS.keys()


@pytest.mark.parametrize("name", KINDS)
def test_a_question_is_answered_from_the_inbox_and_the_asker_gets_the_answer(
    server: RunningServer, client: httpx.Client, ada: InboxPerson, name: str
) -> None:
    hitl = server.open_sample(client, KINDS[name])
    kind = "other" if name == "x-" else name
    assert hitl["case_id"] in ada.list_cases(type=kind)
    page = ada.page(hitl["case_id"])
    for fields in ANSWERS[name]:
        page = page.post("respond", fields)
        assert page.response.status_code == 200, page.text
        page = ReviewPage(page.client, page.client.get(f"/review/{hitl['case_id']}"))
    assert "It cannot be changed any more." in page.text
    poll = client.get(hitl["poll_url"]).json()
    assert poll["status"] == "completed"
    assert poll["result"]["action"] == ANSWERS[name][-1]["action"]
    assert poll["responded_by"] == {"name": "ada"}
    events = server.run(server.parts.store.list_events(hitl["case_id"]))
    assert {event.actor for event in events[1:]} == {"key:ada"}
    assert hitl["case_id"] not in ada.list_cases(type=kind)
    assert hitl["case_id"] in ada.list_cases(show="decided")


def test_an_agent_goes_on_with_the_calls_that_were_decided_in_the_inbox(
    server: RunningServer, tmp_path: Path
) -> None:
    office, saver = Office(), SqliteSaver(tmp_path / "threads.db")
    calls = [call("a", "write_file", path="x.txt"), call("b", "execute_sql", query="DROP TABLE t")]
    hook = HumanInTheLoopHook({"write_file": "Writing needs approval", "execute_sql": True})
    with (
        PlacetClient(server.url, server.api_key) as asking,
        person(server, server.create_key("acme", "inbox")) as owner,
    ):
        agent = ReactAgent(
            "clerk", Scripted(calls, "done"), office.tools, [hook], saver, reviews=ServerReviews(asking)
        )
        waiting = expect_interruption(agent.invoke("clean up", thread_id="t")).case
        assert waiting is not None
        assert "Tool calls · new" in owner.get_list(type="tool_calls")
        decisions = {"decision.1": "approve", "decision.2": "reject", "reason.2": "Archive it."}
        answered = owner.page(waiting["case_id"]).post("respond", {**decisions, "action": "edit"})
        assert answered.response.status_code == 200, answered.text
        assert expect_result(resume_pending(agent)["t"]).text == "done"
    assert office.ran == [("write_file", "x.txt", "")]
    saver.close()


def test_a_question_is_handed_back_and_passed_on_from_the_inbox(
    server: RunningServer, client: httpx.Client, ada: InboxPerson
) -> None:
    hitl = server.open(client)
    passed = ada.page(hitl["case_id"]).post("pass-on", {"pass_on_note": "For Ben"})
    assert "token=" in passed.text
    assert get_last_event(server, hitl["case_id"]).actor == "key:ada"
    ada.page(hitl["case_id"]).post("hand-back", {"reason": "Not mine"})
    assert client.get(hitl["poll_url"]).json()["status"] != "cancelled"
    assert get_last_event(server, hitl["case_id"]).actor == "key:ada"
