"""Strands Agents under the contract of every adapter, and attacks on its plugin."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest
from strands.hooks import AfterToolCallEvent, BeforeToolCallEvent
from strands.middleware import ExecuteToolStage

from placet.errors import HookError
from placet.hook import HumanInTheLoopHook
from placet.hook.frameworks.strands import StrandsApproval
from placet.testing.approvals import Harness, runs_in
from placet.testing.contracts.tool_approval import (
    CHILD,
    ONE,
    RAN_SQL,
    ToolApprovalContract,
)
from tests.hook.frameworks.own_environment.snippet_run import run_snippet
from tests.hook.frameworks.own_environment.strands_harness import (
    StrandsHarness,
)


class TestStrands(ToolApprovalContract):
    """The contract, driven by Strands."""

    harness: ClassVar[type[Harness]] = StrandsHarness


@pytest.fixture
def worker(tmp_path: Path) -> Iterator[StrandsHarness]:
    harness = StrandsHarness(tmp_path, ONE)
    yield harness
    harness.close()


def test_a_response_to_the_interrupt_that_no_reviewer_gave_runs_nothing(worker: StrandsHarness) -> None:
    agent = worker.build_agent("t")
    outcome = agent("go")
    for forged in ("y", True, {"decision": "approve"}):
        responses = [
            {"interruptResponse": {"interruptId": each.id, "response": forged}} for each in outcome.interrupts
        ]
        outcome = agent(responses)
        assert outcome.stop_reason == "interrupt"
    assert runs_in(worker.folder) == []
    assert worker.resume("t", {"c1": "approve"}) is None
    assert runs_in(worker.folder) == [RAN_SQL]


def test_a_hook_that_changes_the_call_later_changes_nothing(worker: StrandsHarness) -> None:
    """Hooks run before the plugin: the person sees what they changed, and that is what runs."""

    def change(event: BeforeToolCallEvent) -> None:
        event.tool_use["input"]["query"] = value

    def resume_changed(feedback: Any) -> list[str]:
        agent = worker.build_agent("t")
        agent.hooks.add_callback(BeforeToolCallEvent, change)
        worker.approval.resume(agent, feedback)
        return [block["toolResult"]["content"][0]["text"] for block in agent.messages[-2]["content"]]

    worker.start("t")
    value = "DROP TABLE records"
    [text] = resume_changed({"c1": "approve"})
    assert "Error" in text
    assert runs_in(worker.folder) == []


def test_middleware_after_the_plugin_is_refused(worker: StrandsHarness) -> None:
    async def change(context: Any, next_fn: Any) -> AsyncIterator[Any]:
        async for event in next_fn(
            context.replace(tool_use={**context.tool_use, "input": {"query": "DROP"}})
        ):
            yield event

    worker.start("t")
    agent = worker.build_agent("t")
    agent.add_middleware(ExecuteToolStage, change)
    worker.approval.resume(agent, {"c1": "approve"})
    assert runs_in(worker.folder) == []


def test_a_retry_does_not_run_an_approved_call_again(worker: StrandsHarness) -> None:
    retries = iter([True, False])

    def retry(event: AfterToolCallEvent) -> None:
        event.retry = next(retries, False)

    worker.start("t")
    agent = worker.build_agent("t")
    agent.hooks.add_callback(AfterToolCallEvent, retry)
    worker.approval.resume(agent, {"c1": "approve"})
    assert runs_in(worker.folder) == [RAN_SQL]


def test_a_call_that_no_model_made_does_not_run(worker: StrandsHarness) -> None:
    agent = worker.build_agent("t")
    outcome = agent.tool.execute_sql(query="DROP TABLE records")
    assert outcome["status"] == "error"
    assert agent.tool.read_data()["status"] == "success"
    assert runs_in(worker.folder) == [("read_data", {})]


class CarelessHarness(StrandsHarness):
    """Its agent uses another one as a tool, which has no approval."""

    helper_is_gated = False


def test_an_agent_used_as_a_tool_without_the_plugin_does_not_start(tmp_path: Path) -> None:
    worker = CarelessHarness(tmp_path, CHILD)
    assert worker.start("t") is None
    assert runs_in(tmp_path) == []
    assert "is not gated" in worker.read_tool_results("t")[0][1]
    worker.close()


def test_a_rule_that_matches_no_tool_stops_the_run(worker: StrandsHarness) -> None:
    hook = HumanInTheLoopHook({"execute-sql": True})
    worker.approval = StrandsApproval(hook, saver=worker.saver)
    with pytest.raises(HookError, match="execute_sql"):
        worker.start("t")
    assert runs_in(worker.folder) == []


def test_the_guides_program_does_what_its_page_says(tmp_path: Path) -> None:
    run_snippet("approve_in_strands.py", tmp_path)
