"""A covered call that waits with others of its turn runs only if its grant still holds by then."""

import asyncio
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from placet import Placet, PlacetClient
from placet.errors import Unavailable
from placet.hook import HumanInTheLoopHook, MemoryGrants, MemorySaver, ReactAgent, SqliteSaver, ToolConfig
from placet.hook.feedback import CallDecision
from placet.hook.grants import EmbeddedGrants, ServerGrants, arecheck_grants, recheck_grants
from placet.hook.reviews import EmbeddedReviews, ServerReviews
from placet.hook.tool_call import ToolCall
from placet.testing.clock import FakeClock
from placet.testing.contracts.grant_store import create_case_with_grants
from placet.testing.samples import sample_grant
from tests.hook.scripted_model import Office, Scripted, call, expect_interruption, expect_result
from tests.server.running import RunningServer, running

HOUR = timedelta(hours=1)
SQL = ToolCall(id="a", name="execute_sql", arguments={"query": "SELECT 1"})
FILE = ToolCall(id="b", name="write_file", arguments={"path": "x.txt"})
RAN_SQL, RAN_FILE = ("execute_sql", "SELECT 1"), ("write_file", "x.txt", "")
TURN = [SQL.to_dict(), FILE.to_dict()]
HOOK = HumanInTheLoopHook({"execute_sql": "Asks the database", "write_file": ToolConfig(timeout=600)})


class GrantedAgent:
    """An agent that wants two things at once, of which a person has allowed the first, once."""

    def __init__(self, saver: Any = None, source: Any = None, **options: Any) -> None:
        self.clock, self.office = FakeClock(), Office()
        self.source = source or MemoryGrants(clock=self.clock)
        if isinstance(self.source, MemoryGrants):
            self.grant = self.source.add(SQL, agent="clerk", uses=1, lasts_for=HOUR, granted_by="Ada")
        self.model = Scripted(TURN, "done")
        self.saver = saver or MemorySaver(clock=self.clock)
        self.agent = ReactAgent(
            "clerk",
            self.model,
            self.office.tools,
            [HOOK],
            self.saver,
            grants=self.source,
            clock=self.clock,
            **options,
        )

    def begin(self) -> Any:
        waiting = expect_interruption(self.agent.invoke("go", thread_id="t"))
        assert [one.id for one in waiting.tools_automatically_approved] == ["a"]
        return waiting


def test_a_grant_that_still_holds_lets_its_call_run_and_counts_once() -> None:
    desk = GrantedAgent()
    waiting = desk.begin()
    expect_result(desk.agent.resume("t", waiting.reject_all("No.")))
    assert desk.office.ran == [RAN_SQL]
    assert desk.source.list()[0].used == 1


ENDS: dict[str, Callable[[GrantedAgent], object]] = {
    "revoked": lambda desk: desk.source.revoke(desk.grant.id, by="Ada"),
    "over": lambda desk: desk.clock.advance(HOUR),
}


@pytest.mark.parametrize("how", ENDS)
def test_a_grant_that_ended_while_its_call_waited_runs_nothing_and_a_person_is_asked(how: str) -> None:
    desk = GrantedAgent()
    waiting = desk.begin()
    ENDS[how](desk)
    answered: dict[str, CallDecision] = {} if how == "over" else {"b": "approve"}
    again = expect_interruption(desk.agent.resume("t", answered or None))
    assert desk.office.ran == []
    assert again.id != waiting.id
    (asked,) = again.undecided
    assert (asked.id, asked.name, asked.arguments) == ("a", SQL.name, SQL.arguments)
    assert asked.description == "Asks the database"
    assert again.tools_automatically_approved == ()
    assert again.expires_at == desk.clock() + timedelta(minutes=10)
    expect_result(desk.agent.resume("t", again.approve_all()))
    assert sorted(desk.office.ran) == ([RAN_SQL] if how == "over" else [RAN_SQL, RAN_FILE])


def test_rejection_overrides_a_grant() -> None:
    desk = GrantedAgent()
    waiting = desk.begin()
    desk.source.revoke(desk.grant.id)
    again = expect_interruption(desk.agent.resume("t", waiting.approve_all()))
    expect_result(desk.agent.resume("t", again.reject_all("Not any more.")))
    assert desk.office.ran == [RAN_FILE]
    assert desk.model.results()[0] == "A person rejected this call. Their reason: Not any more."


def test_another_process_knows_what_allowed_the_call(tmp_path: Path) -> None:
    first = GrantedAgent(SqliteSaver(tmp_path / "threads.db"))
    waiting = first.begin()
    first.saver.close()
    later = GrantedAgent(SqliteSaver(tmp_path / "threads.db"))  # its own source knows no such grant
    assert [
        one.id for one in expect_interruption(later.agent.resume("t", waiting.approve_all())).undecided
    ] == ["a"]
    assert later.office.ran == []
    later.saver.close()


def test_an_agent_without_grants_runs_nothing_that_one_with_them_left() -> None:
    desk = GrantedAgent()
    waiting = desk.begin()
    without = ReactAgent("clerk", desk.model, desk.office.tools, [HOOK], desk.saver, clock=desk.clock)
    expect_interruption(without.resume("t", waiting.approve_all()))
    assert desk.office.ran == []


