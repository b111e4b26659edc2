"""smolagents behind gated tools: a call waits inside the run, also one that the model writes as code."""

import json
import os
import signal
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, ClassVar

import pytest
from smolagents import ChatMessage, CodeAgent, MessageRole, Model, Tool, ToolCallingAgent
from smolagents.models import ChatMessageToolCall, ChatMessageToolCallFunction

from placet.errors import HookError, Unavailable
from placet.hook import HumanInTheLoopHook, MemorySaver, SqliteSaver, ToolCall, ToolConfig
from placet.hook.frameworks.smolagents import SmolagentsApproval
from placet.hook.result_texts import OUTCOME_UNKNOWN
from placet.testing.approvals import RUNS, Harness, Toolbox, runs_in
from placet.testing.contracts.tool_approval import LATER, MAIL, RAN_SQL, READ, SQL, ToolApprovalContract
from tests.hook.frameworks.own_environment.smolagents_harness import RecordedTool, SmolagentsHarness
from tests.hook.frameworks.own_environment.snippet_run import run_snippet
from tests.hook.frameworks.own_environment.waiting_runs import next_waiting, running
from tests.hook.killable_process import run_in_child

HOOK = HumanInTheLoopHook(
    {
        "execute_sql": "SQL needs approval",
        "send_email": ToolConfig(allowed_decisions=("approve", "reject", "respond")),
    }
)
PATIENT = {"timeout_seconds": None}


class ScriptedModel(Model):
    """Makes the calls of each turn, or writes the code of each turn, and then ends."""

    def __init__(self, *turns: Any) -> None:
        super().__init__()
        self.turns = list(turns)
        self.read: list[str] = []

    def generate(self, messages: Any, *args: Any, **named: Any) -> ChatMessage:
        self.read = [text for message in messages for text in read_texts(message)]
        turn = self.turns.pop(0) if self.turns else END
        if isinstance(turn, str):
            return ChatMessage(role=MessageRole.ASSISTANT, content=f"<code>\n{turn}\n</code>")
        calls = [
            ChatMessageToolCall(
                id=call.id,
                type="function",
                function=ChatMessageToolCallFunction(name=call.name, arguments=call.arguments),
            )
            for call in turn
        ]
        return ChatMessage(role=MessageRole.ASSISTANT, content=None, tool_calls=calls)


END = (ToolCall(id="end", name="final_answer", arguments={"answer": "done"}),)
CODE_END = "final_answer('done')"


def read_texts(message: Any) -> list[str]:
    content = message.content
    return [content] if isinstance(content, str) else [part.get("text", "") for part in content or []]


def build_tools(folder: Path) -> list[Tool]:
    return [RecordedTool(function) for function in Toolbox(folder).functions]


def build_agent(folder: Path, *turns: Any, **options: Any) -> ToolCallingAgent:
    tools = options.pop("tools", None) or build_tools(folder)
    return ToolCallingAgent(tools=tools, model=ScriptedModel(*turns), verbosity_level=0, **options)


class TestSmolagents(ToolApprovalContract):
    """The contract, driven by smolagents."""

    harness: ClassVar[type[Harness]] = SmolagentsHarness


@pytest.fixture
def approval() -> SmolagentsApproval:
    return SmolagentsApproval(HOOK, saver=MemorySaver(), run_id="r", poll_interval=0.05)


def run(approval: SmolagentsApproval, agent: Any) -> str:
    """Run an agent under the approval; return all that the model read last."""
    approval.gate(agent)
    assert agent.run("go") == "done"
    return "\n".join(agent.model.read)


def test_a_call_waits_until_it_is_approved(approval: SmolagentsApproval, tmp_path: Path) -> None:
    with running(lambda: run(approval, build_agent(tmp_path, (SQL,)))) as done:
        stopped = next_waiting(approval, done)
        assert stopped.tool_feedbacks[0].arguments == SQL.arguments
        assert runs_in(tmp_path) == []
        approval.answer(stopped.approve_all())
    assert runs_in(tmp_path) == [RAN_SQL]
    assert "rows of DELETE FROM records" in done.result()


