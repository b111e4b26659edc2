"""`placet case list` and `case cancel`: the cases of an API key on a server."""

from pathlib import Path

import msgspec
import pytest

from tests.cli.asking import Desk
from tests.cli.process import ServerProcess, placet

CASE = {"type": "confirmation", "prompt": "Water the plants?"}
ESCAPE = "\x1b[31m"


@pytest.fixture
def opened(desk: Desk) -> list[str]:
    """Three cases, oldest first."""
    with desk.api() as api:
        return [api.post("/v1/cases", json=CASE).json()["hitl"]["case_id"] for _ in range(3)]


def read_list(desk: Desk, *options: str) -> list[str]:
    printed = desk.start("case", "list", "--json", *options).read_stdout()
    return [one["poll"]["case_id"] for one in msgspec.json.decode(printed)]


def test_cases_are_listed_newest_first_in_pages(desk: Desk, opened: list[str]) -> None:
    oldest, middle, newest = opened
    first = desk.start("case", "list", "--limit", "2")
    lines = first.read_stdout().decode().splitlines()
    assert [line.split()[0] for line in lines] == ["CASE", newest, middle]
    assert f"--before {middle}" in first.stderr
    assert read_list(desk, "--before", middle, "--limit", "1") == [oldest]


def test_more_cases_than_a_page_of_the_server_are_listed(desk: Desk) -> None:
    with desk.api() as api:
        for _ in range(205):
            api.post("/v1/cases", json=CASE)
    assert len(set(read_list(desk, "--limit", "204"))) == 204


def test_cases_are_filtered_by_their_state(desk: Desk, opened: list[str]) -> None:
    desk.start("case", "cancel", opened[1]).read_stdout()
    assert opened[1] in read_list(desk, "--status", "cancelled")
    assert opened[1] not in read_list(desk, "--status", "pending")


def test_withdrawn_case_can_no_longer_be_answered_and_keeps_its_reason(desk: Desk, opened: list[str]) -> None:
    ended = desk.start("case", "cancel", opened[0], "--reason", "It rained.", "--json").end()
    assert (ended["status"], ended["reason"]) == ("cancelled", "It rained.")
    again = desk.start("case", "cancel", opened[0])
    again.read_stdout(1)
    assert "already closed" in again.stderr


@pytest.mark.parametrize("case_id", ["nope", "../../v1/cases", "a/b", "?x=1", "#", ESCAPE, "é"])
def test_unknown_case_cannot_be_withdrawn(desk: Desk, case_id: str) -> None:
    asked = desk.start("case", "cancel", case_id)
    assert asked.read_stdout(1) == b""
    assert "Traceback" not in asked.stderr
    assert ESCAPE not in asked.stderr


def test_key_of_another_owner_sees_and_withdraws_nothing(
    desk: Desk, desk_server: ServerProcess, opened: list[str]
) -> None:
    made = placet(Path(desk_server.stdout.strip()).parent, "key", "create", "other", "--db", "cases.db")
    key = {"PLACET_KEY": made.stdout.strip()}
    assert desk.start("case", "list", "--json", env=key).read_stdout() == b"[]\n"
    asked = desk.start("case", "cancel", opened[0], env=key)
    asked.read_stdout(1)
    assert "Case not found" in asked.stderr


@pytest.mark.parametrize("command", [("list",), ("cancel", "review_1")])
def test_api_key_is_not_sent_over_plain_http(desk: Desk, command: tuple[str, ...]) -> None:
    asked = desk.start("case", *command, "--server", "http://placet.example")
    asked.read_stdout(1)
    assert "The server URL must be https" in asked.stderr


@pytest.mark.parametrize("command", [("list",), ("cancel", "review_1")])
def test_missing_key_is_named(desk: Desk, command: tuple[str, ...]) -> None:
    asked = desk.start("case", *command, env={"PLACET_KEY": ""})
    asked.read_stdout(1)
    assert "No API key. Set PLACET_KEY" in asked.stderr
