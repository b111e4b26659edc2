"""Temporal workflows under the contract of every adapter, on Temporal's development server."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

import pytest
from temporalio.client import WorkflowFailureError
from temporalio.worker import Replayer

from examples.stage import answer, run_placet_server
from placet import PlacetClient
from placet.errors import HookError
from placet.hook import (
    HumanInTheLoopHook,
    InterruptionMetadata,
    MemorySaver,
    ServerReviews,
    ToolCall,
    ToolConfig,
    tool,
)
from placet.hook.frameworks.temporal import TemporalApproval
from placet.testing.approvals import Harness, Scene, runs_in
from placet.testing.contracts.tool_approval import SQL, TWICE, ToolApprovalContract
from tests.hook.frameworks.own_environment.snippet_run import SNIPPETS
from tests.hook.frameworks.own_environment.temporal_harness import (
    TemporalHarness,
    ToolLoop,
    run_dev_server,
)
from tests.waiting import eventually


@pytest.fixture(scope="module", autouse=True)
def dev_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with run_dev_server(tmp_path_factory.mktemp("temporal")) as address:
        yield address


class TestTemporal(ToolApprovalContract):
    """The contract, driven by a workflow."""

    harness: ClassVar[type[Harness]] = TemporalHarness


@pytest.fixture
def worker(tmp_path: Path) -> Iterator[TemporalHarness]:
    harness = TemporalHarness(tmp_path, TWICE)
    yield harness
    harness.close()


def test_signals_that_no_reviewer_caused_run_nothing(worker: TemporalHarness, tmp_path: Path) -> None:
    stopped = worker.start("t")
    assert stopped is not None
    for key in (stopped.thread_id, "another", ""):
        worker.call(worker.handle_of("t").signal("placet_decided", key))
    assert worker.wait_until_stopped("t") == stopped
    assert runs_in(tmp_path) == []


def test_a_cancelled_workflow_withdraws_its_question(worker: TemporalHarness, tmp_path: Path) -> None:
    stopped = worker.start("t")
    assert stopped is not None
    worker.call(worker.handle_of("t").cancel())
    with pytest.raises(WorkflowFailureError):
        worker.read_tool_results("t")
    assert worker.approval.approver.waiting(stopped.thread_id) is None
    assert runs_in(tmp_path) == []


def test_calls_of_missing_and_failing_tools_are_described(tmp_path: Path) -> None:
    def fail() -> str:
        """Fail."""
        raise LookupError("no money")

    calls = (ToolCall(id="c1", name="fail", arguments={}), ToolCall(id="c2", name="gone", arguments={}))
    scene = Scene(turns=(calls,))
    worker = TemporalHarness(tmp_path, scene, more_tools=(fail,))
    assert worker.start("t") is None
    texts = dict(worker.read_tool_results("t"))
    assert texts == {
        "c1": "The tool failed: LookupError: no money",
        "c2": "There is no tool gone. Nothing was run.",
    }
    worker.close()


def test_a_history_holds_no_review_link_and_replays(tmp_path: Path) -> None:
    with run_placet_server() as (url, key), PlacetClient(url, key) as client:
        worker = TemporalHarness(tmp_path, TWICE, reviews=ServerReviews(client))
        stopped = worker.start("t")
        assert stopped is not None
        assert stopped.case is not None
        link = stopped.case["review_url"]
        decided = worker.begin_continuing()
        answer(link, "approve")
        second = eventually(lambda: find_other(worker, stopped))
        answer((second.case or {})["review_url"], "reject", {"decision.1": "reject", "reason.1": "Enough"})
        results = worker.read_tool_results("t")
        assert results[0][1] == "rows of DELETE FROM records"
        assert "Enough" in results[1][1]
        history = worker.call(worker.handle_of("t").fetch_history())
        assert "review" not in history.to_json()
        worker.call(Replayer(workflows=[ToolLoop]).replay_workflow(history))
        decided.cancel()
        worker.close()
    assert [name for name, _ in runs_in(tmp_path)] == ["execute_sql"]


def find_other(worker: TemporalHarness, first: InterruptionMetadata) -> InterruptionMetadata | None:
    waiting = worker.call(worker.approval.waiting(worker.handle_of("t")))
    return waiting if waiting is not None and waiting.id != first.id and waiting.case is not None else None


def test_an_undecided_call_is_rejected_at_its_deadline(tmp_path: Path) -> None:
    """By the workflow's own timer: nobody sends a signal."""

    def asks_for_a_second(folder: Path) -> HumanInTheLoopHook:
        return HumanInTheLoopHook({"execute_sql": ToolConfig(timeout=1)})

    worker = TemporalHarness(tmp_path, Scene(turns=((SQL,),)), hook=asks_for_a_second(tmp_path))
    worker.start("t")
    [(_, text)] = worker.read_tool_results("t")
    assert "Nobody decided in time" in text
    assert runs_in(tmp_path) == []
    worker.close()


def test_a_tool_with_a_time_limit_of_its_own_is_refused(tmp_path: Path) -> None:
    @tool(timeout=5)
    def slow() -> str:
        """Take long."""
        return ""

    with pytest.raises(HookError, match="start_to_close"):
        TemporalApproval(HumanInTheLoopHook({"slow": True}), tools=[slow], saver=MemorySaver())


def test_the_guides_program_does_what_its_page_says(tmp_path: Path) -> None:
    """As a program of its own: the sandbox imports the file of a workflow by its name."""
    with run_placet_server() as (url, key):
        environ = {**os.environ, "PLACET_SERVER": url, "PLACET_KEY": key}
        command = [sys.executable, str(SNIPPETS / "approve_in_temporal.py")]
        done = subprocess.run(
            command, cwd=tmp_path, env=environ, capture_output=True, text=True, timeout=100, check=False
        )
    assert done.returncode == 0, done.stderr
    assert "A person changed this call" in done.stdout
