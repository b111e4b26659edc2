"""The four-eyes rule over HTTP: links, inline submit and inbox keys."""

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.server.inboxes import person
from tests.server.running import PRESSED, RunningServer, running

CONFIRM = {"action": "confirm"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with running(tmp_path_factory.mktemp("four-eyes"), four_eyes=True) as server:
        yield server


def test_an_agent_with_link_and_submit_token_cannot_approve(
    server: RunningServer, client: httpx.Client
) -> None:
    draft = {"type": "approval", "context": {"artifact": "Hello"}, "inline_actions": ["approve"]}
    hitl = server.open(client, **draft)
    submit = {"Authorization": f"Bearer {hitl['submit_token']}"}
    press = {"action": "approve", "data": {}, **PRESSED}
    pressed = client.post(hitl["submit_url"], json=press, headers=submit)
    assert (pressed.status_code, pressed.json()["error"]) == (403, "verification_required")
    url = httpx.URL(hitl["review_url"])
    link = {"Authorization": f"Bearer {url.params['token']}"}
    posted = client.post(f"{url.path}/respond", json={"action": "approve", "data": {}}, headers=link)
    assert (posted.status_code, posted.json()["error"]) == (403, "verification_required")
    assert client.get(hitl["poll_url"]).json()["status"] == "pending"


def test_the_page_of_a_link_says_where_a_second_person_answers(
    server: RunningServer, client: httpx.Client
) -> None:
    hitl = server.open(client)
    with server.page(hitl) as page:
        answered = page.post("respond", CONFIRM)
    assert answered.response.status_code == 403
    assert "A second person must approve this" in answered.text
    assert client.get(hitl["poll_url"]).json()["status"] != "completed"


def test_the_asking_principal_cannot_approve_in_the_inbox_and_another_can(
    server: RunningServer, client: httpx.Client
) -> None:
    hitl = server.open(client)
    with person(server, server.create_key("acme", "cases:write", "inbox:all")) as asker:
        assert asker.page(hitl["case_id"]).post("respond", CONFIRM).response.status_code == 403
    assert client.get(hitl["poll_url"]).json()["status"] != "completed"
    with person(server, server.create_key("ada", "inbox:all")) as ada:
        assert ada.page(hitl["case_id"]).post("respond", CONFIRM).response.status_code == 200
    assert client.get(hitl["poll_url"]).json()["responded_by"] == {"name": "ada"}


def test_one_case_can_ask_for_it_on_a_server_without_the_rule(tmp_path: Path) -> None:
    with running(tmp_path) as server, server.client(server.api_key) as client:
        hitl = server.open(client, four_eyes=True, asked_by=["ada"])
        with person(server, server.create_key("ada", "inbox:all")) as ada:
            assert ada.page(hitl["case_id"]).post("respond", CONFIRM).response.status_code == 403
        assert client.get(hitl["poll_url"]).json()["status"] != "completed"
