"""Grants in every framework: covered calls run without asking while the grant holds."""

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from placet.hook import HumanInTheLoopHook, MemoryGrants, MemorySaver, ToolCall
from placet.hook.frameworks.langchain import ApprovalMiddleware
from placet.hook.frameworks.thread_store import FrameworkThreads
from placet.hook.gate import Gate
from placet.testing.approvals import Harness, Scene, runs_in
from placet.testing.clock import FakeClock
from tests.hook.frameworks.langchain_harness import AsyncLangChainHarness, LangChainHarness
from tests.hook.frameworks.openai_agents_harness import OpenAIAgents
from tests.hook.frameworks.pydantic_ai_harness import PydanticAI

SQL = ToolCall(id="c1", name="execute_sql", arguments={"query": "SELECT 1"})
MAIL = ToolCall(id="c2", name="send_email", arguments={"to": "all"})


class GrantingLangChain(LangChainHarness):
    """With grants in memory."""

    def make_approval(self) -> ApprovalMiddleware[Any]:
        self.source = getattr(self, "source", None) or MemoryGrants(clock=self.clock)
        return ApprovalMiddleware(self.hook, saver=self.saver, grants=self.source, clock=self.clock)


class GrantingAsyncLangChain(AsyncLangChainHarness, GrantingLangChain):
    pass


class GrantingPydanticAI(PydanticAI):
    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        self.source = MemoryGrants(clock=self.clock)
        self.approval.threads = FrameworkThreads(
            [self.hook], self.saver, grants=self.source, clock=self.clock
        )


class GrantingOpenAIAgents(OpenAIAgents):
    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        self.source = MemoryGrants(clock=self.clock)
        self.approval.threads = FrameworkThreads(
            [self.hook], self.saver, grants=self.source, clock=self.clock
        )


HARNESSES: list[Callable[..., Any]] = [
    GrantingLangChain,
    GrantingAsyncLangChain,
    GrantingPydanticAI,
    GrantingOpenAIAgents,
]


@pytest.fixture(params=HARNESSES)
def granting_harness(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    harness: Harness = request.param(tmp_path, Scene(turns=((SQL, MAIL),)))
    yield harness
    harness.close()


def test_person_is_asked_when_the_grant_ended_during_the_wait(granting_harness: Any) -> None:
    grant = granting_harness.source.add(
        SQL, agent="agent", uses=1, lasts_for=timedelta(hours=1), granted_by="Ada"
    )
    waiting = granting_harness.start("t")
    assert [one.id for one in waiting.undecided] == ["c2"]
    granting_harness.source.revoke(grant.id)
    again = granting_harness.resume("t", waiting.approve_all())
    assert runs_in(granting_harness.folder) == []
    assert [one.id for one in again.undecided] == ["c1"]
    assert granting_harness.resume("t", again.reject_all("Not any more.")) is None
    assert runs_in(granting_harness.folder) == [("send_email", {"to": "all"})]
    assert "Not any more." in dict(granting_harness.read_tool_results("t"))["c1"]


def test_nobody_is_asked_while_the_grant_holds(granting_harness: Any) -> None:
    granting_harness.source.add(SQL, agent="agent", uses=1, lasts_for=timedelta(hours=1), granted_by="Ada")
    assert granting_harness.resume("t", granting_harness.start("t").approve_all()) is None
    assert sorted(name for name, _ in runs_in(granting_harness.folder)) == ["execute_sql", "send_email"]
    assert granting_harness.source.list()[0].used == 1


def test_what_a_gate_stopped_asks_again_too() -> None:
    clock, hook = FakeClock(), HumanInTheLoopHook({"execute_sql": True, "send_email": True})
    source = MemoryGrants(clock=clock)
    grant = source.add(SQL, agent="agent", uses=1, lasts_for=timedelta(hours=1), granted_by="Ada")
    gate = Gate([hook], MemorySaver(clock=clock), grants=source, clock=clock)
    waiting = gate.stop("k", [SQL, MAIL])
    assert waiting is not None
    assert [one.id for one in waiting.undecided] == ["c2"]
    source.revoke(grant.id)
    again = gate.answer("k", {"c2": "approve"})
    assert [one.id for one in again.undecided] == ["c1"]
    assert gate.answer("k", None).id == again.id
    decided = gate.answer("k", {"c1": "reject"})
    assert not decided.undecided
    assert [one.result for one in decided.tool_feedbacks] == ["approve", "reject"]


def test_gates_made_anew_do_not_share_what_one_was_allowed() -> None:
    source, hook = MemoryGrants(), HumanInTheLoopHook({"execute_sql": True})
    source.add(SQL, agent="agent", uses=1, lasts_for=timedelta(hours=1), granted_by="Ada")
    gates = [Gate([hook], MemorySaver(), grants=source) for _ in range(3)]
    assert [gate.stop("t#1", [SQL]) is None for gate in gates] == [True, False, False]
