"""`placet wait`: the decision of a case that someone else opened."""

from collections.abc import Iterator

import pytest

from tests.cli.asking import Desk
from tests.cli.strange_service import Reply, StrangeService, strange_service

CASE = {"type": "confirmation", "prompt": "Water the plants?"}


@pytest.fixture
def service() -> Iterator[StrangeService]:
    with strange_service() as service:
        yield service


def test_a_case_of_another_program_is_waited_for_by_its_poll_address(desk: Desk) -> None:
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
    desk.start("request", "POST", f"{service.url}/act", "-H", secret, "--max-wait", "0").end(1)
    service.stands(status="completed", result={"action": "confirm", "data": {}})
    assert desk.start("wait", f"{service.url}/poll").end()["action"] == "confirm"
    assert service.calls[-1].headers["authorization"] == "Bearer s3cret"
    assert desk.kept() == []


def test_a_service_that_says_little_is_waited_for_all_the_same(service: StrangeService, desk: Desk) -> None:
    service.stands(status="pending", case_id=None)
    asking = desk.start("wait", f"{service.url}/poll", "--interval", "0.1")
    asking.wait_for("Waiting for a person to open it.\n")
    service.stands(status="expired", case_id=None, default_action="abort")
    assert asking.end(11)["default_action"] == "abort"


@pytest.mark.parametrize(
    ("reply", "complaint"),
    [
        (Reply(status=404), "The poll address answered HTTP 404."),
        (Reply(status=302, headers={"Location": "/elsewhere"}), "HTTP 302"),
        (Reply(body=b"<html>"), "does not answer as a poll address does"),
        (Reply(body=b"[]"), "does not answer as a poll address does"),
        (Reply(body=b'{"status": 7}'), "does not answer as a poll address does"),
        (Reply(body=b"\xff"), "does not answer as a poll address does"),
    ],
)
def test_what_is_no_poll_address_is_an_error(
    service: StrangeService, desk: Desk, reply: Reply, complaint: str
) -> None:
    service.replies["/poll"] = reply
    asking = desk.start("wait", f"{service.url}/poll")
    assert asking.printed(1) == b""
    assert complaint in asking.said
