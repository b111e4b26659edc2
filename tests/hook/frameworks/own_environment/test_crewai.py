"""CrewAI's hooks: a call waits inside the crew's run. CrewAI runs a call whose hook raises; ours must not."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, ClassVar

import pytest

from placet.errors import HookError, Unavailable
from placet.hook import HumanInTheLoopHook, MemorySaver, SqliteSaver, ToolCall
from placet.hook.frameworks.crewai import CrewAIApproval
from placet.hook.result_texts import OUTCOME_UNKNOWN
from placet.testing.approvals import Harness, runs_in
from placet.testing.contracts.tool_approval import LATER, MAIL, RAN_SQL, READ, SQL, ToolApprovalContract
from tests.hook.frameworks.own_environment.crewai_harness import CrewAIHarness
from tests.hook.frameworks.own_environment.crewai_run import HOOK, build_agent, build_crew, read_results
from tests.hook.frameworks.own_environment.snippet_run import run_snippet
from tests.hook.frameworks.own_environment.waiting_runs import next_waiting, running

pytestmark = pytest.mark.filterwarnings("ignore")
"""CrewAI's own dependencies warn."""


class TestCrewAI(ToolApprovalContract):
    """The contract, driven by CrewAI."""

    harness: ClassVar[type[Harness]] = CrewAIHarness


@pytest.fixture
def approval() -> CrewAIApproval:
    return CrewAIApproval(HOOK, saver=MemorySaver(), run_id="r", poll_interval=0.05)


def kick_off(approval: CrewAIApproval, *agents: Any) -> list[str]:
    """Run a crew under the approval; return what the model read."""
    crew = build_crew(*agents)
    with approval.guard(crew):
        return read_results(crew.kickoff())


def test_a_call_waits_until_it_is_approved(approval: CrewAIApproval, tmp_path: Path) -> None:
    with running(lambda: kick_off(approval, build_agent(tmp_path, (SQL,)))) as done:
        stopped = next_waiting(approval, done)
        assert stopped.tool_feedbacks[0].arguments == SQL.arguments
        assert stopped.tool_feedbacks[0].schema is not None
        assert runs_in(tmp_path) == []
        approval.answer(stopped.approve_all())
    assert runs_in(tmp_path) == [RAN_SQL]
    assert done.result() == ["rows of DELETE FROM records"]
    assert approval.waiting() == []


def test_an_edited_call_runs_as_edited(approval: CrewAIApproval, tmp_path: Path) -> None:
    with running(lambda: kick_off(approval, build_agent(tmp_path, (SQL,)))) as done:
        stopped = next_waiting(approval, done)
        approval.answer(stopped.edit_tool("execute_sql", {"query": "SELECT 1"}))
    assert runs_in(tmp_path) == [("execute_sql", {"query": "SELECT 1"})]
    assert "A person changed this call" in done.result()[0]


def test_a_rejected_call_does_not_run_and_the_model_reads_why(
    approval: CrewAIApproval, tmp_path: Path
) -> None:
    with running(lambda: kick_off(approval, build_agent(tmp_path, (SQL,)))) as done:
        approval.answer(next_waiting(approval, done).reject_all("back it up first"))
    assert runs_in(tmp_path) == []
    assert "back it up first" in done.result()[0]


def test_a_reviewer_may_answer_instead_of_the_tool(approval: CrewAIApproval, tmp_path: Path) -> None:
    with running(lambda: kick_off(approval, build_agent(tmp_path, (MAIL,)))) as done:
        stopped = next_waiting(approval, done)
        approval.answer(stopped.respond(stopped.undecided[0].id, "I have told them myself."))
    assert runs_in(tmp_path) == []
    assert done.result() == ["I have told them myself."]


def test_parallel_calls_are_decided_each_alone(approval: CrewAIApproval, tmp_path: Path) -> None:
    with running(lambda: kick_off(approval, build_agent(tmp_path, (SQL, LATER, READ)))) as done:
        next_waiting(approval, done, count=2)
        for stopped in approval.waiting():
            is_later = stopped.tool_feedbacks[0].arguments == LATER.arguments
            approval.answer(stopped.reject_all("not this one") if is_later else stopped.approve_all())
    assert sorted(runs_in(tmp_path), key=str) == [RAN_SQL, ("read_data", {})]


class BrokenSaver(MemorySaver):
    def get(self, thread_id: str) -> Any:
        raise Unavailable("the disk is gone")


