"""`placet pending`: a case is not lost however its command ends."""

import signal

import msgspec
import pytest

from tests.cli.asking import Desk
from tests.cli.process import placet

QUESTION = ("ask", "approval", "Send it?")


@pytest.mark.parametrize(
    ("how", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)], ids=["interrupted", "ended"]
)
def test_a_command_that_is_ended_leaves_its_case_and_says_how_to_go_on(
    desk: Desk, how: signal.Signals, code: int
) -> None:
    asking = desk.start(*QUESTION)
    link = asking.link()
    asking.wait_for("Waiting")
    asking.stop(how)
    assert asking.read_stdout(code) == b""
    (kept,) = desk.list_pending()
    assert asking.stderr.endswith(f"Resume waiting with:\n  placet pending resume {kept.case.case_id}\n")
    again = desk.start("pending", "resume", kept.case.case_id)
    again.wait_for("Waiting for a person to open it")
    assert link not in again.stderr
    desk.answer(link, "reject")
    assert again.end(10)["case_id"] == kept.case.case_id
    assert desk.list_pending() == []


def test_a_command_that_is_killed_between_notice_and_decision_loses_nothing(desk: Desk) -> None:
    asking = desk.start(*QUESTION)
    link = asking.link()
    asking.stop(signal.SIGKILL)
    asking.read_stdout(-signal.SIGKILL)
    desk.answer(link, "approve")
    again = desk.start("pending", "resume")
    assert again.end()["action"] == "approve"
    assert desk.list_pending() == []


def test_resume_notifies_again_when_requested(desk: Desk) -> None:
    case_id = desk.start(*QUESTION, "--max-wait", "0").end(13)["case_id"]
    again = desk.start("pending", "resume", case_id, "--via", "print")
    desk.answer(again.link(), "approve")
    again.end()


def test_all_are_resumed_at_once_each_with_its_own_line(desk: Desk) -> None:
    links = [desk.start(*QUESTION, "--max-wait", "0").end(13)["review_url"] for _ in range(3)]
    asking = desk.start("pending", "resume")
    for link, action in zip(links, ("approve", "reject", "approve"), strict=True):
        desk.answer(link, action)
    lines = asking.read_stdout(10).splitlines()
    assert sorted(msgspec.json.decode(line)["action"] for line in lines) == ["approve", "approve", "reject"]
    assert desk.list_pending() == []


def test_failing_case_does_not_stop_the_others(desk: Desk) -> None:
    link = desk.start(*QUESTION, "--max-wait", "0").end(13)["review_url"]
    lost = desk.start(*QUESTION, "--max-wait", "0").end(13)["case_id"]
    with desk.api() as owner:
        owner.post(f"/v1/reviews/{lost}/cancel")
    asking = desk.start("pending", "resume", "--interval", "0.2", "--max-wait", "60")
    desk.answer(link, "approve")
    found = [msgspec.json.decode(line) for line in asking.read_stdout(12).splitlines()]
    assert {one["status"] for one in found} == {"completed", "cancelled"}


def test_pending_cases_are_listed_and_can_be_forgotten(desk: Desk) -> None:
    cases = [desk.start(*QUESTION, "--max-wait", "0").end(13) for _ in range(2)]
    listed = placet(desk.folder, "pending", "list", env=desk.env)
    assert all(case["case_id"] in listed.stdout for case in cases)
    assert "Send it?" in listed.stdout
    as_json = msgspec.json.decode(placet(desk.folder, "pending", "list", "--json", env=desk.env).stdout)
    assert [one["review_url"] for one in as_json] == [case["review_url"] for case in cases]
    forgot = placet(desk.folder, "pending", "forget", cases[0]["case_id"], env=desk.env)
    assert (forgot.returncode, forgot.stdout) == (0, "")
    assert [one.case.case_id for one in desk.list_pending()] == [cases[1]["case_id"]]
    rest = placet(desk.folder, "pending", "forget", "--all", "--json", env=desk.env)
    assert msgspec.json.decode(rest.stdout) == {"forgotten": [cases[1]["case_id"]]}
    assert desk.list_pending() == []


def test_nothing_pending_is_no_error(desk: Desk) -> None:
    listed = placet(desk.folder, "pending", "list", env=desk.env)
    assert (listed.returncode, listed.stdout, listed.stderr) == (0, "", "Nothing is pending.\n")
    assert placet(desk.folder, "pending", "list", "--json", env=desk.env).stdout == "[]\n"
    assert placet(desk.folder, "pending", "resume", env=desk.env).returncode == 0


def test_an_unknown_case_is_named(desk: Desk) -> None:
    for verb in ("resume", "forget"):
        run = placet(desk.folder, "pending", verb, "review_nothing", env=desk.env)
        assert (run.returncode, run.stdout) == (1, "")
        assert "No case 'review_nothing' is pending" in run.stderr
    assert placet(desk.folder, "pending", "forget", env=desk.env).returncode == 2
