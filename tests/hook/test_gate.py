"""The gate that adapters share: judged once, answered piece by piece, run once."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from placet.errors import InvalidFeedback, NothingToResume, ThreadBusy, ThreadPaused
from placet.hook import FeedbackResult, HumanInTheLoopHook, MemorySaver, ToolCall, ToolConfig
from placet.hook.answer_validation import Feedback
from placet.hook.approval_rules import State
from placet.hook.call_evaluation import evaluate_calls, run_evaluation
from placet.hook.call_leases import CallStart
from placet.hook.gate import Gate
from placet.hook.result_texts import OUTCOME_UNKNOWN

SQL = ToolCall(id="c1", name="execute_sql", arguments={"query": "DELETE FROM records"})
MAIL = ToolCall(id="c2", name="send_email", arguments={"to": "all@example.com"})
READ = ToolCall(id="c3", name="read_data", arguments={})
SCHEMAS: dict[str, dict] = {
    "execute_sql": {"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]},
    "send_email": {"type": "object", "properties": {"to": {"type": "string"}}, "required": ["to"]},
    "read_data": {"type": "object"},
}


class SettableClock:
    def __init__(self) -> None:
        self.at = datetime(2026, 1, 1, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.at


def gate(hook: HumanInTheLoopHook, now: SettableClock | None = None) -> Gate:
    clock = now or SettableClock()
    return Gate([hook], MemorySaver(clock=clock), clock=clock)


def make_hook() -> HumanInTheLoopHook:
    return HumanInTheLoopHook({"execute_sql": "SQL needs approval", "send_email": True})


def test_calls_that_need_nobody_wait_with_those_that_do() -> None:
    stopped = gate(make_hook()).stop("k", [SQL, READ], schemas=SCHEMAS)
    assert stopped is not None
    assert [waiting.name for waiting in stopped.tool_feedbacks] == ["execute_sql"]
    assert stopped.tool_feedbacks[0].description == "SQL needs approval"
    assert [call.name for call in stopped.tools_automatically_approved] == ["read_data"]


def test_nothing_is_stopped_or_kept_when_nobody_needs_to_be_asked() -> None:
    mine = gate(make_hook())
    assert mine.stop("k", [READ]) is None
    assert mine.waiting("k") is None
    with pytest.raises(NothingToResume):
        mine.answer("k", {"c3": "approve"})


def test_a_condition_that_changes_its_mind_does_not_undo_the_rejection() -> None:
    asks = [True, False]
    hook = HumanInTheLoopHook({"send_email": ToolConfig(when=lambda call, state: asks.pop(0))})
    mine = gate(hook)
    assert mine.stop("k", [MAIL]) is not None
    answered = mine.answer("k", {"c2": {"decision": "reject", "reason": "no"}})
    assert mine.stop("k", [MAIL]) is not None, "the frozen judgement is given again"
    assert answered.tool_feedbacks[0].result is FeedbackResult.REJECTED


@pytest.mark.parametrize("still_asks", [True, False])
def test_a_turn_that_was_thought_to_be_new_is_not_judged_anew(still_asks: bool) -> None:
    asks = [True, still_asks]
    hook = HumanInTheLoopHook({"send_email": ToolConfig(when=lambda call, state: asks.pop(0))})
    mine = gate(hook)
    stopped = mine.stop("k", [MAIL], new=True)
    assert stopped is not None
    again = mine.stop("k", [MAIL], new=True)
    assert again is not None
    assert again.id == stopped.id


def test_what_was_judged_already_is_taken_as_it_was_judged() -> None:
    mine = gate(HumanInTheLoopHook({"other": True}))
    judged = run_evaluation(evaluate_calls([make_hook()], [SQL], {}))
    assert [*judged] == ["c1"]
    stopped = mine.stop("k", [SQL, MAIL], requirements=judged, new=True, unsynced=True)
    assert stopped is not None
    assert [waiting.description for waiting in stopped.tool_feedbacks] == ["SQL needs approval"]
    assert stopped.tools_automatically_approved == (MAIL,)
    assert mine.stop("k", [SQL, MAIL], requirements={}, new=True, unsynced=True) == mine.waiting("k")


def test_half_an_answer_is_kept_until_the_other_half_comes() -> None:
    mine = gate(make_hook())
    mine.stop("k", [SQL, MAIL], schemas=SCHEMAS)
    half = mine.answer("k", {"c1": "approve"})
    assert [waiting.id for waiting in half.undecided] == ["c2"]
    whole = mine.answer("k", {"c2": "reject"})
    assert not whole.undecided
    assert whole.tool_feedbacks[0].result is FeedbackResult.APPROVED
    assert mine.waiting("k") == whole


@pytest.mark.parametrize(
    "wrong",
    [
        {"c9": "approve"},
        {"c1": "yes"},
        {"c1": None},
        {"c1": {"decision": "edit"}},
        {"c1": {"decision": "edit", "arguments": {"query": 5}}},
        {"c1": {"decision": "edit", "arguments": "not json"}},
        {"c1": {"decision": "respond", "answer": "42"}},
        {"c1": {"decision": "approve", "arguments": {"query": "DROP"}}},
        {"c1": {"decision": "edit", "name": "no_such_tool", "arguments": {}}},
        {"c1": "approve", "c9": "approve"},
    ],
)
def test_a_wrong_answer_stores_nothing_and_the_right_one_still_works(wrong: dict) -> None:
    mine = gate(make_hook())
    mine.stop("k", [SQL], schemas=SCHEMAS)
    with pytest.raises(InvalidFeedback):
        mine.answer("k", wrong, schemas=SCHEMAS)
    assert not mine.answer("k", {"c1": "approve"}).undecided


def test_an_answer_to_other_calls_is_refused() -> None:
    mine = gate(make_hook())
    other = gate(make_hook()).stop("other", [SQL])
    mine.stop("k", [SQL])
    assert other is not None
    with pytest.raises(InvalidFeedback, match="another interruption"):
        mine.answer("k", other.approve_all())


def test_an_approval_of_changed_arguments_is_refused() -> None:
    mine = gate(make_hook())
    stopped = mine.stop("k", [SQL])
    assert stopped is not None
    feedback = stopped.tool_feedbacks[0].edit({"query": "DROP ALL"}).approve()
    with pytest.raises(InvalidFeedback, match="must be edit"):
        mine.answer("k", [feedback])


def test_an_edit_into_another_gated_tool_waits_for_its_own_approval() -> None:
    mine = gate(make_hook())
    first = mine.stop("k", [SQL], schemas=SCHEMAS)
    edit: Feedback = {"c1": {"decision": "edit", "name": "send_email", "arguments": {"to": "x@example.com"}}}
    again = mine.answer("k", edit, schemas=SCHEMAS)
    assert first is not None
    assert again.id != first.id
    assert [(waiting.name, waiting.result) for waiting in again.tool_feedbacks] == [("send_email", None)]
    whole = mine.answer("k", again.approve_all())
    assert whole.tool_feedbacks[0].call == ToolCall(
        id="c1", name="send_email", arguments={"to": "x@example.com"}
    )


def test_the_same_edit_into_a_gated_tool_delivered_twice_is_not_its_approval() -> None:
    mine = gate(make_hook())
    first = mine.stop("k", [SQL], schemas=SCHEMAS)
    assert first is not None
    edit: Feedback = {"c1": {"decision": "edit", "name": "send_email", "arguments": {"to": "x@example.com"}}}
    objects = [first.tool_feedbacks[0].edit({"to": "x@example.com"}, name="send_email")]
    mine.answer("k", edit)
    third = first.edit("c1", {"to": "x@example.com"}, name="send_email")
    answers: tuple[Feedback, ...] = (edit, objects, third)
    for again in answers:
        with pytest.raises(InvalidFeedback):
            mine.answer("k", again)
    assert [waiting.result for waiting in mine.waiting("k").tool_feedbacks] == [None]  # type: ignore[union-attr]


def test_a_call_that_waits_for_something_itself_is_begun_anew() -> None:
    mine = gate(make_hook())
    mine.stop("k", [SQL, MAIL])
    mine.answer("k", {"c1": "approve", "c2": "approve"})
    assert mine.begin("k", "c1").run
    mine.undo_begin("k", "c1")
    assert mine.run_once("k", "c1", lambda: "done") == "done"


def test_when_time_is_over_the_calls_are_rejected_and_late_answers_refused() -> None:
    now = SettableClock()
    mine = gate(HumanInTheLoopHook({"execute_sql": ToolConfig(timeout=60)}), now)
    mine.stop("k", [SQL])
    assert mine.answer("k", None).undecided, "there is still time"
    now.at += timedelta(seconds=60)
    with pytest.raises(InvalidFeedback, match="expired"):
        mine.answer("k", {"c1": "approve"})
    ended = mine.answer("k", None)
    assert ended.tool_feedbacks[0].result is FeedbackResult.REJECTED


def test_a_call_held_past_its_time_goes_on_waiting() -> None:
    now = SettableClock()
    mine = gate(HumanInTheLoopHook({"execute_sql": ToolConfig(timeout=60, default="hold")}), now)
    mine.stop("k", [SQL])
    now.at += timedelta(days=1)
    assert mine.answer("k", None).undecided


def run(ran: list[int]) -> str:
    ran.append(1)
    return "done"


def test_the_same_answer_delivered_twice_runs_the_tool_once() -> None:
    mine = gate(make_hook())
    ran: list[int] = []
    mine.stop("k", [SQL])
    for _ in range(2):
        mine.answer("k", {"c1": "approve"})
        assert mine.run_once("k", "c1", lambda: run(ran)) == "done"
    assert ran == [1]


def test_a_call_that_is_not_approved_cannot_be_begun() -> None:
    mine = gate(make_hook())
    mine.stop("k", [SQL, MAIL, READ])
    for call_id in ("c1", "c3"):  # c3 needs no review, and waits with the others
        with pytest.raises(ThreadPaused):
            mine.begin("k", call_id)
    mine.answer("k", {"c1": {"decision": "reject", "reason": "no"}, "c2": "approve"})
    assert mine.begin("k", "c1") == CallStart(
        run=False, result="A person rejected this call. Their reason: no"
    )
    with pytest.raises(NothingToResume):
        mine.begin("k", "c9")
    assert mine.begin("k", "c3").run


def test_calls_that_make_way_keep_what_was_decided_before() -> None:
    mine = gate(make_hook())
    mine.stop("k", [SQL, MAIL])
    mine.answer("k", {"c1": {"decision": "reject", "reason": "no"}})
    decided = mine.cancel("k", "something else came up")
    assert [waiting.not_run for waiting in decided.tool_feedbacks] == ["rejected", "superseded"]
    assert mine.begin("k", "c1").result == "A person rejected this call. Their reason: no"
    assert mine.begin("k", "c2").result == "something else came up"


def test_two_at_once_do_not_both_run_the_call() -> None:
    mine = gate(make_hook())
    mine.stop("k", [SQL])
    mine.answer("k", {"c1": "approve"})
    assert mine.begin("k", "c1").run
    with pytest.raises(ThreadBusy):
        mine.begin("k", "c1")


def test_a_call_whose_process_died_is_not_run_again_unless_it_may_be() -> None:
    now = SettableClock()
    mine = gate(make_hook(), now)
    mine.stop("k", [SQL, MAIL])
    mine.answer("k", {"c1": "approve", "c2": "approve"})
    mine.begin("k", "c1")
    mine.begin("k", "c2")
    now.at += timedelta(hours=1)
    assert mine.begin("k", "c2", repeatable=True).run
    now.at += timedelta(hours=1)
    assert mine.run_once("k", "c1", lambda: "again") == OUTCOME_UNKNOWN


def test_a_tool_that_fails_is_not_tried_again_by_a_second_delivery() -> None:
    mine = gate(make_hook())
    mine.stop("k", [SQL])
    mine.answer("k", {"c1": "approve"})

    async def breaks() -> str:
        raise ValueError("no such table")

    with pytest.raises(ValueError, match="no such table"):
        asyncio.run(mine.arun_once("k", "c1", breaks))
    assert mine.run_once("k", "c1", lambda: "again") == "The tool failed: ValueError: no such table"


def condition_errs(call: ToolCall, state: State) -> bool:
    raise RuntimeError


@pytest.mark.parametrize("when", [condition_errs, lambda call, state: None, lambda call, state: 0])
def test_a_condition_that_fails_or_returns_no_boolean_asks(when) -> None:
    assert gate(HumanInTheLoopHook({"send_email": ToolConfig(when=when)})).stop("k", [MAIL]) is not None


@pytest.mark.parametrize(
    ("hook", "asked"),
    [
        (HumanInTheLoopHook({"send_*": True}), ["send_email"]),
        (HumanInTheLoopHook({"*": True, "read_*": False}), ["execute_sql", "send_email"]),
        (HumanInTheLoopHook({"*": False, "send_email": True}), ["send_email"]),
        (HumanInTheLoopHook(everything_except=["read_data"]), ["execute_sql", "send_email"]),
        (HumanInTheLoopHook({"execute_*": False, "execute_sql": True}), ["execute_sql"]),
    ],
)
def test_names_outrank_patterns_and_longer_patterns_shorter_ones(hook, asked) -> None:
    stopped = gate(hook).stop("k", [SQL, MAIL, READ])
    assert stopped is not None
    assert [waiting.name for waiting in stopped.tool_feedbacks] == asked


@pytest.mark.parametrize(
    "make",
    [
        lambda: ToolConfig(default="approve"),  # type: ignore[arg-type]
        lambda: ToolConfig(allowed_decisions=()),
        lambda: ToolConfig(allowed_decisions=("maybe",)),  # type: ignore[arg-type]
        lambda: ToolConfig(timeout=0),
        lambda: HumanInTheLoopHook({"x": None}),  # type: ignore[dict-item]
        lambda: HumanInTheLoopHook(everything_except="read_data"),
        lambda: HumanInTheLoopHook({"x": True}, on_new_message="ignore"),  # type: ignore[arg-type]
    ],
)
def test_a_policy_that_makes_no_sense_is_refused_when_it_is_written(make) -> None:
    with pytest.raises(ValueError, match=r"."):
        make()


def test_an_edit_of_all_calls_of_a_tool_approves_the_one_that_is_so_already() -> None:
    gated = gate(HumanInTheLoopHook({"*": True}))
    calls = [ToolCall(id=word, name="send", arguments={"to": word}) for word in ("ada", "bo")]
    stopped = gated.stop("k", calls)
    assert stopped is not None
    answered = gated.answer("k", stopped.edit_tool("send", '{"to": "ada"}'))
    assert [waiting.arguments for waiting in answered.tool_feedbacks] == [{"to": "ada"}] * 2
    assert answered.undecided == ()


def test_a_tool_whose_name_looks_like_a_pattern_is_gated_by_its_name() -> None:
    named = ToolCall(id="1", name="rows[0]")
    assert gate(HumanInTheLoopHook({"rows[0]": True})).stop("k", [named]) is not None
