"""Pending cases survive the process: encrypted, restored, and removed once they have ended."""

import asyncio
import os
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from placet.agent import Agent, AsyncAgent, Decided, FollowedCase, Notice, PendingCase, PendingCases
from placet.agent.pending_case_store import ButtonAudience, SavedButton
from placet.errors import CaseNotSaved, SettingsError, StillWaiting
from tests.agent.clocks import make_ticking_clock
from tests.server.running import EXAMPLE, RunningServer, running

NOW = datetime(2026, 11, 15, 12, tzinfo=UTC)
CASE = FollowedCase(
    case_id="review_1",
    type="approval",
    prompt="Deploy?",
    message="Deploy?",
    review_url="https://ci.example/review/1?token=SECRET-REVIEW",
    poll_url="https://ci.example/poll/1",
    service_url="https://ci.example/deploy",
    submit_token="SECRET-SUBMIT",
    created_at=NOW,
    expires_at=NOW + timedelta(hours=1),
    spec_version="0.9",
)
PENDING = PendingCase(case=CASE, credentials={"authorization": "Bearer SECRET-KEY"}, reference="job 7")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "agent" / "pending.db"


def test_pending_case_is_restored_completely(path: Path) -> None:
    first = PendingCases(path)
    first.add(PENDING)
    first.mark_notified(CASE)
    first.close()
    assert PendingCases(path).list_pending() == [replace(PENDING, is_notified=True)]


def test_button_reference_of_an_earlier_version_still_works(path: Path) -> None:
    first = PendingCases(path)
    first.add(PENDING)
    first.close()
    with sqlite3.connect(path) as earlier:
        earlier.execute("ALTER TABLE button DROP COLUMN pressable")
        earlier.execute("ALTER TABLE pending DROP COLUMN reminded_up_to")
        earlier.execute("INSERT INTO button SELECT 'ref-1', id, 'approve' FROM pending")
    found = PendingCases(path).find_button("ref-1")
    assert found == SavedButton(pending=PENDING, action="approve")
    assert found.is_for("telegram", "7")
    with sqlite3.connect(path) as earlier:  # which may still run, and reads the file in its own way
        asked = (
            "SELECT id, notified, sealed, action FROM button JOIN pending USING (id)"
            " WHERE reference = 'ref-1'"
        )
        assert earlier.execute(asked).fetchone()[3] == "approve"


def test_one_of_several_agents_claims_a_reminder(path: Path) -> None:
    first, second = PendingCases(path), PendingCases(path)
    first.add(PENDING)
    assert first.claim_reminder(CASE, NOW)
    assert not second.claim_reminder(CASE, NOW)
    assert not second.claim_reminder(CASE, NOW - timedelta(minutes=1))
    assert second.list_pending()[0].reminded_up_to == NOW
    assert second.claim_reminder(CASE, NOW + timedelta(minutes=1))
    assert not first.claim_reminder(CASE, NOW + timedelta(minutes=1))
    assert first.claim_reminder(replace(CASE, case_id="never kept"), NOW)


def test_answerers_are_stored_encrypted(path: Path) -> None:
    cases = PendingCases(path)
    cases.add(PENDING)
    pressable = ButtonAudience(channel="whatsapp", answerers=("41791234567",))
    cases.add_buttons(CASE, {"ref-1": "approve"}, pressable)
    found = cases.find_button("ref-1")
    assert found == SavedButton(pending=PENDING, action="approve", pressable=pressable)
    assert found.is_for("whatsapp", "41791234567")
    assert not found.is_for("telegram", "41791234567")
    assert not found.is_for("whatsapp", "41790000000")
    cases.close()
    assert b"41791234567" not in b"".join(one.read_bytes() for one in path.parent.iterdir())


def test_ended_case_is_removed_and_others_stay(path: Path) -> None:
    cases = PendingCases(path)
    elsewhere = replace(PENDING, case=replace(CASE, service_url="https://other.example/deploy"))
    cases.add(PENDING)
    cases.add(elsewhere)
    cases.remove(CASE)
    assert cases.list_pending() == [elsewhere]


def test_the_most_urgent_comes_first(path: Path) -> None:
    cases = PendingCases(path)
    urgent = replace(CASE, case_id="review_2", expires_at=NOW + timedelta(minutes=1))
    cases.add(PENDING)
    cases.add(PendingCase(case=urgent))
    assert [one.case.case_id for one in cases.list_pending()] == ["review_2", "review_1"]