def test_an_edited_call_runs_as_edited(approval: SmolagentsApproval, tmp_path: Path) -> None:
    with running(lambda: run(approval, build_agent(tmp_path, (SQL,)))) as done:
        stopped = next_waiting(approval, done)
        with pytest.raises(HookError):
            approval.answer(stopped.edit_tool("execute_sql", {"query": 5}))
        approval.answer(stopped.edit_tool("execute_sql", {"query": "SELECT 1"}))
    assert runs_in(tmp_path) == [("execute_sql", {"query": "SELECT 1"})]
    assert "A person changed this call" in done.result()


def test_a_rejected_call_does_not_run_and_the_model_reads_why(
    approval: SmolagentsApproval, tmp_path: Path
) -> None:
    with running(lambda: run(approval, build_agent(tmp_path, (SQL,)))) as done:
        approval.answer(next_waiting(approval, done).reject_all("back it up first"))
    assert runs_in(tmp_path) == []
    assert "back it up first" in done.result()


def test_a_reviewer_may_answer_instead_of_the_tool(approval: SmolagentsApproval, tmp_path: Path) -> None:
    with running(lambda: run(approval, build_agent(tmp_path, (MAIL,)))) as done:
        stopped = next_waiting(approval, done)
        approval.answer(stopped.respond(stopped.undecided[0].id, "I have told them myself."))
    assert runs_in(tmp_path) == []
    assert "I have told them myself." in done.result()


def test_parallel_calls_are_decided_each_alone(approval: SmolagentsApproval, tmp_path: Path) -> None:
    with running(lambda: run(approval, build_agent(tmp_path, (SQL, LATER, READ)))) as done:
        next_waiting(approval, done, count=2)
        for stopped in approval.waiting():
            is_later = stopped.tool_feedbacks[0].arguments == LATER.arguments
            approval.answer(stopped.reject_all("not this one") if is_later else stopped.approve_all())
    assert sorted(runs_in(tmp_path), key=str) in ([RAN_SQL, ("read_data", {})], [RAN_SQL])


class BrokenSaver(MemorySaver):
    def get(self, thread_id: str) -> Any:
        raise Unavailable("the disk is gone")


def test_a_call_whose_approval_fails_does_not_run(tmp_path: Path) -> None:
    approval = SmolagentsApproval(HOOK, saver=BrokenSaver(), run_id="r")
    run(approval, build_agent(tmp_path, (SQL,)))
    assert runs_in(tmp_path) == []


def build_code_agent(folder: Path, *turns: str, **options: Any) -> CodeAgent:
    options = {"executor_kwargs": PATIENT, **options}
    model = ScriptedModel(*turns, CODE_END)
    return CodeAgent(tools=build_tools(folder), model=model, verbosity_level=0, **options)


def test_a_call_in_code_waits_and_a_rejection_ends_the_code(
    approval: SmolagentsApproval, tmp_path: Path
) -> None:
    code = "rows = execute_sql(query='DELETE FROM records')\nsend_email(to=rows)"
    with running(lambda: run(approval, build_code_agent(tmp_path, code))) as done:
        approval.answer(next_waiting(approval, done).reject_all("back it up first"))
    assert runs_in(tmp_path) == []
    assert "back it up first" in done.result()


@pytest.mark.parametrize("code", ["execute_sql('DELETE FROM records')", "f = execute_sql\nf(query='X')"])
def test_no_way_to_call_a_tool_in_code_avoids_the_review(
    approval: SmolagentsApproval, tmp_path: Path, code: str
) -> None:
    with running(lambda: run(approval, build_code_agent(tmp_path, code))) as done:
        approval.answer(next_waiting(approval, done).reject_all("no"))
    assert runs_in(tmp_path) == []


ATTACKS = (
    "execute_sql._tool(query='X')",
    "execute_sql._approval.answer(1)",
    "execute_sql.forward.__closure__[0].cell_contents(query='X')",
    "for name in dir(execute_sql): getattr(execute_sql, name)(query='X')",
    "type(execute_sql).forward(execute_sql, query='X')",
    "import gc",
)


