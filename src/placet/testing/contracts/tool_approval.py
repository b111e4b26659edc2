"""The contract suites of the adapters for agent frameworks."""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from threading import Barrier
from typing import Any, ClassVar

import pytest

from placet.errors import AlreadyDecided, HookError, InvalidFeedback
from placet.hook import FeedbackResult, InterruptionMetadata, ToolCall, aresume_as_decided, resume_as_decided
from placet.hook.answer_validation import Feedback
from placet.hook.result_texts import OUTCOME_UNKNOWN
from placet.hook.thread_resumption import ResumableAgent
from placet.testing.approvals import (
    FLIPPED,
    HOLD,
    Harness,
    Scene,
    outcome_of,
    resume_elsewhere,
    runs_in,
)
from placet.testing.clock import FakeClock
from placet.testing.disturbances import (
    ANSWERS,
    CALLS,
    EDITED,
    LIMIT_S,
    RACERS,
    REASON,
    DisturbedRuns,
    disturb,
)
from placet.testing.memory_folder import make_memory_folder
from placet.testing.waiting import WAIT_LIMIT_S, wait_until

WRITE, SQL, READ, MAIL = CALLS
LATER = ToolCall(id="c4", name="execute_sql", arguments={"query": "VACUUM"})
ONE = Scene(turns=((SQL,),))
BATCH = Scene(turns=((WRITE, SQL, MAIL, READ),))
TWICE = Scene(turns=((SQL,), (LATER,)))
CHILD = Scene(turns=((SQL,),), by_child=True)
CASE = Scene(turns=((SQL,),), has_cases=True)
HOSTILE = (
    "'; DROP TABLE x; -- </script><img onerror=1> {{7*7}} \u202e\u0000\x1b[31m \U0001f468\u200d\U0001f469"
)
RAN_SQL = ("execute_sql", SQL.arguments)
WROTE = ("write_file", WRITE.arguments)
RESULTS = {
    "c0": "wrote a.txt",
    "c1": "rows of SELECT 1",
    "c2": "sent to all@example.com",
    "c3": "the data",
}
"""What the model reads of each call of `disturb` that ran as it was decided."""
MISFIT = {"c1": {"decision": "edit", "arguments": {"query": 5}}}
"""An edit that does not fit the tool's schema."""
TOOLS = {call.id: call.name for call in CALLS}
REVIEWED = [*ANSWERS, "c2"]
"""The calls that are decided, in that order."""

Make = Callable[..., Harness]


def require_interruption(stopped: InterruptionMetadata | None) -> InterruptionMetadata:
    """Return the interruption; fail if there is none."""
    assert stopped is not None, "the agent was not interrupted"
    return stopped


def list_waiting_tools(stopped: InterruptionMetadata | None) -> list[str]:
    """Return the names of the tools whose calls wait for a decision."""
    return [feedback.name for feedback in require_interruption(stopped).undecided]


def list_runs(harness: Harness | type[Harness], folder: Path) -> list[tuple[str, dict[str, Any]]]:
    """Return the tool runs, sorted. Where runs are repeated, those of a call without review count once."""
    runs = runs_in(folder)
    free = (READ.name, READ.arguments)
    if harness.repeats_runs and free in runs:
        runs = [free, *(each for each in runs if each != free)]
    return sorted(runs, key=str)


def follow_cases(threads: ResumableAgent, *, is_async: bool) -> list[str]:
    """Resume each thread as soon as its case is decided; return the threads that were resumed."""

    async def follow() -> list[str]:
        return [name async for name, _ in aresume_as_decided(threads, timeout=WAIT_LIMIT_S)]

    if is_async:
        return asyncio.run(follow())
    return [name for name, _ in resume_as_decided(threads, timeout=WAIT_LIMIT_S)]


