"""Calls for which no server opens a case: the caller gets the reason, and can still decide them in code."""

import asyncio
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.tools import tool as langchain_tool
from langgraph.checkpoint.memory import InMemorySaver
from pydantic_ai import Agent

from placet import Placet
from placet.client import PlacetClient
from placet.errors import CaseNotOpened, ThreadPaused
from placet.hook import (
    EmbeddedReviews,
    HumanInTheLoopHook,
    MemorySaver,
    ReactAgent,
    ServerReviews,
    ToolCall,
    ToolConfig,
    requires_approval,
    resume_pending,
)
from placet.hook.frameworks.langchain import ApprovalMiddleware, resume
from placet.hook.frameworks.pydantic_ai import PydanticAIApproval
from placet.hook.gate import Gate
from placet.testing.approvals import LAST_WORDS, Scene
from tests.hook.frameworks.langchain_harness import GO, ScriptedModel, thread_config
from tests.hook.frameworks.pydantic_ai_harness import make_scripted_model
from tests.hook.scripted_model import Office, Scripted, call, expect_interruption, expect_result
from tests.server.running import RunningServer, running

ESCAPE = "\x1b[2J"
"""A terminal would clear its screen."""
GATED = HumanInTheLoopHook({"write_file": True})


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with running(tmp_path_factory.mktemp("server")) as server:
        yield server


@pytest.fixture
def reviews(server: RunningServer) -> Iterator[ServerReviews]:
    with PlacetClient(server.url, server.api_key) as client:
        yield ServerReviews(client)


def nest_lists(levels: int) -> Any:
    return [nest_lists(levels - 1)] if levels else []


def clerk(reviews: Any, hook: HumanInTheLoopHook = GATED, **arguments: Any) -> tuple[Office, ReactAgent]:
    office = Office()
    model = Scripted([call("a", "write_file", **{"path": "x.txt", **arguments})], "done")
    return office, ReactAgent("clerk", model, office.tools, [hook], MemorySaver(), reviews=reviews)


def test_an_agent_whose_call_no_server_takes_says_so_and_the_call_can_be_decided(
    reviews: ServerReviews,
) -> None:
    office, agent = clerk(reviews, text=ESCAPE)
    with pytest.raises(CaseNotOpened, match="control characters"):
        agent.invoke("go", thread_id="t")
    with pytest.raises(CaseNotOpened, match="control characters") as told:
        agent.resume("t")
    with pytest.raises(ThreadPaused):
        agent.invoke("go", thread_id="t")
    assert office.ran == []
    expect_result(agent.resume("t", told.value.waiting.approve_all()))
    assert office.ran == [("write_file", "x.txt", ESCAPE)]


@pytest.mark.parametrize("is_async", [False, True])
def test_a_timeout_that_the_server_refuses_is_reported_to_the_caller(
    reviews: ServerReviews, is_async: bool
) -> None:
    hook = HumanInTheLoopHook({"write_file": ToolConfig(timeout=timedelta(days=30))})
    office, agent = clerk(reviews, hook)
    with pytest.raises(CaseNotOpened, match="timeout"):
        asyncio.run(agent.ainvoke("go", thread_id="t")) if is_async else agent.invoke("go", thread_id="t")
    expect_result(agent.resume("t", {"a": "reject"}))
    assert office.ran == []


def test_a_thread_that_nobody_can_be_asked_about_holds_up_no_other(
    reviews: ServerReviews, caplog: pytest.LogCaptureFixture
) -> None:
    _, agent = clerk(reviews, text=ESCAPE)
    with pytest.raises(CaseNotOpened):
        agent.invoke("go", thread_id="t")
    assert resume_pending(agent) == {}
    assert "No case can be opened" in caplog.text


def test_an_embedded_desk_refuses_in_the_same_words(tmp_path: Path) -> None:
    async def played() -> None:
        placet = Placet(base_url="http://127.0.0.1:8000", db=str(tmp_path / "cases.db"))
        office, agent = clerk(EmbeddedReviews(placet), text=ESCAPE)
        async with placet.lifespan():
            with pytest.raises(CaseNotOpened, match="control characters") as told:
                await agent.ainvoke("go", thread_id="t")
            expect_result(await agent.aresume("t", told.value.waiting.reject_all("No.")))
        assert office.ran == []

    asyncio.run(played())


def test_calls_behind_a_gate_that_nobody_can_be_asked_about_wait_for_code(reviews: ServerReviews) -> None:
    gate = Gate([GATED], MemorySaver(), reviews=reviews)
    asked = ToolCall(id="a", name="write_file", arguments={"rows": nest_lists(40)})
    with pytest.raises(CaseNotOpened, match="nested"):
        gate.stop("k", [asked])
    with pytest.raises(CaseNotOpened, match="nested"):
        gate.answer("k", None)
    assert gate.answer("k", {"a": "approve"}).undecided == ()
    assert gate.begin("k", "a").run


def note(path: str, content: str) -> str:
    """Write it down."""
    return f"wrote {len(content)} to {path}"


SCENE = Scene(turns=((ToolCall(id="a", name="note", arguments={"path": "x", "content": ESCAPE}),),))
NOTED = HumanInTheLoopHook({"note": True})


def test_a_langchain_thread_that_nobody_can_be_asked_about_is_answered_in_code(
    reviews: ServerReviews,
) -> None:
    approval = ApprovalMiddleware(NOTED, saver=MemorySaver(), reviews=reviews)
    tools = [langchain_tool(note)]
    model, kept = ScriptedModel(scene=SCENE), InMemorySaver()
    agent: Any = create_agent(model, tools, middleware=[approval], checkpointer=kept)
    with pytest.raises(CaseNotOpened, match="control characters") as told:
        agent.invoke(GO, thread_config("t"))
    result = resume(agent, "t", told.value.waiting.approve_all())
    assert [message.text for message in result["messages"][-2:]] == ["wrote 4 to x", LAST_WORDS]


def test_a_pydantic_ai_thread_that_nobody_can_be_asked_about_is_answered_in_code(
    reviews: ServerReviews,
) -> None:
    approval = PydanticAIApproval(NOTED, saver=MemorySaver(), reviews=reviews)
    agent = Agent(make_scripted_model(SCENE), tools=[note], capabilities=[approval])

    async def played() -> Any:
        with pytest.raises(CaseNotOpened, match="control characters") as told:
            await approval.run(agent, "go", thread_id="t")
        assert approval.waiting("t") is not None
        return await approval.resume(agent, "t", told.value.waiting.approve_all())

    result = asyncio.run(played())
    assert result.output == LAST_WORDS
    assert "wrote 4 to x" in str(result.all_messages())


@pytest.mark.parametrize("is_async", [False, True])
def test_a_function_that_nobody_can_be_asked_about_neither_runs_nor_waits(
    reviews: ServerReviews, is_async: bool
) -> None:
    saver = MemorySaver()

    @requires_approval(reviews=reviews, saver=saver)
    def write(content: str) -> None:
        raise AssertionError

    @requires_approval(reviews=reviews, saver=saver)
    async def awrite(content: str) -> None:
        raise AssertionError

    with pytest.raises(CaseNotOpened, match="control characters"):
        asyncio.run(awrite(ESCAPE)) if is_async else write(ESCAPE)
    assert saver.list_threads("paused") == []


def test_a_call_that_can_be_put_before_a_person_is(reviews: ServerReviews) -> None:
    _, agent = clerk(reviews, text="line\n\tnext")
    assert expect_interruption(agent.invoke("go", thread_id="t")).case is not None
