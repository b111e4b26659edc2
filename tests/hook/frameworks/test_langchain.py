"""LangChain's agent passes the contract, sync and async, and one run at a time works on a turn."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import ToolMessage

from placet.errors import InvalidFeedback, NothingToResume, ThreadBusy
from placet.hook.frameworks.langchain.messages import decode_result, encode_result
from placet.testing.approvals import HOLD, runs_in
from placet.testing.contracts.tool_approval import (
    BATCH,
    InOneProcessContract,
    ToolApprovalContract,
    require_interruption,
)
from tests.hook.frameworks.langchain_harness import AsyncLangChainHarness, LangChainHarness
from tests.waiting import eventually


class TestLangChain(ToolApprovalContract):
    harness = LangChainHarness


class TestLangChainAsync(InOneProcessContract):
    harness = AsyncLangChainHarness


def test_of_two_deliveries_to_one_agent_at_once_one_runs_all_calls_of_the_turn(tmp_path: Path) -> None:
    mine = LangChainHarness(tmp_path, BATCH)
    feedback = require_interruption(mine.start("t")).approve_all()
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
    assert [call_id for call_id, _ in mine.read_tool_results("t")] == ["c0", "c1", "c2", "c3"]
    mine.close()


def test_a_turn_that_the_saver_was_told_to_forget_is_asked_about_anew(tmp_path: Path) -> None:
    mine = LangChainHarness(tmp_path, BATCH)
    stopped = require_interruption(mine.start("t"))
    for turn in mine.saver.list_threads("paused"):
        mine.saver.release(turn)
    with pytest.raises(NothingToResume):
        mine.resume("t", stopped.approve_all())
    with pytest.raises(InvalidFeedback):
        mine.resume("t", stopped.approve_all())
    assert runs_in(tmp_path) == []
    assert mine.resume("t", {call.id: "reject" for call in stopped.undecided}) is None
    mine.close()


@pytest.mark.parametrize(
    "said",
    [
        {},
        {"content": "msgpack:"},
        {"content": "half a character: \ud800"},
        {"content": [{"type": "text", "text": "rows"}]},
        {"status": "error"},
        {"name": "another_tool"},
        {"tool_call_id": "c2"},
        {"id": "m1"},
        {"artifact": [1, 2]},
        {"additional_kwargs": {"cost": 3}},
        {"response_metadata": {"cost": 3}},
        {"cost": 3},
    ],
    ids=str,
)
def test_a_result_that_is_given_again_says_all_that_it_said_the_first_time(said: dict[str, Any]) -> None:
    call = {"id": "c1", "name": "execute_sql", "args": {}}
    members = {"content": "rows", "name": "execute_sql", "tool_call_id": "c1", **said}
    message = ToolMessage(**members)
    assert decode_result(call, encode_result(call, message)) == message
