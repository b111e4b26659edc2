"""Grants in the hook: covered calls run without asking; on any failure a person is asked."""

import asyncio
import logging
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from placet import Placet, PlacetClient
from placet.errors import CaseNotFound, InvalidSubmission, Unavailable
from placet.hook import MemorySaver, ReactAgent
from placet.hook.approval_rules import HumanInTheLoopHook, ToolConfig
from placet.hook.call_evaluation import evaluate_calls, run_evaluation
from placet.hook.grants import (
    EmbeddedGrants,
    MemoryGrants,
    ServerGrants,
    ause_grants,
    build_use_key,
    select_grantable,
    use_grants,
)
from placet.hook.tool_call import ToolCall
from placet.testing.clock import FakeClock
from placet.testing.contracts.grant_store import create_case_with_grants
from placet.testing.samples import new_id, sample_grant
from tests.server.running import RunningServer, running
from tests.test_client import serve_fixed_response

MAIL = {"to": "ada@acme.example", "copies": 1}
HOUR = timedelta(hours=1)
THREAD: dict[str, Any] = {"agent": "mailer", "thread_id": "thread", "turn": 1}


def call(number: int = 1, name: str = "send_email", **arguments: Any) -> ToolCall:
    return ToolCall(id=f"call_{number}", name=name, arguments=MAIL | arguments)


def make_grants(clock: FakeClock | None = None, **terms: Any) -> MemoryGrants:
    source = MemoryGrants(clock=clock or FakeClock())
    fields: dict[str, Any] = {"agent": "mailer", "uses": 2, "lasts_for": HOUR, "granted_by": "ada"}
    source.add(call(), widened={"to": {"glob": "*@acme.example"}}, **fields | terms)
    return source


def test_gated_calls_are_offered_and_those_of_high_risk_never() -> None:
    risky = ToolConfig(high_risk=True)
    hook = HumanInTheLoopHook({"send_*": True, "drop_table": risky, "read_*": False})
    calls = [call(1), call(2, "drop_table"), call(3, "read_file"), call(4, "send_sms")]
    gates = run_evaluation(evaluate_calls([hook], calls, {}))
    assert [one.id for one in select_grantable(calls, gates)] == ["call_1", "call_4"]


def test_covered_calls_are_named_with_their_grant_until_none_is_left() -> None:
    source = make_grants()
    (grant,) = source.list()
    calls = [call(1), call(2, to="eve@acme.example"), call(3), call(4, to="eve@evil.example")]
    assert use_grants(source, calls, **THREAD) == {"call_1": grant.id, "call_2": grant.id}
    assert source.list()[0].state(FakeClock()()) == "used_up"


def test_a_turn_judged_again_counts_once_and_a_later_turn_counts_again() -> None:
    source = make_grants()
    for _ in range(3):
        assert use_grants(source, [call()], **THREAD).keys() == {"call_1"}
    assert source.list()[0].used == 1
    assert use_grants(source, [call()], **THREAD | {"turn": 2}).keys() == {"call_1"}
    assert use_grants(source, [call()], **THREAD | {"turn": 3}) == {}
    assert build_use_key("t", 1, call(23)) != build_use_key("t", 12, call(3))


def test_a_thread_that_begins_anew_does_not_run_for_free() -> None:
    clock = FakeClock()
    source = make_grants(clock)
    use_grants(source, [call()], **THREAD)
    clock.advance(timedelta(minutes=2))
    assert use_grants(source, [call()], **THREAD) == {}
    assert source.list()[0].used == 1