def test_an_agent_inside_asks_again_too() -> None:
    clock, office = FakeClock(), Office()
    source = MemoryGrants(clock=clock)
    grant = source.add(SQL, agent="chief>clerk", uses=1, lasts_for=HOUR, granted_by="Ada")
    clerk = ReactAgent(
        "clerk", Scripted(TURN, "ok"), office.tools, [HOOK], grants=source, clock=clock, saver=MemorySaver()
    )
    model = Scripted([call("o", "clerk", task="x")], "done")
    chief = ReactAgent("chief", model, [clerk.as_tool("Helps.")], clock=clock, saver=MemorySaver())
    waiting = expect_interruption(chief.invoke("go", thread_id="t"))
    assert [one.name for one in waiting.undecided] == ["write_file"]
    source.revoke(grant.id)
    again = expect_interruption(chief.resume("t", waiting.approve_all()))
    assert [one.name for one in again.undecided] == ["execute_sql"]
    assert office.ran == []
    expect_result(chief.resume("t", again.reject_all()))
    assert office.ran == [RAN_FILE]


class OddGrants:
    """A source that covers SQL, and says of its grants what it was told to say."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def use(self, call: ToolCall, **named: str) -> str | None:
        return "grant_1" if call.name == SQL.name else None

    def holds(self, grant_id: str) -> Any:
        assert grant_id == "grant_1"
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


class SilentGrants:
    """A source that covers SQL, and cannot say more."""

    def use(self, call: ToolCall, **named: str) -> str | None:
        return "grant_1" if call.name == SQL.name else None


@pytest.mark.parametrize(
    "source", [SilentGrants(), *map(OddGrants, (False, None, 1, "yes", Unavailable(), RuntimeError()))]
)
def test_grant_source_without_a_clear_yes_runs_nothing(source: Any, caplog: pytest.LogCaptureFixture) -> None:
    desk = GrantedAgent(source=source)
    waiting = desk.begin()
    expect_interruption(asyncio.run(desk.agent.aresume("t", waiting.approve_all())))
    assert desk.office.ran == []
    failed = isinstance(getattr(source, "answer", None), Exception)
    assert ("tool=execute_sql result=reviewer_is_asked" in caplog.text) is failed


class UnreachableGrants(SilentGrants):
    """A source that cannot be reached, and counts who tried."""

    asked = 0

    def holds(self, grant_id: str) -> bool:
        self.asked += 1
        raise Unavailable()


def test_an_unreachable_source_is_tried_once_however_many_calls_waited() -> None:
    source = UnreachableGrants()
    kept = {name: {"grant": "grant_1", "call": {"name": SQL.name}} for name in "abc"}
    assert recheck_grants(source, kept) == set()
    assert asyncio.run(arecheck_grants(source, kept)) == set()
    assert source.asked == 2


class AsyncGrants(SilentGrants):
    async def holds(self, grant_id: str) -> bool:
        return True


def test_a_source_that_must_be_awaited_is_asked_on_an_event_loop_only() -> None:
    kept = {"a": {"grant": "grant_1", "call": {"name": SQL.name}}}
    assert recheck_grants(AsyncGrants(), kept) == set()
    assert asyncio.run(arecheck_grants(AsyncGrants(), kept)) == {"a"}


# With people on a server


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with running(tmp_path_factory.mktemp("lapsed")) as server:
        yield server


def test_the_person_who_revokes_on_the_server_is_asked_there(server: RunningServer) -> None:
    now = server.clock()
    terms: dict[str, Any] = {"tool": SQL.name, "agent": "clerk", "patterns": {"query": {"exact": "SELECT 1"}}}
    grant = sample_grant("", owner="lapsed", granted_at=now, expires_at=now + HOUR, uses=1, **terms)
    server.run(create_case_with_grants(server.parts.store, grant))
    with PlacetClient(server.url, server.create_key("lapsed")) as client:
        desk = GrantedAgent(source=ServerGrants(client), reviews=ServerReviews(client))
        first = desk.begin()
        assert client.grant(grant.id)["state"] == "used_up"
        assert desk.source.holds(grant.id)
        client.revoke_grant(grant.id)
        assert not desk.source.holds(grant.id)
        with server.page(first.case) as page:
            assert page.post("respond", {"action": "approve"}).response.status_code == 200
        again = expect_interruption(desk.agent.resume("t"))
        assert again.case is not None
        assert again.case["case_id"] != first.case["case_id"]
        with server.page(dict(again.case)) as page:
            assert "Asks the database" in page.text
            assert page.post("respond", {"action": "reject"}).response.status_code == 200
        expect_result(desk.agent.resume("t"))
        assert desk.office.ran == [RAN_FILE]


@pytest.mark.anyio
async def test_an_embedded_desk_is_asked_too(tmp_path: Path) -> None:
    # The case of the grant is as old as all samples: after 30 days the sweep erases it and the grant.
    placet = Placet(base_url="http://127.0.0.1:8400", db=str(tmp_path / "cases.db"), retention="3650d")
    async with placet.lifespan():
        parts = await placet.parts()
        now = parts.desk.grants.now()
        terms: dict[str, Any] = {
            "tool": SQL.name,
            "agent": "clerk",
            "patterns": {"query": {"glob": "SELECT *"}},
        }
        grant = sample_grant("", owner="in-house", granted_at=now, expires_at=now + HOUR, uses=1, **terms)
        await create_case_with_grants(parts.store, grant)
        source = EmbeddedGrants(placet)
        desk = GrantedAgent(source=source, reviews=EmbeddedReviews(placet))
        waiting = expect_interruption(await desk.agent.ainvoke("go", thread_id="t"))
        assert await source.holds(grant.id)
        await source.revoke(grant.id)
        expect_interruption(await desk.agent.aresume("t", waiting.approve_all()))
        assert desk.office.ran == []
