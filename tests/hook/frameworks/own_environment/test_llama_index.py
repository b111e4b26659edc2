"""LlamaIndex workflows under the contract of every adapter, and attacks on their events."""

import asyncio
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar

from workflows import Context
from workflows.events import WorkflowIdleEvent

from placet.errors import HookError
from placet.hook.frameworks.llama_index import ApprovalDecided, ApprovalRequested
from placet.testing.approvals import Harness, runs_in
from placet.testing.contracts.tool_approval import BATCH, ONE, TWICE, ToolApprovalContract
from tests.hook.frameworks.own_environment.llama_index_harness import (
    LlamaIndexHarness,
    ToolLoop,
)
from tests.hook.frameworks.own_environment.snippet_run import run_snippet


class TestLlamaIndex(ToolApprovalContract):
    """The contract, driven by a workflow."""

    harness: ClassVar[type[Harness]] = LlamaIndexHarness


def run_live(worker: LlamaIndexHarness, *answers: Any) -> Any:
    """Run a workflow that stays in memory; at each pause, send the events that an answer returns."""

    async def run() -> Any:
        workflow = ToolLoop(worker, "t")
        ctx: Any = Context(workflow)
        handler = workflow.run(ctx=ctx)
        left, requests = list(answers), []
        async for event in handler.stream_events(expose_internal=True):
            if isinstance(event, ApprovalRequested):
                requests.append(event)
            if isinstance(event, WorkflowIdleEvent):
                if not left:
                    await handler.cancel_run()
                    return None
                for each in left.pop(0)(requests):
                    ctx.send_event(each)
        return await handler

    return asyncio.run(run())


def continue_with(requests: list[Any]) -> list[Any]:
    last = requests[-1]
    return [ApprovalDecided(key=last.key, call_id=last.call_id, response="y")]


def test_events_that_no_reviewer_caused_run_nothing(tmp_path: Path) -> None:
    worker = LlamaIndexHarness(tmp_path, ONE)
    assert run_live(worker, continue_with, continue_with, continue_with) is None
    assert runs_in(tmp_path) == []
    worker.close()


def test_a_workflow_in_memory_continues_when_its_calls_are_decided(tmp_path: Path) -> None:
    worker = LlamaIndexHarness(tmp_path, TWICE)

    def approve(requests: list[Any]) -> list[Any]:
        return worker.approval.answer(requests[-1].key, {requests[-1].call_id: "approve"})

    assert run_live(worker, approve, approve) == "done"
    assert [name for name, _ in runs_in(tmp_path)] == ["execute_sql", "execute_sql"]
    worker.close()


def test_other_calls_under_a_key_do_not_run(tmp_path: Path) -> None:
    """A workflow that names two turns alike is a mistake, not an approval."""
    first = LlamaIndexHarness(tmp_path, ONE)
    first.start("t")
    decided = first.approval.answer("t/0", {"c1": "approve"})
    worker = LlamaIndexHarness(tmp_path, BATCH)
    with suppress(HookError):
        run_live(worker, lambda requests: decided)
    assert runs_in(tmp_path) == []
    first.close()
    worker.close()


def test_the_guides_program_does_what_its_page_says(tmp_path: Path) -> None:
    run_snippet("approve_in_llama_index.py", tmp_path)