class InOneProcessContract:
    """Tests that need only one process. Use them for a second way to call the same adapter."""

    harness: ClassVar[type[Harness]]

    @pytest.fixture
    def make(self, tmp_path: Path) -> Iterator[Make]:
        """Return a function that creates a harness on the test's folder. A second one acts as a restart."""
        made: list[Harness] = []

        def make(scene: Scene, **named: Any) -> Harness:
            made.append(self.harness(tmp_path, scene, **named))
            return made[-1]

        yield make
        for each in made:
            each.close()

    def test_a_call_without_review_runs(self, make: Make, tmp_path: Path) -> None:
        mine = make(Scene(turns=((READ,),)))
        assert mine.start("t") is None
        assert runs_in(tmp_path) == [("read_data", {})]
        assert mine.read_tool_results("t") == [("c3", "the data")]

    def test_the_person_sees_the_call_before_it_runs(self, make: Make, tmp_path: Path) -> None:
        stopped = require_interruption(make(ONE).start("t"))
        shown = stopped.tool_feedbacks[0]
        assert (shown.id, shown.name, shown.arguments) == ("c1", "execute_sql", SQL.arguments)
        assert shown.description == "SQL needs approval"
        assert shown.allowed_decisions == ("approve", "edit", "reject")
        assert (shown.schema is not None) == self.harness.knows_schemas
        assert shown.schema is None or shown.schema["properties"]["query"]["type"] == "string"
        assert runs_in(tmp_path) == []

    def test_an_approved_call_runs_and_the_model_reads_its_result(self, make: Make, tmp_path: Path) -> None:
        mine = make(ONE)
        stopped = require_interruption(mine.start("t"))
        assert mine.resume("t", stopped.approve_all()) is None
        assert runs_in(tmp_path) == [RAN_SQL]
        assert mine.read_tool_results("t") == [("c1", "rows of DELETE FROM records")]

    def test_an_edited_call_runs_as_edited_and_the_model_is_told(self, make: Make, tmp_path: Path) -> None:
        mine = make(ONE)
        stopped = require_interruption(mine.start("t"))
        assert mine.resume("t", stopped.edit_tool("execute_sql", {"query": "SELECT 1"})) is None
        assert runs_in(tmp_path) == [("execute_sql", {"query": "SELECT 1"})]
        [(call_id, text)] = mine.read_tool_results("t")
        assert call_id == "c1"
        assert "A person changed this call" in text
        assert text.endswith("rows of SELECT 1")

    def test_a_rejected_call_does_not_run_and_the_model_reads_why(self, make: Make, tmp_path: Path) -> None:
        mine = make(ONE)
        stopped = require_interruption(mine.start("t"))
        assert mine.resume("t", stopped.reject_all("back it up first")) is None
        assert runs_in(tmp_path) == []
        [(call_id, text)] = mine.read_tool_results("t")
        assert call_id == "c1"
        assert "rejected" in text
        assert "back it up first" in text

    def test_a_reviewer_may_answer_instead_of_the_tool(self, make: Make, tmp_path: Path) -> None:
        mine = make(Scene(turns=((MAIL,),)))
        feedback = require_interruption(mine.start("t")).respond("c2", "I have told them myself.")
        if mine.responds:
            assert mine.resume("t", feedback) is None
            assert mine.read_tool_results("t") == [("c2", "I have told them myself.")]
        else:
            with pytest.raises(InvalidFeedback):
                mine.resume("t", feedback)
        assert runs_in(tmp_path) == []

    def test_results_of_a_mixed_batch_are_reported_in_call_order(self, make: Make, tmp_path: Path) -> None:
        mine = make(BATCH)
        stopped = require_interruption(mine.start("t"))
        assert list_waiting_tools(stopped) == ["write_file", "execute_sql", "send_email"]
        assert [call.name for call in stopped.tools_automatically_approved] == ["read_data"]
        assert [name for name, _ in runs_in(tmp_path) if name != "read_data"] == []
        feedback = stopped.reject("c0", "no").edit("c1", {"query": "SELECT 1"}).approve("c2")
        assert mine.resume("t", feedback) is None
        assert list_runs(mine, tmp_path) == [
            ("execute_sql", {"query": "SELECT 1"}),
            ("read_data", {}),
            ("send_email", MAIL.arguments),
        ]
        results = mine.read_tool_results("t")
        assert [call_id for call_id, _ in results] == ["c0", "c1", "c2", "c3"]
        assert "no" in results[0][1]
        assert results[2:] == [("c2", "sent to all@example.com"), ("c3", "the data")]

    def test_when_all_calls_are_rejected_the_model_goes_on(self, make: Make, tmp_path: Path) -> None:
        mine = make(Scene(turns=((WRITE, SQL), (READ,))))
        assert mine.resume("t", require_interruption(mine.start("t")).reject_all("neither")) is None
        assert runs_in(tmp_path) == [("read_data", {})]
        assert [call_id for call_id, _ in mine.read_tool_results("t")] == ["c0", "c1", "c3"]

    def test_each_turn_that_needs_a_person_asks_again(self, make: Make, tmp_path: Path) -> None:
        mine = make(TWICE)
        first = require_interruption(mine.start("t"))
        second = require_interruption(mine.resume("t", first.approve_all()))
        assert second.id != first.id
        assert [feedback.id for feedback in second.undecided] == ["c4"]
        assert mine.resume("t", second.reject_all()) is None
        assert runs_in(tmp_path) == [RAN_SQL]

    def test_a_partial_answer_is_stored_until_the_rest_arrives(self, make: Make, tmp_path: Path) -> None:
        mine = make(BATCH)
        mine.start("t")
        half = require_interruption(mine.resume("t", {"c1": "approve"}))
        assert list_waiting_tools(half) == ["write_file", "send_email"]
        assert next(kept.result for kept in half.tool_feedbacks if kept.id == "c1") is FeedbackResult.APPROVED
        assert [name for name, _ in runs_in(tmp_path) if name != "read_data"] == []
        restarted = make(BATCH)
        assert restarted.resume("t", {"c0": "reject", "c2": "reject"}) is None
        assert [name for name, _ in list_runs(restarted, tmp_path)] == ["execute_sql", "read_data"]

    @pytest.mark.parametrize(
        "wrong",
        [
            {"c9": "approve"},
            {"c1": "yes"},
            {"c1": None},
            {"c1": "respond"},
            MISFIT,
            {"c1": {"decision": "edit", "arguments": "not json"}},
            {"c1": {"decision": "approve", "arguments": {"query": "DROP"}}},
            {"c1": {"decision": "edit", "name": "no_such_tool", "arguments": {}}},
            {"c1": "approve", "c9": "approve"},
            "yes",
            7,
        ],
        ids=str,
    )
    def test_a_wrong_answer_is_refused_and_the_right_one_still_works(
        self, make: Make, tmp_path: Path, wrong: Any
    ) -> None:
        mine = make(ONE)
        mine.start("t")
        if wrong == MISFIT and not mine.knows_schemas:  # the framework itself must check it
            assert mine.resume("t", wrong) is None
            assert runs_in(tmp_path) == [("execute_sql", {"query": 5})]
            return
        with pytest.raises(InvalidFeedback):
            mine.resume("t", wrong)
        assert runs_in(tmp_path) == []
        assert mine.resume("t", {"c1": "approve"}) is None
        assert runs_in(tmp_path) == [RAN_SQL]

    def test_an_answer_to_another_thread_is_refused(self, make: Make, tmp_path: Path) -> None:
        mine = make(ONE)
        other = require_interruption(mine.start("other"))
        mine.start("t")
        with pytest.raises(InvalidFeedback):
            mine.resume("t", other.approve_all())
        assert runs_in(tmp_path) == []
        assert mine.resume("other", other.approve_all()) is None
        assert mine.resume("t", {"c1": "reject"}) is None
        assert runs_in(tmp_path) == [RAN_SQL]

    def test_a_thread_without_waiting_calls_cannot_be_resumed(self, make: Make, tmp_path: Path) -> None:
        with pytest.raises(HookError):
            make(ONE).resume("never started", {"c1": "approve"})
        assert runs_in(tmp_path) == []

    def test_a_message_to_a_thread_that_waits_is_refused_and_loses_nothing(
        self, make: Make, tmp_path: Path
    ) -> None:
        mine = make(ONE)
        mine.start("t")
        with pytest.raises(HookError):
            mine.start("t")
        assert runs_in(tmp_path) == []
        assert mine.resume("t", {"c1": "approve"}) is None
        assert runs_in(tmp_path) == [RAN_SQL]
        assert mine.read_tool_results("t") == [("c1", "rows of DELETE FROM records")]

    def test_the_same_answer_delivered_twice_runs_nothing_twice(self, make: Make, tmp_path: Path) -> None:
        mine = make(BATCH)
        feedback = require_interruption(mine.start("t")).approve_all()
        assert mine.resume("t", feedback) is None
        before = sorted(runs_in(tmp_path), key=str)
        assert len(list_runs(mine, tmp_path)) == 4
        assert mine.resume("t", feedback) is None
        assert make(BATCH).resume("t", feedback) is None
        assert sorted(runs_in(tmp_path), key=str) == before

    def test_a_late_answer_that_contradicts_the_first_is_refused(self, make: Make, tmp_path: Path) -> None:
        mine = make(ONE)
        stopped = require_interruption(mine.start("t"))
        assert mine.resume("t", stopped.approve_all()) is None
        late: list[Feedback] = [
            stopped.reject_all("wait, no"),
            stopped.edit("c1", {"query": "SELECT 1"}),
            {"c1": "reject"},
        ]
        for harness in (mine, make(ONE)):
            for feedback in late:
                with pytest.raises(AlreadyDecided) as refused:
                    harness.resume("t", feedback)
                assert refused.value.outcome is not None
            assert harness.resume("t", stopped.approve_all()) is None
        assert runs_in(tmp_path) == [RAN_SQL]

    def test_an_old_answer_delivered_again_decides_nothing_new(self, make: Make, tmp_path: Path) -> None:
        mine = make(TWICE)
        first = require_interruption(mine.start("t")).approve_all()
        mine.resume("t", first)
        again: list[Feedback] = [first, {"c1": "approve"}]
        for feedback in again:
            with suppress(HookError):
                assert list_waiting_tools(mine.resume("t", feedback)) == ["execute_sql"]
        assert runs_in(tmp_path) == [RAN_SQL]
        assert mine.resume("t", {"c4": "approve"}) is None
        assert runs_in(tmp_path) == [RAN_SQL, ("execute_sql", LATER.arguments)]

    def test_a_second_delivery_while_the_call_runs_does_not_run_it(self, make: Make, tmp_path: Path) -> None:
        mine = make(ONE)
        feedback = require_interruption(mine.start("t")).approve_all()
        (tmp_path / HOLD).touch()
        with ThreadPoolExecutor() as pool:
            slow = pool.submit(mine.resume, "t", feedback)
            try:
                wait_until(lambda: slow.done() or runs_in(tmp_path) != [])
                with suppress(HookError):
                    make(ONE).resume("t", feedback)
            finally:
                (tmp_path / HOLD).unlink()
            assert slow.result() is None
        assert runs_in(tmp_path) == [RAN_SQL]

    def test_two_deliveries_at_once_run_the_call_once(self, make: Make, tmp_path: Path) -> None:
        mine, other = make(ONE), make(ONE)
        feedback = require_interruption(mine.start("t")).approve_all()
        start_line = Barrier(2)

        def deliver(to: Harness) -> str:
            start_line.wait(10)
            try:
                return "waiting" if to.resume("t", feedback) else "finished"
            except HookError as error:
                return error.code

        with ThreadPoolExecutor() as pool:
            ended = sorted(pool.map(deliver, (mine, other)))
        assert "finished" in ended
        assert set(ended) <= {"finished", "thread_busy", "checkpoint_conflict"}
        assert runs_in(tmp_path) == [RAN_SQL]

    def test_an_edit_into_another_reviewed_tool_is_reviewed_again(self, make: Make, tmp_path: Path) -> None:
        mine = make(ONE)
        edit: Feedback = {
            "c1": {"decision": "edit", "name": "send_email", "arguments": {"to": "x@example.com"}}
        }
        first = require_interruption(mine.start("t"))
        if not mine.renames:
            with pytest.raises(InvalidFeedback):
                mine.resume("t", edit)
            return
        again = require_interruption(mine.resume("t", edit))
        assert list_waiting_tools(again) == ["send_email"]
        assert again.id != first.id
        with suppress(HookError):
            assert list_waiting_tools(mine.resume("t", edit)) == ["send_email"], (
                "the same edit again is no approval"
            )
        assert runs_in(tmp_path) == []
        assert mine.resume("t", again.approve_all()) is None
        assert runs_in(tmp_path) == [("send_email", {"to": "x@example.com"})]
        assert mine.read_tool_results("t")[0][1].endswith("sent to x@example.com")

    def test_an_edit_into_another_tool_is_known_after_a_restart(self, make: Make, tmp_path: Path) -> None:
        make(ONE).start("t")
        mine = make(ONE)
        misfit: Feedback = {"c1": {"decision": "edit", "name": "write_file", "arguments": {"path": 5}}}
        with pytest.raises(InvalidFeedback):
            mine.resume("t", misfit)
        if mine.renames:
            edit: Feedback = {"c1": {"decision": "edit", "name": "read_data", "arguments": {}}}
            assert mine.resume("t", edit) is None
            assert runs_in(tmp_path) == [("read_data", {})]

    def test_a_condition_that_changes_its_result_cannot_undo_a_rejection(
        self, make: Make, tmp_path: Path
    ) -> None:
        scene = Scene(turns=((MAIL,),), policy="flips")
        stopped = require_interruption(make(scene).start("t"))
        (tmp_path / FLIPPED).touch()
        assert make(scene).resume("t", stopped.reject_all("no")) is None
        assert runs_in(tmp_path) == []

    def test_a_call_without_an_answer_in_time_is_rejected(self, make: Make, tmp_path: Path) -> None:
        clock = FakeClock()
        mine = make(Scene(turns=((SQL,),), policy="minute"), clock=clock)
        mine.start("t")
        assert list_waiting_tools(mine.resume("t", None)) == ["execute_sql"], "there is still time"
        clock.advance(timedelta(minutes=1))
        with pytest.raises(InvalidFeedback):
            mine.resume("t", {"c1": "approve"})
        assert mine.resume("t", None) is None
        assert runs_in(tmp_path) == []
        assert "Nobody decided in time" in mine.read_tool_results("t")[0][1]

    def test_a_stream_shows_who_is_asked(self, make: Make, tmp_path: Path) -> None:
        mine = make(ONE)
        [stopped] = mine.stream("t")
        assert list_waiting_tools(stopped) == ["execute_sql"]
        assert mine.resume("t", stopped.approve_all()) is None
        assert runs_in(tmp_path) == [RAN_SQL]

    def test_hostile_arguments_stay_text(self, make: Make, tmp_path: Path) -> None:
        call = ToolCall(id="../c'1\u202e", name="execute_sql", arguments={"query": HOSTILE})
        scene = Scene(turns=((call,),))
        mine = make(scene)
        stopped = require_interruption(mine.start("../t'--"))
        assert stopped.tool_feedbacks[0].arguments == {"query": HOSTILE}
        assert make(scene).resume("../t'--", {call.id: "approve"}) is None
        assert runs_in(tmp_path) == [("execute_sql", {"query": HOSTILE})]

    def test_threads_whose_calls_share_their_ids_do_not_mix(self, make: Make, tmp_path: Path) -> None:
        mine = make(ONE)
        mine.start("a")
        mine.start("b")
        assert mine.resume("a", {"c1": "reject"}) is None
        assert mine.resume("b", {"c1": "approve"}) is None
        assert runs_in(tmp_path) == [RAN_SQL]
        assert mine.read_tool_results("b") == [("c1", "rows of DELETE FROM records")]