def test_no_token_and_no_credential_can_be_read_from_the_files(path: Path) -> None:
    PendingCases(path).add(PENDING)
    for file in path.parent.iterdir():
        assert b"SECRET" not in file.read_bytes()
        assert file.stat().st_mode & 0o077 == 0, file.name


def test_wrong_encryption_key_is_reported(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    PendingCases(path).add(PENDING)
    monkeypatch.setenv("PLACET_AGENT_KEY", "A" * 43 + "=")
    with pytest.raises(SettingsError, match="another key"):
        PendingCases(path).list_pending()
    monkeypatch.setenv("PLACET_AGENT_KEY", "short")
    with pytest.raises(SettingsError, match="32 bytes"):
        PendingCases(path)


def test_agents_that_start_at_once_share_one_key(path: Path) -> None:
    opened: list[PendingCases] = []
    threads = [threading.Thread(target=lambda: opened.append(PendingCases(path))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number, cases in enumerate(opened):
        cases.add(replace(PENDING, case=replace(CASE, case_id=f"review_{number}")))
    assert len(opened[0].list_pending()) == 8


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with running(tmp_path_factory.mktemp("server")) as server:
        yield server


def case_request(server: RunningServer) -> dict[str, Any]:
    return {
        "json": {**EXAMPLE, "inline_actions": ["confirm", "cancel"]},
        "headers": {"Authorization": f"Bearer {server.api_key}"},
    }


def poll_once(server: RunningServer, cases: PendingCases, heard: list[str]) -> None:
    """One look at all that waits, by each driver, without any patience."""

    async def tell(notice: Notice) -> None:
        heard.append(notice.name)

    async def main() -> None:
        async with AsyncAgent(
            tell=tell, pending=cases, clock=make_ticking_clock(server), max_wait=timedelta(0)
        ) as agent:
            await agent.resume_all()

    asyncio.run(main())

    def note(notice: Notice) -> None:
        heard.append(notice.name)

    with Agent(tell=note, pending=cases, clock=make_ticking_clock(server), max_wait=timedelta(0)) as agent:
        agent.resume_all()


def test_a_reminder_that_came_due_while_nobody_ran_goes_out_once_in_all_later_runs(
    server: RunningServer, path: Path
) -> None:
    heard: list[str] = []
    cases = PendingCases(path)
    asked = case_request(server)
    asked["json"]["reminder_at"] = (server.clock() + timedelta(minutes=10)).isoformat()
    with (
        Agent(
            tell=lambda notice: heard.append(notice.name),
            pending=cases,
            clock=make_ticking_clock(server),
            max_wait=timedelta(0),
        ) as agent,
        pytest.raises(StillWaiting),
    ):
        agent.request("POST", f"{server.url}/v1/cases", **asked)
    poll_once(server, cases, heard)
    assert heard == ["requested"]
    server.advance(minutes=20)
    server.sweep()
    for _ in range(2):
        poll_once(server, cases, heard)
        assert heard == ["requested", "reminder"]


def test_case_stays_pending_after_max_wait(server: RunningServer, path: Path) -> None:
    told: list[Notice] = []
    with Agent(
        tell=told.append, pending=PendingCases(path), clock=make_ticking_clock(server), max_wait=timedelta(0)
    ) as agent:
        with pytest.raises(StillWaiting):
            agent.request("POST", f"{server.url}/v1/cases", reference="plants", **case_request(server))
        (left,) = agent.pending()
    assert (left.reference, left.is_notified) == ("plants", True)
    server.press({"submit_url": left.case.submit_url, "submit_token": left.case.submit_token}, "confirm")

    async def resumed() -> None:
        async def tell(notice: Notice) -> None:
            told.append(notice)

        async with AsyncAgent(
            tell=tell, pending=PendingCases(path), clock=make_ticking_clock(server)
        ) as again:
            ((pending, outcome),) = await again.resume_all()
            assert pending.reference == "plants"
            assert isinstance(outcome, Decided)
            assert again.pending() == []

    asyncio.run(resumed())
    assert [notice.name for notice in told] == ["requested", "ended"]  # the person is not told twice


def test_an_agent_that_is_ended_right_after_notifying_does_not_notify_again(
    server: RunningServer, path: Path
) -> None:
    async def main() -> None:
        async def tell(notice: Notice) -> None:
            asking.cancel()

        async with AsyncAgent(
            tell=tell, pending=PendingCases(path), clock=make_ticking_clock(server)
        ) as agent:
            asking = asyncio.create_task(
                agent.request("POST", f"{server.url}/v1/cases", **case_request(server))
            )
            await asyncio.wait([asking])
            assert asking.cancelled()

    asyncio.run(main())
    assert [one.is_notified for one in PendingCases(path).list_pending()] == [True]


KILLED = """
import os, signal, sys
from datetime import datetime
from placet.agent import Agent, PendingCases

def tell(notice):
    print(notice.case.review_url, flush=True)
    if sys.argv[4] == "while telling":
        os.kill(os.getpid(), signal.SIGKILL)

now = datetime.fromisoformat(sys.argv[5])
agent = Agent(tell=tell, pending=PendingCases(sys.argv[1]), clock=lambda: now)
body = {"type": "confirmation", "prompt": "Water the plants?", "inline_actions": ["confirm", "cancel"]}
headers = {"Authorization": "Bearer " + sys.argv[3]}
agent.request("POST", sys.argv[2] + "/v1/cases", json=body, headers=headers)
"""


@pytest.mark.parametrize("moment", ["while telling", "while waiting"])
def test_an_agent_that_is_killed_finds_its_case_again(server: RunningServer, path: Path, moment: str) -> None:
    command = [sys.executable, "-c", KILLED, str(path), server.url, server.api_key, moment]
    command.append(server.clock().isoformat())
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith(server.url)
        if moment == "while waiting":
            cases = PendingCases(path)
            while not cases.list_pending()[0].is_notified:
                assert process.poll() is None
            os.kill(process.pid, signal.SIGKILL)
        assert process.wait(60) == -signal.SIGKILL
    told: list[Notice] = []
    with Agent(
        tell=told.append, pending=PendingCases(path), clock=make_ticking_clock(server), interval_s=0.05
    ) as again:
        (left,) = again.pending()
        server.press({"submit_url": left.case.submit_url, "submit_token": left.case.submit_token}, "cancel")
        ((_, outcome),) = again.resume_all()
    assert isinstance(outcome, Decided)
    assert outcome.against
    # A process that was killed while it sent the link may not have sent it, so the link is sent again.
    repeated = ["requested"] if moment == "while telling" else []
    assert [notice.name for notice in told] == [*repeated, "ended"]


def test_locked_file_does_not_lose_the_case_or_its_decision(server: RunningServer, path: Path) -> None:
    """Held by somebody else from the moment the person is told, until all is over."""
    cases = PendingCases(path, lock_timeout_s=0.1)
    holder = sqlite3.connect(path, isolation_level=None, check_same_thread=False)

    def tell(notice: Notice) -> None:
        if notice.name == "requested":
            holder.execute("BEGIN EXCLUSIVE")
            link = {"submit_url": notice.case.submit_url, "submit_token": notice.case.submit_token}
            threading.Thread(target=server.press, args=(link, "confirm")).start()

    with Agent(tell=tell, pending=cases, clock=make_ticking_clock(server)) as agent:
        outcome = agent.request("POST", f"{server.url}/v1/cases", **case_request(server))
        with pytest.raises(CaseNotSaved, match="database is locked"):
            cases.require_room()
        holder.execute("ROLLBACK")
    assert isinstance(outcome, Decided)
    assert [one.is_notified for one in cases.list_pending()] == [False]
    holder.close()


def test_two_agents_with_one_file_each_find_all_cases_and_lose_none(path: Path) -> None:
    first, second = PendingCases(path), PendingCases(path)
    numbers = range(20)

    def add(cases: PendingCases, name: str) -> None:
        for number in numbers:
            cases.add(PendingCase(case=replace(CASE, case_id=f"{name}{number}")))
            cases.mark_notified(replace(CASE, case_id=f"{name}{number}"))

    threads = [threading.Thread(target=add, args=arguments) for arguments in ((first, "a"), (second, "b"))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    wanted = {f"{name}{number}" for name in "ab" for number in numbers}
    for cases in (first, second):
        assert {one.case.case_id for one in cases.list_pending() if one.is_notified} == wanted
