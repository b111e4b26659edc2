"""LangChain's agent passes the contract, sync and async, and one run at a time works on a turn."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from assent.errors import ThreadBusy
from assent.testing.approvals import HOLD, runs_in
from assent.testing.contracts.tool_approval import (
    BATCH,
    InOneProcessContract,
    ToolApprovalContract,
    waiting,
)
from tests.hook.frameworks.langchain_harness import AsyncLangChainHarness, LangChainHarness
from tests.waiting import eventually


class TestLangChain(ToolApprovalContract):
    harness = LangChainHarness


class TestLangChainAsync(InOneProcessContract):
    harness = AsyncLangChainHarness


def test_of_two_deliveries_to_one_agent_at_once_one_runs_all_calls_of_the_turn(tmp_path: Path) -> None:
    mine = LangChainHarness(tmp_path, BATCH)
    feedback = waiting(mine.start("t")).approve_all()
    (tmp_path / HOLD).touch()

    def deliver() -> str:
        try:
            return "waiting" if mine.resume("t", feedback) else "finished"
        except ThreadBusy:
            return "busy"

    with ThreadPoolExecutor(2) as pool:
        both = [pool.submit(deliver) for _ in range(2)]
        try:
            eventually(lambda: any(one.done() for one in both))
        finally:
            (tmp_path / HOLD).unlink()
        assert sorted(one.result() for one in both) == ["busy", "finished"]
    assert sorted(name for name, _ in runs_in(tmp_path)) == [
        "execute_sql",
        "read_data",
        "send_email",
        "write_file",
    ]
    assert [call_id for call_id, _ in mine.told("t")] == ["c0", "c1", "c2", "c3"]
    mine.close()