@pytest.mark.parametrize("broken", ["saver", "condition"])
def test_a_call_whose_approval_fails_does_not_run(tmp_path: Path, broken: str) -> None:
    class FailingHook(HumanInTheLoopHook):
        def evaluate(self, call: ToolCall, state: Any) -> Any:
            raise RuntimeError("no")

    hook = FailingHook({"execute_sql": True}) if broken == "condition" else HOOK
    saver = BrokenSaver() if broken == "saver" else MemorySaver()
    approval = CrewAIApproval(hook, saver=saver, run_id="r", ask=lambda stopped: stopped.reject_all("no"))
    assert len(kick_off(approval, build_agent(tmp_path, (SQL,)))) == 1
    assert runs_in(tmp_path) == []


def test_a_hook_after_this_one_cannot_change_an_approved_call(
    approval: CrewAIApproval, tmp_path: Path
) -> None:
    from crewai.hooks import register_before_tool_call_hook, unregister_before_tool_call_hook

    def change(context: Any) -> None:
        context.tool_input["query"] = "DROP TABLE records"

    crew = build_crew(build_agent(tmp_path, (SQL,)))
    with approval.guard(crew):
        register_before_tool_call_hook(change)
        try:
            [text] = read_results(crew.kickoff())
        finally:
            unregister_before_tool_call_hook(change)
    assert "Register other before_tool_call hooks" in text
    assert runs_in(tmp_path) == []


def test_a_call_of_a_coworker_waits(approval: CrewAIApproval, tmp_path: Path) -> None:
    task = {"task": "clean up", "context": "-", "coworker": "helper"}
    delegate = ToolCall(id="d1", name="delegate_work_to_coworker", arguments=task)
    helper = build_agent(tmp_path, (SQL,), role="helper")
    worker = build_agent(tmp_path, (delegate,), allow_delegation=True)
    with running(lambda: kick_off(approval, worker, helper)) as done:
        stopped = next_waiting(approval, done)
        assert runs_in(tmp_path) == []
        approval.answer(stopped.approve_all())
    assert runs_in(tmp_path) == [RAN_SQL]


def test_a_repeated_run_does_not_repeat_its_calls(tmp_path: Path) -> None:
    results = []
    for _ in range(2):
        approval = CrewAIApproval(
            HOOK,
            saver=SqliteSaver(tmp_path / "approvals.db"),
            run_id="r",
            ask=lambda stopped: stopped.approve_all(),
        )
        results.append(kick_off(approval, build_agent(tmp_path, (SQL,), (LATER,))))
    assert results[0] == results[1]
    assert runs_in(tmp_path) == [RAN_SQL, ("execute_sql", LATER.arguments)]


def test_a_call_whose_process_was_killed_does_not_run_again(tmp_path: Path) -> None:
    module = "tests.hook.frameworks.own_environment.crewai_run"
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    killed = subprocess.run(
        [sys.executable, "-m", module, tmp_path], env=environ, capture_output=True, timeout=100, check=False
    )
    assert killed.returncode == -signal.SIGKILL
    later = datetime.now(UTC) + timedelta(hours=1)
    saver = SqliteSaver(tmp_path / "approvals.db", clock=lambda: later)
    approval = CrewAIApproval(HOOK, saver=saver, run_id="r", clock=lambda: later)
    assert kick_off(approval, build_agent(tmp_path, (SQL,))) == [OUTCOME_UNKNOWN]
    assert runs_in(tmp_path) == [RAN_SQL]


def refused_crews(folder: Path) -> Iterator[Any]:
    yield build_agent(folder, (SQL,), max_execution_time=5), HOOK
    yield build_agent(folder, (SQL,)), HumanInTheLoopHook({"Execute SQL": True})


def test_a_crew_whose_calls_would_not_be_stopped_does_not_start(tmp_path: Path) -> None:
    for agent, hook in refused_crews(tmp_path):
        with pytest.raises(HookError):
            kick_off(CrewAIApproval(hook, saver=MemorySaver(), run_id="r"), agent)
    assert runs_in(tmp_path) == []


def test_two_approvals_cannot_be_in_use_at_once(approval: CrewAIApproval, tmp_path: Path) -> None:
    crew = build_crew(build_agent(tmp_path, (SQL,)))
    with approval.guard(crew), pytest.raises(HookError), approval.guard(crew):
        pass


def test_the_guides_program_does_what_its_page_says(tmp_path: Path) -> None:
    run_snippet("approve_in_crewai.py", tmp_path)
