"""Execution receipts: the owner reports what became of the calls, and the page and the inbox show it."""

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from placet.client import PlacetClient
from placet.errors import ServerRefused
from tests.server.inboxes import get_last_event, person
from tests.server.running import RunningServer, running

CALLS = [
    {"id": "a", "name": "send_email", "arguments": {"to": "ada@acme.example"}},
    {"id": "b", "name": "drop_table", "arguments": {"table": "old"}},
    {"id": "c", "name": "write_file", "arguments": {"path": "x"}},
]
DECISIONS = {"decision.1": "approve", "decision.2": "reject", "decision.3": "approve", "action": "edit"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with running(tmp_path_factory.mktemp("receipts")) as found:
        yield found


@pytest.fixture
def owner(server: RunningServer) -> Iterator[PlacetClient]:
    with PlacetClient(server.url, server.api_key) as found:
        yield found


def open_case(owner: PlacetClient) -> dict[str, Any]:
    opened: dict[str, Any] = owner.open(
        "approval", "The clerk wants three calls", context={"tool_calls": CALLS}
    )
    return opened["hitl"]


def decide(server: RunningServer, hitl: dict[str, Any], **fields: str) -> None:
    with server.page(hitl) as page:
        answered = page.post("respond", fields or DECISIONS)
        assert answered.response.status_code == 200, answered.text


def page_text(server: RunningServer, hitl: dict[str, Any]) -> str:
    with server.client(follow_redirects=True) as anyone:
        return anyone.get(hitl["review_url"]).text


def refuse(owner: PlacetClient, case_id: str, **receipt: str) -> tuple[int, str]:
    with pytest.raises(ServerRefused) as refused:
        owner.report_calls(case_id, [receipt])
    return refused.value.status, refused.value.code


def test_the_page_and_the_inbox_show_what_became_of_the_calls(
    server: RunningServer, owner: PlacetClient
) -> None:
    hitl = open_case(owner)
    decide(server, hitl)
    assert page_text(server, hitl).count("Approved, not run yet") == 2
    with person(server, server.create_key("ada", "inbox:all")) as ada:
        assert "Approved, not run yet" in ada.get_list(show="decided")
        owner.report_calls(hitl["case_id"], [{"call_id": "a", "outcome": "ran"}])
        assert "Approved, not run yet" in ada.get_list(show="decided")
        owner.report_calls(hitl["case_id"], [{"call_id": "c", "outcome": "failed"}])
        assert "It failed" in ada.get_list(show="decided")
    text = page_text(server, hitl)
    assert "Approved, not run yet" not in text
    assert "It ran" in text
    assert "It failed" in text


def test_a_report_is_an_event_of_the_case_and_is_counted_once(
    server: RunningServer, owner: PlacetClient
) -> None:
    hitl = open_case(owner)
    decide(server, hitl)
    ran = {"call_id": "a", "outcome": "ran", "at": "2020-01-01T00:00:00Z"}
    told = owner.report_calls(hitl["case_id"], [ran])
    assert [(one["call_id"], one["outcome"]) for one in told["receipts"]] == [("a", "ran")]
    assert told["receipts"][0]["at"] > "2020-01-02"  # never before the decision
    event = get_last_event(server, hitl["case_id"])
    assert event.type == "calls.reported"
    assert event.actor.startswith("key:")
    assert owner.report_calls(hitl["case_id"], [ran, {"call_id": "a", "outcome": "failed"}]) == told
    assert get_last_event(server, hitl["case_id"]).seq == event.seq


def test_only_the_owner_reports_and_only_calls_of_a_decided_case(
    server: RunningServer, owner: PlacetClient
) -> None:
    hitl = open_case(owner)
    assert refuse(owner, hitl["case_id"], call_id="a", outcome="ran") == (409, "case_open")
    decide(server, hitl)
    assert refuse(owner, hitl["case_id"], call_id="z", outcome="ran") == (400, "invalid_request")
    assert refuse(owner, hitl["case_id"], call_id="a", outcome="maybe") == (400, "invalid_request")
    with PlacetClient(server.url, server.create_key("mallory", "cases:read", "cases:write")) as other:
        assert refuse(other, hitl["case_id"], call_id="a", outcome="ran")[0] == 404
    with PlacetClient(server.url, server.create_key("reader", "cases:read")) as reader:
        assert refuse(reader, hitl["case_id"], call_id="a", outcome="ran")[0] == 403
    assert httpx.post(f"{server.url}/v1/reviews/{hitl['case_id']}/receipts").status_code == 401


def test_a_withdrawn_case_shows_that_its_call_ran(server: RunningServer, owner: PlacetClient) -> None:
    hitl = open_case(owner)
    owner.cancel(hitl["case_id"], reason="Decided in code.")
    owner.report_calls(hitl["case_id"], [{"call_id": "a", "outcome": "ran"}])
    assert "It ran" in page_text(server, hitl)