@pytest.mark.parametrize("attack", ATTACKS)
def test_code_cannot_reach_the_plain_tool(tmp_path: Path, attack: str) -> None:
    approval = SmolagentsApproval(
        HOOK, saver=MemorySaver(), run_id="r", ask=lambda stopped: stopped.reject_all("no")
    )
    run(approval, build_code_agent(tmp_path, attack))
    assert runs_in(tmp_path) == []


def test_forward_of_a_gated_tool_waits_too(approval: SmolagentsApproval, tmp_path: Path) -> None:
    code = "execute_sql.forward(query='X')"
    with running(lambda: run(approval, build_code_agent(tmp_path, code))) as done:
        approval.answer(next_waiting(approval, done).reject_all("no"))
    assert runs_in(tmp_path) == []


def test_a_call_of_a_managed_agent_waits(approval: SmolagentsApproval, tmp_path: Path) -> None:
    helper = build_agent(tmp_path, (SQL,), name="helper", description="Helps.")
    ask = ToolCall(id="h1", name="helper", arguments={"task": "clean up"})
    worker = build_agent(tmp_path, (ask,), managed_agents=[helper])
    with running(lambda: run(approval, worker)) as done:
        stopped = next_waiting(approval, done)
        assert runs_in(tmp_path) == []
        approval.answer(stopped.approve_all())
    assert runs_in(tmp_path) == [RAN_SQL]


def test_a_repeated_run_does_not_repeat_its_calls(tmp_path: Path) -> None:
    for _ in range(2):
        approval = SmolagentsApproval(
            HOOK,
            saver=SqliteSaver(tmp_path / "approvals.db"),
            run_id="r",
            ask=lambda stopped: stopped.approve_all(),
        )
        assert "rows of VACUUM" in run(approval, build_agent(tmp_path, (SQL,), (LATER,)))
    assert runs_in(tmp_path) == [RAN_SQL, ("execute_sql", LATER.arguments)]


def test_a_call_whose_process_was_killed_does_not_run_again(tmp_path: Path) -> None:
    def execute_sql(query: str) -> str:
        """Run a query."""
        with (tmp_path / RUNS).open("a") as runs:
            runs.write(json.dumps(["execute_sql", {"query": query}]) + "\n")
        os.kill(os.getpid(), signal.SIGKILL)
        return "never"

    def start() -> None:
        saver = SqliteSaver(tmp_path / "approvals.db")
        approval = SmolagentsApproval(HOOK, saver=saver, run_id="r", ask=lambda asked: asked.approve_all())
        tools = [RecordedTool(execute_sql), *build_tools(tmp_path)[2:]]
        run(approval, build_agent(tmp_path, (SQL,), tools=tools))

    assert os.WTERMSIG(run_in_child(start)) == signal.SIGKILL
    later = datetime.now(UTC) + timedelta(hours=1)
    saver = SqliteSaver(tmp_path / "approvals.db", clock=lambda: later)
    approval = SmolagentsApproval(HOOK, saver=saver, run_id="r", clock=lambda: later)
    assert OUTCOME_UNKNOWN in run(approval, build_agent(tmp_path, (SQL,)))
    assert runs_in(tmp_path) == [RAN_SQL]


def test_an_agent_whose_calls_could_not_wait_is_refused(tmp_path: Path) -> None:
    impatient = build_code_agent(tmp_path, "pass", executor_kwargs={})
    with pytest.raises(HookError, match="timeout_seconds"):
        SmolagentsApproval(HOOK, saver=MemorySaver(), run_id="r").gate(impatient)
    misspelled = HumanInTheLoopHook({"execute-sql": True})
    with pytest.raises(HookError, match="execute_sql"):
        SmolagentsApproval(misspelled, saver=MemorySaver(), run_id="r").gate(build_agent(tmp_path))


def test_the_guides_program_does_what_its_page_says(tmp_path: Path) -> None:
    run_snippet("approve_in_smolagents.py", tmp_path)
