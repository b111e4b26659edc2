"""`result_schema`: answers with more data than the review type knows, from page, API and inline submit."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.server.running import RunningServer, running

JOBS = [{"id": "job_1", "title": "Weaver"}, {"id": "job_2", "title": "Dyer"}]
COUNTED: dict[str, Any] = {
    "type": "object",
    "properties": {
        "selected_ids": {"type": "array", "items": {"enum": ["job_1", "job_2"]}},
        "selected_count": {"type": "integer", "minimum": 1},
        "total_options": {"const": 2},
    },
    "required": ["selected_ids", "selected_count"],
    "additionalProperties": False,
}
SELECTION = {"type": "selection", "prompt": "Which jobs?", "context": {"options": JOBS}}
APPROVAL = {"type": "approval", "prompt": "Print it?", "context": {"artifact": "A poem"}}
STAMPED = {
    "type": "object",
    "properties": {"pages": {"type": "integer", "maximum": 9}, "by": {"type": "string"}},
}
HOSTILE = {
    "type": "object",
    "additionalProperties": {"$ref": "#/$defs/a0"},
    "$defs": {f"a{n}": {"anyOf": [{"$ref": f"#/$defs/a{n + 1}"}] * 9} for n in range(12)} | {"a12": {}},
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    folder: Path = tmp_path_factory.mktemp("result-schema")
    (folder / "templates" / "approval").mkdir(parents=True)
    page = '{% extends "review.html" %}{% block substance %}<input name="data.pages" id="f-p">{% endblock %}'
    (folder / "templates" / "approval" / "page.html").write_text(page)
    with running(folder, theme=str(folder)) as found:
        yield found


@pytest.fixture(scope="module")
def client(server: RunningServer) -> Iterator[httpx.Client]:
    with server.client(server.api_key) as found:
        yield found


def answer(hitl: dict[str, Any], action: str, data: dict[str, Any]) -> httpx.Response:
    """Answer as a service's own page does: as JSON, with the review token."""
    address, _, token = hitl["review_url"].partition("?token=")
    return httpx.post(f"{address}/respond", params={"token": token}, json={"action": action, "data": data})


def read_data(client: httpx.Client, hitl: dict[str, Any]) -> Any:
    return client.get(hitl["poll_url"]).json()["result"]["data"]


def test_an_answer_of_a_services_own_page_may_have_all_that_the_schema_allows(
    server: RunningServer, client: httpx.Client
) -> None:
    hitl = server.open(client, **SELECTION, result_schema=COUNTED)
    for wrong, said in (
        ({"selected_ids": ["job_1"], "selected_count": 0}, "selected_count"),
        ({"selected_ids": ["job_1"], "selected_count": 1, "other": 1}, "other"),
        ({"selected_ids": ["job_3"], "selected_count": 1}, "selected_ids"),
    ):
        refused = answer(hitl, "select", wrong)
        assert (refused.status_code, refused.json()["error"]) == (400, "invalid_submission")
        assert said in refused.json()["message"]
    data = {"selected_ids": ["job_2", "job_1"], "selected_count": 2, "total_options": 2}
    assert answer(hitl, "select", data).status_code == 200
    assert read_data(client, hitl) == data
    with server.page(hitl) as page:
        assert "Dyer" in page.text


def test_the_types_own_fields_still_follow_its_rules(server: RunningServer, client: httpx.Client) -> None:
    anything = {"type": "object"}
    hitl = server.open(client, **SELECTION, result_schema=anything)
    assert answer(hitl, "select", {"selected": ["job_9"], "extra": 1}).json()["error"] == "invalid_selection"
    assert answer(hitl, "select", {}).status_code == 400
    assert answer(hitl, "select", {"selected": ["job_1"], "extra": {"a": [1]}}).status_code == 200
    assert read_data(client, hitl) == {"selected": ["job_1"], "extra": {"a": [1]}}


def test_without_a_schema_further_data_is_refused(server: RunningServer, client: httpx.Client) -> None:
    hitl = server.open(client, **APPROVAL)
    assert answer(hitl, "approve", {"pages": 3}).status_code == 400
    assert answer(hitl, "approve", {"feedback": "Good"}).status_code == 200


def test_inline_submit_may_carry_it_too(server: RunningServer, client: httpx.Client) -> None:
    confirmation = {"type": "confirmation", "prompt": "Send?", "context": {"items": ["a", "b"]}}
    schema = {"type": "object", "properties": {"confirmed_count": {"type": "integer"}}}
    hitl = server.open(client, **confirmation, inline_actions=["confirm"], result_schema=schema)

    def submit(data: dict[str, Any]) -> httpx.Response:
        body = {
            "action": "confirm",
            "data": data,
            "submitted_via": "slack_block_action",
            "submitted_by": {"platform": "slack", "platform_user_id": "U1"},
        }
        token = {"Authorization": f"Bearer {hitl['submit_token']}"}
        return httpx.post(hitl["submit_url"], json=body, headers=token)

    assert submit({"confirmed_count": "two"}).status_code == 400
    accepted = submit({"confirmed_count": 2, "all_confirmed": True})
    assert accepted.status_code == 200, accepted.text
    assert read_data(client, hitl) == {
        "confirmed_items": ["a", "b"],
        "confirmed_count": 2,
        "all_confirmed": True,
    }


def test_a_form_of_a_theme_may_have_fields_of_its_own(server: RunningServer, client: httpx.Client) -> None:
    hitl = server.open(client, **APPROVAL, result_schema=STAMPED)
    with server.page(hitl) as page:
        assert page.post("respond", {"action": "approve", "data.pages": "12"}).response.status_code == 400
        sent = {"action": "approve", "feedback": "Good", "data.pages": "7", "data.by": "7"}
        assert page.post("respond", sent).response.status_code == 200
    assert read_data(client, hitl) == {"feedback": "Good", "pages": 7, "by": "7"}


def test_data_of_a_custom_type_is_checked_where_it_is_declared(
    server: RunningServer, client: httpx.Client
) -> None:
    draft: dict[str, Any] = {"type": "x-stamp", "prompt": "Stamp?", "context": {}, "actions": ["stamp"]}
    hitl = server.open(client, **draft, result_schema=STAMPED)
    assert answer(hitl, "stamp", {"pages": 10}).status_code == 400
    assert answer(hitl, "stamp", {"pages": 9, "note": "Blue ink"}).status_code == 200
    assert read_data(client, hitl) == {"pages": 9, "note": "Blue ink"}


@pytest.mark.parametrize(
    ("draft", "said"),
    [
        ({**APPROVAL, "result_schema": {"type": "no such type"}}, "result_schema cannot be used"),
        (
            {**APPROVAL, "result_schema": {"$ref": "https://schemas.example/a.json"}},
            "result_schema cannot be used",
        ),
        ({**APPROVAL, "result_schema": HOSTILE}, "result_schema cannot be used"),
        ({**APPROVAL, "result_schema": []}, "result_schema"),
        ({**APPROVAL, "result_schema": {"description": "\x00"}}, "control characters"),
        (
            {
                **APPROVAL,
                "context": {"tool_calls": [{"id": "a", "name": "b", "arguments": {}}]},
                "result_schema": {},
            },
            "result_schema: the answers to this case have a fixed form",
        ),
    ],
)
def test_a_schema_that_cannot_be_used_opens_no_case(
    client: httpx.Client, draft: dict[str, Any], said: str
) -> None:
    refused = client.post("/v1/cases", json=draft)
    assert refused.status_code == 400
    assert said in refused.json()["message"]
