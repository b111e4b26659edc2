"""`placet wait`: the decision of a case that someone else opened."""

from collections.abc import Iterator
from threading import Event

import pytest

from tests.cli.asking import Desk
from tests.cli.strange_service import Call, Reply, StrangeService, strange_service

CASE = {"type": "confirmation", "prompt": "Water the plants?"}


@pytest.fixture
def service() -> Iterator[StrangeService]:
    with strange_service() as service:
        yield service


def test_a_case_of_another_program_is_followed_by_its_poll_url(desk: Desk) -> None:
    with desk.api() as api:
        hitl = api.post("/v1/cases", json=CASE).json()["hitl"]
    asking = desk.start("wait", hitl["poll_url"], "--interval", "0.2")
    asking.wait_for("Waiting for a person to open it (23:59:")
    desk.answer(hitl["review_url"], "cancel")
    result = asking.end(10)
    assert (result["case_id"], result["action"], result["verified"]) == (hitl["case_id"], "cancel", True)


def test_a_case_of_ours_is_polled_with_the_credential_it_was_opened_with(
    service: StrangeService, desk: Desk
) -> None:
    service.asks()
    secret = "Authorization: Bearer s3cret"
    desk.start("request", "POST", f"{service.url}/act", "-H", secret, "--max-wait", "0").end(13)
    service.answer_polls_with(status="completed", result={"action": "confirm", "data": {}})
    assert desk.start("wait", f"{service.url}/poll").end()["action"] == "confirm"
    assert service.calls[-1].headers["authorization"] == "Bearer s3cret"
    assert desk.list_pending() == []


def test_minimal_poll_responses_are_followed(service: StrangeService, desk: Desk) -> None:
    service.answer_polls_with(status="pending", case_id=None)
    asking = desk.start("wait", f"{service.url}/poll", "--interval", "0.1")
    asking.wait_for("Waiting for a person to open it.\n")
    service.answer_polls_with(status="expired", case_id=None, default_action="abort")
    assert asking.end(11)["default_action"] == "abort"


@pytest.mark.parametrize(
    ("reply", "complaint"),
    [
        (Reply(status=404), "The poll URL answered HTTP 404."),
        (Reply(status=401), "HTTP 401. Pass the credentials"),
        (Reply(status=302, headers={"Location": "/elsewhere"}), "This is not a poll URL"),
        (Reply(body=b"<html>", headers={"Content-Type": "text/html; charset=utf-8"}), "not a poll URL"),
        (Reply(body=b"<html>"), "did not return a poll response"),
        (Reply(body=b"[]"), "did not return a poll response"),
        (Reply(body=b'{"status": 7}'), "did not return a poll response"),
        (Reply(body=b'{"status": "ok"}'), "did not return a poll response"),
        (Reply(body=b'{"status": ["pending"]}'), "did not return a poll response"),
        (Reply(body=b"\xff"), "did not return a poll response"),
    ],
)
def test_invalid_poll_url_is_an_error(
    service: StrangeService, desk: Desk, reply: Reply, complaint: str
) -> None:
    service.replies["/poll"] = reply
    asking = desk.start("wait", f"{service.url}/poll")
    assert asking.read_stdout(1) == b""
    assert complaint in asking.stderr


def test_still_open_has_its_own_exit_code_and_no_made_up_review_url_or_type(desk: Desk) -> None:
    with desk.api() as api:
        hitl = api.post("/v1/cases", json=CASE).json()["hitl"]
    still_open = desk.start("wait", hitl["poll_url"], "--max-wait", "0").end(13)
    assert still_open["status"] == "pending"
    assert still_open["case_id"] == hitl["case_id"]
    assert (still_open["review_url"], still_open["type"], still_open["prompt"]) == (None, None, None)
    assert still_open["expires_at"] == hitl["expires_at"]


def test_case_without_a_deadline_has_none_in_the_output(service: StrangeService, desk: Desk) -> None:
    service.answer_polls_with(status="pending")
    assert desk.start("wait", f"{service.url}/poll", "--max-wait", "0").end(13)["expires_at"] is None


def test_review_link_is_explained_and_its_token_is_not_repeated(desk: Desk) -> None:
    with desk.api() as api:
        hitl = api.post("/v1/cases", json=CASE).json()["hitl"]
    asking = desk.start("wait", hitl["review_url"], "--max-wait", "1s", "--json")
    assert asking.end(1)["status"] == "error"
    assert "HTTP 303" not in asking.stderr
    assert "Pass the case's poll_url" in asking.stderr
    assert hitl["review_url"].partition("token=")[2] not in asking.stderr


def test_events_url_is_explained_and_not_read_to_its_end(desk: Desk) -> None:
    with desk.api() as api:
        hitl = api.post("/v1/cases", json=CASE).json()["hitl"]
    asking = desk.start("wait", hitl["events_url"])
    assert asking.read_stdout(1) == b""
    assert "it sends an event stream" in asking.stderr
    assert "Pass the case's poll_url" in asking.stderr


def test_max_wait_limits_the_first_poll_too(service: StrangeService, desk: Desk) -> None:
    stopped = Event()

    def hang(call: Call) -> Reply:
        stopped.wait(60)
        return Reply(body=b'{"status": "pending"}')

    service.replies["/poll"] = hang
    asking = desk.start("wait", f"{service.url}/poll", "--max-wait", "1s", "--json")
    try:
        assert asking.end(1)["error"] == "unreadable_answer"
        assert "does not answer within 5 seconds" in asking.stderr
    finally:
        stopped.set()


def test_review_link_of_a_case_of_this_machine_is_waited_for(desk: Desk) -> None:
    asked = desk.start("ask", "confirmation", "Go?", "--max-wait", "0").end(13)
    desk.answer(asked["review_url"], "confirm")
    assert desk.start("wait", asked["review_url"]).end()["case_id"] == asked["case_id"]


@pytest.mark.parametrize(
    ("action", "options", "code"),
    [
        ("approve", [], 0),
        ("skip", [], 10),  # a case of a custom type may offer it as a no
        ("retry", [], 10),
        ("allow", [], 10),
        ("allow", ["--affirmative", "allow"], 0),
        ("skip", ["--affirmative", "retry", "--affirmative", "skip"], 0),
        ("approve", ["--affirmative", "allow"], 10),
        ("Allow", ["--affirmative", "allow"], 10),
    ],
)
def test_only_clear_or_named_actions_are_a_yes_for_a_case_of_unknown_type(
    service: StrangeService, desk: Desk, action: str, options: list[str], code: int
) -> None:
    service.answer_polls_with(status="completed", result={"action": action, "data": {}})
    result = desk.start("wait", f"{service.url}/poll", *options).end(code)
    assert result["is_affirmative"] is (code == 0)