class ToolApprovalContract(InOneProcessContract):
    """All tests of an adapter. Set `harness` to your Harness class, which must be importable."""

    def test_only_one_of_two_new_processes_continues_a_stopped_thread(
        self, make: Make, tmp_path: Path
    ) -> None:
        make(BATCH).start("t")
        edit = {"decision": "edit", "arguments": {"query": "SELECT 1"}}
        said = {"c0": "approve", "c1": edit, "c2": {"decision": "reject", "reason": "no"}}
        (tmp_path / HOLD).touch()
        both = [resume_elsewhere(self.harness, tmp_path, BATCH, "t", said) for _ in range(2)]
        try:
            wait_until(lambda: WROTE in runs_in(tmp_path) or all(each.poll() is not None for each in both))
        finally:
            (tmp_path / HOLD).unlink()
        assert "finished" in [outcome_of(each) for each in both]
        ran = list_runs(self.harness, tmp_path)
        assert ran == [("execute_sql", edit["arguments"]), ("read_data", {}), WROTE]
        assert [call_id for call_id, _ in make(BATCH).read_tool_results("t")] == ["c0", "c1", "c2", "c3"]

    def test_a_thread_continues_as_soon_as_its_case_is_decided(self, make: Make, tmp_path: Path) -> None:
        mine = make(CASE)
        stopped = require_interruption(mine.start("t"))
        assert stopped.case is not None
        assert mine.reviews is not None
        threads = mine.threads()
        assert runs_in(tmp_path) == []
        if threads is None:
            mine.reviews.decide({"execute_sql": "approve"})
            assert mine.resume("t", None) is None
        else:
            with ThreadPoolExecutor(1) as pool:
                decided = pool.submit(mine.reviews.decide_when_followed, {"execute_sql": "approve"})
                assert len(follow_cases(threads, is_async=mine.is_async)) == 1
                decided.result(WAIT_LIMIT_S)
        wait_until(lambda: runs_in(tmp_path) == [RAN_SQL])
        assert mine.read_tool_results("t") == [("c1", "rows of DELETE FROM records")]
        mine.send_receipts()
        assert mine.reviews.read_receipts() == [("execute_sql", "ran")]

    def test_a_call_of_a_child_agent_does_not_run_before_it_is_approved(
        self, make: Make, tmp_path: Path
    ) -> None:
        if self.harness.children == "none":
            return
        mine = make(CHILD)
        if self.harness.children == "are refused":
            with suppress(Exception):
                assert mine.start("t") is None
            assert runs_in(tmp_path) == []
            return
        approved, refused = (require_interruption(mine.start(thread_id)) for thread_id in "tu")
        assert list_waiting_tools(approved) == list_waiting_tools(refused) == ["execute_sql"]
        with suppress(HookError):
            assert list_waiting_tools(make(CHILD).resume("t", None)) == ["execute_sql"]
        assert runs_in(tmp_path) == []
        assert make(CHILD).resume("t", approved.edit_tool("execute_sql", EDITED)) is None
        assert make(CHILD).resume("u", refused.reject_all()) is None
        assert runs_in(tmp_path) == [("execute_sql", EDITED)]

    @pytest.fixture(scope="class")
    @classmethod
    def outcomes(cls) -> Iterator[DisturbedRuns]:
        """Return what came of killing and failing the adapter at every step of pause, decide and resume."""
        with make_memory_folder() as folder:
            yield disturb(cls.harness, folder)

    @pytest.mark.timeout(LIMIT_S + 20)
    def test_every_write_and_both_sides_of_every_call_are_steps(self, outcomes: DisturbedRuns) -> None:
        for by in self.harness.disturbances:
            disturbed = outcomes.killed if by == "kill" else outcomes.failed
            assert len(disturbed) > 10
            assert all(each.is_disturbed for each in disturbed)
        told = [dict(each.told) for each in outcomes.killed]
        for call_id in REVIEWED:
            texts = [each[call_id] for each in told if call_id in each]
            assert any(REASON in text for text in texts), "some died before this was decided"
            assert any(text.endswith(RESULTS[call_id]) for text in texts), "some died after this had run"
        assert any(OUTCOME_UNKNOWN in each.values() for each in told), "some died while calls ran"

    def test_a_stored_decision_survives_its_process(self, outcomes: DisturbedRuns) -> None:
        for each in (*outcomes.killed, *outcomes.failed):
            assert not set(each.acknowledged) & set(each.rejected), f"decided a second time: {each}"
        for each in outcomes.killed:
            for call_id in each.acknowledged:
                was_started = dict(each.told).get(call_id) == OUTCOME_UNKNOWN
                assert was_started or each.count_runs()[TOOLS[call_id]], f"lost a decision: {each}"

    def test_no_disturbed_call_runs_twice(self, outcomes: DisturbedRuns) -> None:
        for each in (*outcomes.killed, *outcomes.failed, outcomes.undisturbed, outcomes.race):
            repeated = {name for name, times in each.count_runs().items() if times > 1}
            if self.harness.decides_apart or each.is_lost:  # a call that needs no review may be made again
                repeated.discard(READ.name)
            assert not repeated, each

    def test_only_decided_calls_run_however_a_process_ends(self, outcomes: DisturbedRuns) -> None:
        for each in (*outcomes.killed, *outcomes.failed):
            sent = REVIEWED[: len(each.acknowledged) + 1]  # the last one may have been stored, too
            for call_id in REVIEWED:
                may_run = call_id in sent and call_id not in each.rejected
                assert may_run or not each.count_runs()[TOOLS[call_id]], each
            assert [arguments for name, arguments in each.ran if name == SQL.name] in ([], [EDITED]), each

    def test_the_model_reads_what_became_of_each_call(self, outcomes: DisturbedRuns) -> None:
        for each in (*outcomes.killed, *outcomes.failed):
            told = dict(each.told)
            if self.harness.resumes_anywhere and not each.is_lost:
                assert list(told) == [call.id for call in CALLS], each
            for call_id, text in told.items():
                if text.endswith(RESULTS[call_id]):
                    assert each.count_runs()[TOOLS[call_id]], f"told of what never ran: {each}"
                elif call_id not in each.rejected and each in outcomes.killed and not each.is_lost:
                    assert text == OUTCOME_UNKNOWN, each

    def test_every_approved_call_is_reported_however_a_process_ends(self, outcomes: DisturbedRuns) -> None:
        for each in (*outcomes.killed, *outcomes.failed, outcomes.undisturbed):
            first = dict(reversed(each.receipts))
            assert READ.name not in first, "it was not reviewed"
            for call_id in REVIEWED:
                text, outcome = dict(each.told).get(call_id, REASON), first.get(TOOLS[call_id])
                if call_id in each.rejected:
                    assert outcome is None, each
                elif text.endswith(RESULTS[call_id]):
                    assert outcome == "ran", each
                elif text == OUTCOME_UNKNOWN:
                    assert outcome in ("ran", "failed"), each
                if outcome == "ran":
                    assert each.count_runs()[TOOLS[call_id]], f"reported, and never ran: {each}"

    def test_undisturbed_every_decided_call_runs(self, outcomes: DisturbedRuns) -> None:
        assert outcomes.undisturbed.acknowledged == REVIEWED
        assert set(outcomes.undisturbed.count_runs()) == set(TOOLS.values())
        told = dict(outcomes.undisturbed.told)
        assert all(told[call_id].endswith(result) for call_id, result in RESULTS.items())

    def test_of_many_processes_that_resume_a_thread_one_runs_its_calls(self, outcomes: DisturbedRuns) -> None:
        told = dict(outcomes.race.told)
        runs = outcomes.race.count_runs()
        if self.harness.repeats_runs:
            runs[READ.name] = min(runs[READ.name], 1)
        assert runs == Counter([WRITE.name, SQL.name, READ.name])
        assert all(told[call_id].endswith(RESULTS[call_id]) for call_id in ("c0", "c1", "c3"))
        if self.harness.decides_apart:
            assert 1 <= outcomes.race.continued <= RACERS
        else:
            assert outcomes.race.continued == 1