@pytest.mark.parametrize("is_async", [False, True])
def test_a_grant_for_one_call_covers_one_however_often_a_thread_of_that_name_begins(is_async: bool) -> None:
    source, ran = MemoryGrants(), []

    def pay(to: str) -> str:
        """Pay somebody."""
        ran.append(to)
        return "paid"

    def model(messages: list[dict[str, Any]], tools: Any) -> Any:
        pays = {"name": "pay", "arguments": {"to": "Ann"}}  # without an id, as some models ask
        return "done" if len(messages) > 1 else {"tool_calls": [pays]}

    asked = ToolCall(id="c", name="pay", arguments={"to": "Ann"})
    source.add(asked, agent="clerk", uses=1, lasts_for=HOUR, granted_by="Ada")
    for _ in range(3):
        agent = ReactAgent(
            "clerk",
            model,
            [pay],
            hooks=[HumanInTheLoopHook({"pay": True})],
            grants=source,
            saver=MemorySaver(),
        )
        if is_async:
            asyncio.run(agent.ainvoke("go", thread_id="t"))
        else:
            agent.invoke("go", thread_id="t")
    assert ran == ["Ann"]


def test_the_same_key_for_another_call_covers_nothing() -> None:
    source = make_grants()
    use_grants(source, [call()], **THREAD)
    assert use_grants(source, [call(to="eve@acme.example")], **THREAD) == {}
    assert use_grants(source, [call()], **THREAD | {"agent": "other"}) == {}


def test_a_revoked_or_ended_grant_covers_nothing_even_again() -> None:
    clock = FakeClock()
    source = make_grants(clock)
    (grant,) = source.list()
    use_grants(source, [call()], **THREAD)
    assert source.revoke(grant.id, by="ada").revoked_by == "ada"
    assert source.revoke(grant.id, by="eve").revoked_by == "ada"
    assert use_grants(source, [call(1), call(2)], **THREAD) == {}
    with pytest.raises(CaseNotFound):
        source.revoke("grant_unknown")
    source = make_grants(clock)
    clock.advance(HOUR)
    assert use_grants(source, [call()], **THREAD) == {}


def test_what_may_not_be_granted_is_refused() -> None:
    for terms in ({"uses": 0}, {"uses": 1001}, {"lasts_for": timedelta(days=8)}):
        with pytest.raises(InvalidSubmission):
            make_grants(**terms)
    with pytest.raises(InvalidSubmission):
        MemoryGrants().add(
            ToolCall(id="c", name="sh", arguments={"command": "ls"}),
            agent="a",
            uses=1,
            lasts_for=HOUR,
            granted_by="ada",
            widened={"command": {"glob": "**"}},
        )


def test_many_threads_share_what_is_left() -> None:
    source = make_grants(uses=5)
    with ThreadPoolExecutor(16) as pool:
        found = list(pool.map(lambda number: use_grants(source, [call(number)], **THREAD), range(64)))
    assert sum(map(len, found)) == 5


