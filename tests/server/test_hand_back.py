"""Handing a case back: it stays open for others, the step is recorded, and the owner is told (ruling 5)."""

import html
import re
from collections.abc import Iterator
from typing import Any

import httpx
import msgspec
import pytest

from tests.server.inboxes import person
from tests.server.running import EXAMPLE, ReviewPage, RunningServer, events_of, running

NOT_MINE = {"reason": "Not mine to decide"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with running(tmp_path_factory.mktemp("hand-back")) as found:
        yield found


@pytest.fixture
def client(server: RunningServer) -> Iterator[httpx.Client]:
    with server.client(server.api_key) as found:
        yield found


def list_events(server: RunningServer, hitl: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    events = server.run(server.parts.desk.list_events(hitl["case_id"]))
    return [(one.type, msgspec.json.decode(one.data or b"{}")) for one in events]


def test_a_case_that_one_person_hands_back_stays_open_for_others(
    server: RunningServer, client: httpx.Client
) -> None:
    hitl = server.open(client)
    with server.page(hitl) as page:
        passed = html.unescape(page.post("pass-on", {}).text)
        link = re.search(rf"{re.escape(server.url)}/review/[\w-]+\?token=[\w-]{{43}}", passed)
        assert link is not None
        handed = page.post("hand-back", NOT_MINE)
        assert "You handed this question back" in handed.text
        assert "Not mine to decide" in handed.text
    polled = client.get(hitl["poll_url"]).json()
    assert polled["status"] in ("pending", "opened")
    assert "reason" not in polled
    with server.client(follow_redirects=True) as colleague:
        page = ReviewPage(colleague, colleague.get(link[0]))
        assert "Someone with the link handed this question back" in page.text
        assert page.post("respond", {"action": "confirm"}).response.status_code == 200
    assert client.get(hitl["poll_url"]).json()["status"] == "completed"


def test_the_person_who_handed_back_may_still_decide(server: RunningServer, client: httpx.Client) -> None:
    hitl = server.open(client)
    with server.page(hitl) as page:
        page.post("hand-back", NOT_MINE)
        page.post("respond", {"action": "confirm"})
    assert client.get(hitl["poll_url"]).json()["result"]["action"] == "confirm"


def test_the_step_is_recorded_with_name_and_reason(server: RunningServer, client: httpx.Client) -> None:
    hitl = server.open(client)
    with person(server, server.create_key("ada", "inbox:all")) as ada:
        page = ada.page(hitl["case_id"]).post("hand-back", NOT_MINE)
        assert "You handed this question back" in page.text
    name, data = list_events(server, hitl)[-1]
    assert name == "review.handed_back"
    assert (data["handed_back_by"], data["reason"]) == ({"name": "ada"}, "Not mine to decide")
    with server.page(hitl) as other:
        assert re.search(r"ada</bdi> handed this question back", other.text)


def test_the_owner_is_told_by_event_and_by_callback(server: RunningServer, client: httpx.Client) -> None:
    hitl = server.open(client, callback_url="http://127.0.0.1:9/none")
    with server.page(hitl) as page:
        page.post("hand-back", NOT_MINE)
        page.post("respond", {"action": "confirm"})
    told = events_of(client.get(hitl["events_url"]).text)
    [handed] = [data for _, name, data in told if name == "review.handed_back"]
    assert handed["reason"] == "Not mine to decide"
    owed = client.get("/v1/deliveries", params={"case_id": hitl["case_id"]}).json()["deliveries"]
    assert {one["event"] for one in owed} >= {"review.handed_back", "review.completed"}


def test_one_link_hands_a_case_back_once(server: RunningServer, client: httpx.Client) -> None:
    hitl = server.open(client)
    with server.page(hitl) as page:
        for number in range(5):
            page.post("hand-back", {"reason": f"try {number}"})
    steps = [data["reason"] for name, data in list_events(server, hitl) if name == "review.handed_back"]
    assert steps == ["try 0"]


def test_the_only_person_who_was_asked_ends_the_case(server: RunningServer, client: httpx.Client) -> None:
    hitl = server.open(client, only_reviewer="Ada of the garden")
    with server.page(hitl) as page:
        assert "Nobody else was asked" in page.text
        assert "withdrawn" in page.post("hand-back", NOT_MINE).text
    polled = client.get(hitl["poll_url"]).json()
    assert (polled["status"], polled["reason"]) == ("cancelled", "Not mine to decide")
    assert [name for name, _ in list_events(server, hitl)][-2:] == ["review.handed_back", "review.cancelled"]


def test_a_case_of_one_person_who_passed_it_on_stays_open(
    server: RunningServer, client: httpx.Client
) -> None:
    hitl = server.open(client, only_reviewer="Ada of the garden")
    with server.page(hitl) as page:
        page.post("pass-on", {})
        assert "You handed this question back" in page.post("hand-back", NOT_MINE).text
    assert client.get(hitl["poll_url"]).json()["status"] != "cancelled"


def test_a_stranger_in_the_inbox_does_not_end_the_case_of_one_person(
    server: RunningServer, client: httpx.Client
) -> None:
    hitl = server.open(client, only_reviewer="Ada of the garden")
    with person(server, server.create_key("ben", "inbox:all")) as ben:
        ben.page(hitl["case_id"]).post("hand-back", NOT_MINE)
    assert client.get(hitl["poll_url"]).json()["status"] != "cancelled"


@pytest.mark.parametrize("wrong", [True, 1, "", "x" * 201, ["Ada"]])
def test_only_reviewer_is_a_short_name(server: RunningServer, client: httpx.Client, wrong: Any) -> None:
    refused = client.post("/v1/cases", json={**EXAMPLE, "only_reviewer": wrong})
    assert refused.status_code == 400
    assert "only_reviewer" in refused.json()["message"]