class OddGrants:
    """A source that answers as it was told."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def use(self, call: ToolCall, *, key: str, agent: str, thread_id: str) -> Any:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


@pytest.mark.anyio
@pytest.mark.parametrize("answer", [True, 1, "", [], {"id": "g"}, object(), b"g", RuntimeError("gone"), None])
async def test_an_odd_or_failing_source_covers_nothing(answer: Any, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    assert use_grants(OddGrants(answer), [call()], **THREAD) == {}
    assert await ause_grants(OddGrants(answer), [call()], **THREAD) == {}
    assert ("reviewer_is_asked" in caplog.text) is isinstance(answer, Exception)


class UnreachableGrants:
    """A source that cannot be reached, and counts who tried."""

    asked = 0

    def use(self, call: ToolCall, *, key: str, agent: str, thread_id: str) -> str | None:
        self.asked += 1
        raise Unavailable()


@pytest.mark.anyio
async def test_an_unreachable_source_is_tried_once_a_turn() -> None:
    source = UnreachableGrants()
    assert use_grants(source, [call(1), call(2)], **THREAD) == {}
    assert await ause_grants(source, [call(1), call(2)], **THREAD) == {}
    assert source.asked == 2


class AsyncGrants:
    """A source that must be awaited."""

    async def use(self, call: ToolCall, *, key: str, agent: str, thread_id: str) -> str | None:
        return "grant_1"


@pytest.mark.anyio
async def test_a_source_that_must_be_awaited_covers_on_an_event_loop_only() -> None:
    assert await ause_grants(AsyncGrants(), [call()], **THREAD) == {"call_1": "grant_1"}
    assert use_grants(AsyncGrants(), [call()], **THREAD) == {}


# With a server


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with running(tmp_path_factory.mktemp("grants")) as server:
        yield server


@pytest.fixture
def owner() -> str:
    return new_id("owner")


@pytest.fixture
def client(server: RunningServer, owner: str) -> Iterator[PlacetClient]:
    with PlacetClient(server.url, server.create_key(owner)) as client:
        yield client


def create_grant(server: RunningServer, owner: str, **changes: Any) -> str:
    now = server.clock()
    grant = sample_grant("", owner=owner, granted_at=now, expires_at=now + HOUR, **changes)
    server.run(create_case_with_grants(server.parts.store, grant))
    return grant.id


@pytest.mark.anyio
async def test_a_server_stores_the_grants(server: RunningServer, client: PlacetClient, owner: str) -> None:
    grant_id = create_grant(server, owner, uses=3)
    source = ServerGrants(client)
    calls = [call(1), call(2, to="eve@evil.example")]
    assert use_grants(source, calls, **THREAD) == {"call_1": grant_id}
    assert await ause_grants(source, calls, **THREAD) == {"call_1": grant_id}
    (listed,) = source.list()
    assert (listed["id"], listed["uses_left"]) == (grant_id, 2)
    assert source.revoke(grant_id)["state"] == "revoked"
    assert use_grants(source, [call(3)], **THREAD) == {}


def test_a_server_that_is_gone_or_refuses_covers_nothing(
    server: RunningServer, caplog: pytest.LogCaptureFixture
) -> None:
    with PlacetClient("http://127.0.0.1:9", "placet_x") as gone:
        assert use_grants(ServerGrants(gone), [call()], **THREAD) == {}
    with PlacetClient(server.url, "placet_wrong") as stranger:
        assert use_grants(ServerGrants(stranger), [call()], **THREAD) == {}
    assert caplog.text.count("reviewer_is_asked") == 2
    assert "placet_wrong" not in caplog.text


def test_an_older_server_or_an_odd_one_covers_nothing() -> None:
    for body in (b"[]", b"{}", b'{"grant": true}', b'{"grant": {"id": 7}}', b'{"grant": "yes"}', b"<html>"):
        with serve_fixed_response(200, body) as url, PlacetClient(url, "placet_x") as odd:
            assert use_grants(ServerGrants(odd), [call()], **THREAD) == {}
    with serve_fixed_response(404, b'{"error": "not_found"}') as url, PlacetClient(url, "placet_x") as old:
        assert use_grants(ServerGrants(old), [call()], **THREAD) == {}


# In the same process


@pytest.fixture
async def placet(tmp_path: Path) -> AsyncIterator[Placet]:
    embedded = Placet(base_url="http://127.0.0.1:8400", db=str(tmp_path / "cases.db"))
    async with embedded.lifespan():
        yield embedded


@pytest.mark.anyio
async def test_an_embedded_desk_stores_the_grants(placet: Placet) -> None:
    now = datetime.now(UTC)
    grant = sample_grant("", owner="in-house", granted_at=now, expires_at=now + HOUR)
    await create_case_with_grants((await placet.parts()).store, grant)
    source = EmbeddedGrants(placet)
    assert await ause_grants(source, [call()], **THREAD) == {"call_1": grant.id}
    assert [one.uses_left for one in await source.list()] == [4]
    assert (await source.revoke(grant.id)).revoked_by == "key:in-house"
    assert await ause_grants(source, [call(2)], **THREAD) == {}
    assert await ause_grants(EmbeddedGrants(placet, owner="other"), [call(3)], **THREAD) == {}


def test_grants_need_no_other_package_to_be_asked() -> None:
    code = "import sys; import placet.hook.grants; print(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    loaded = {name.partition(".")[0] for name in run.stdout.split()}
    assert not loaded & {"httpx", "msgspec", "starlette", "jinja2"}
