"""The life of a task, against expectations written down by hand and in every order of up to five commands."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from itertools import product
from typing import Any

import msgspec
import pytest

from placet.ports.task_store import TaskRow
from placet.relay.a2a.dialects import Dialect
from placet.relay.a2a.errors import A2AError
from placet.relay.task import (
    TASK_COMMANDS,
    TRANSITIONS,
    ApproveTask,
    EndCall,
    FailTask,
    FinishTask,
    HandOver,
    HoldTask,
    RefuseTask,
    ReleaseTask,
    RenewLease,
    Task,
    TaskCommand,
    TaskEnding,
    TaskStatus,
    apply,
    row_from_task,
    task_from_row,
)

NOW = datetime(2026, 11, 19, tzinfo=UTC)
ENDING = TaskEnding(dialect=Dialect("JSONRPC", "1.0"), failure="no")

EXPECTED = """
                running     with_agent  held      resuming    ended
    RenewLease  running     -           -         -           -
    HandOver    with_agent  -           -         -           -
    EndCall     ended       -           -         -           -
    HoldTask    held        held        refused   held        refused
    ApproveTask -           -           resuming  -           -
    RefuseTask  -           -           ended     refused     -
    ReleaseTask -           -           refused   with_agent  -
    FinishTask  -           -           refused   ended       -
    FailTask    -           -           ended     ended       -
"""


def list_commands(hold: str = "hold-1") -> list[TaskCommand]:
    return [
        RenewLease(until=NOW),
        HandOver(agent_task_id="agents"),
        EndCall(ending=ENDING),
        HoldTask(new_hold_id=hold, metadata={"relay_reason": "HITL_HELD"}),
        ApproveTask(hold_id=hold, digests=("seen",)),
        RefuseTask(hold_id=hold, ending=ENDING),
        ReleaseTask(hold_id=hold, agent_task_id="agents"),
        FinishTask(hold_id=hold, ending=ENDING),
        FailTask(hold_id=hold, ending=ENDING),
    ]


def new_task(status: TaskStatus) -> Task:
    upstream_id = "agents" if status is TaskStatus.WITH_AGENT else None
    return Task(id="one", owner="ann", status=status, upstream_id=upstream_id)


def task_in_status(status: TaskStatus) -> Task:
    task = new_task(TaskStatus.RUNNING)
    path: dict[TaskStatus, list[type[TaskCommand]]] = {
        TaskStatus.RUNNING: [],
        TaskStatus.WITH_AGENT: [HandOver],
        TaskStatus.HELD: [HoldTask],
        TaskStatus.RESUMING: [HoldTask, ApproveTask],
        TaskStatus.ENDED: [EndCall],
    }
    for kind in path[status]:
        task = apply(task, next(one for one in list_commands() if type(one) is kind))
    assert task.status is status
    return task


def list_expectations() -> list[tuple[TaskStatus, str, str]]:
    head, *lines = [line.split() for line in EXPECTED.strip().splitlines()]
    return [
        (TaskStatus(status), name, outcome)
        for name, *outcomes in lines
        for status, outcome in zip(head, outcomes, strict=True)
    ]


def test_every_pair_of_status_and_command_has_a_rule_and_an_expectation() -> None:
    assert set(TRANSITIONS) == set(product(TaskStatus, TASK_COMMANDS))
    expected = {(status, name) for status, name, _ in list_expectations()}
    assert expected == {(status, command.__name__) for status, command in TRANSITIONS}
    assert {type(one) for one in list_commands()} == set(TASK_COMMANDS)


@pytest.mark.parametrize(("status", "name", "outcome"), list_expectations())
def test_a_command_does_what_is_expected(status: TaskStatus, name: str, outcome: str) -> None:
    task = task_in_status(status)
    command = next(one for one in list_commands() if type(one).__name__ == name)
    if outcome == "refused":
        with pytest.raises(A2AError):
            apply(task, command)
    elif outcome == "-":
        assert apply(task, command) is task
    else:
        assert apply(task, command).status == outcome


def apply_or_refuse(task: Task, command: TaskCommand) -> Task:
    try:
        return apply(task, command)
    except A2AError:
        return task


def enumerate_steps(
    task: Task, commands: Sequence[TaskCommand], length: int, earlier: tuple[TaskCommand, ...] = ()
) -> Iterator[tuple[tuple[TaskCommand, ...], Task, TaskCommand, Task]]:
    """Every step of every sequence of up to `length` commands, with the commands that took effect before."""
    for command in commands:
        changed = apply_or_refuse(task, command)
        yield earlier, task, command, changed
        if length > 1:
            took_effect = earlier if changed is task else (*earlier, command)
            yield from enumerate_steps(changed, commands, length - 1, took_effect)


def check_step(earlier: tuple[TaskCommand, ...], task: Task, command: TaskCommand, changed: Task) -> None:
    assert (changed.status is TaskStatus.ENDED) == (changed.ending is not None)
    assert changed.is_held == (changed.hold_id is not None)
    assert (changed.hold_metadata is not None) == (changed.status is TaskStatus.HELD)
    assert changed.is_known_to_agent or changed.status is not TaskStatus.WITH_AGENT
    if task.status is TaskStatus.ENDED:
        assert changed is task, "a final state stays"
    if task.status is TaskStatus.HELD and changed is not task:
        assert getattr(command, "hold_id", None) == task.hold_id, "only its own hold decides"
        assert changed.status in (TaskStatus.RESUMING, TaskStatus.ENDED)
    if type(command) in (ReleaseTask, FinishTask) and changed is not task:
        approved = [one for one in earlier if isinstance(one, ApproveTask)]
        assert approved, "nothing is forwarded without approval"
        assert approved[-1].hold_id == task.hold_id
    if isinstance(command, ApproveTask) and changed is not task:
        holds = [one for one in earlier if isinstance(one, HoldTask)]
        assert holds[-1].new_hold_id == command.hold_id


@pytest.mark.parametrize("status", [TaskStatus.RUNNING, TaskStatus.WITH_AGENT])
def test_every_order_of_five_commands_keeps_the_rules(status: TaskStatus) -> None:
    count = 0
    for step in enumerate_steps(new_task(status), list_commands(), 5):
        check_step(*step)
        count += 1
    assert count == sum(len(TASK_COMMANDS) ** length for length in range(1, 6))


def test_in_every_order_of_two_holds_only_the_current_one_decides() -> None:
    both = [*list_commands("hold-1"), *list_commands("hold-2")[3:]]
    for step in enumerate_steps(new_task(TaskStatus.WITH_AGENT), both, 4):
        check_step(*step)


def test_a_task_has_at_most_one_end_and_one_decision_per_hold() -> None:
    held = task_in_status(TaskStatus.HELD)
    approve = ApproveTask(hold_id="hold-1", digests=("seen",))
    resuming = apply(held, approve)
    assert apply(resuming, approve) is resuming
    with pytest.raises(A2AError):
        apply(resuming, RefuseTask(hold_id="hold-1", ending=ENDING))
    ended = apply(held, RefuseTask(hold_id="hold-1", ending=ENDING))
    assert apply(ended, approve) is ended


def test_what_a_person_approved_is_remembered_once() -> None:
    task = apply(task_in_status(TaskStatus.HELD), ApproveTask(hold_id="hold-1", digests=("a", "b", "a")))
    assert task.approved == ("a", "b")


def test_a_call_whose_lease_has_ended_is_abandoned_only_while_it_runs() -> None:
    running = apply(new_task(TaskStatus.RUNNING), RenewLease(until=NOW))
    assert running.is_abandoned(NOW)
    assert not running.is_abandoned(NOW - timedelta(seconds=1))
    assert not apply(running, EndCall(ending=ENDING)).is_abandoned(NOW)


EARLIER_ROWS: list[tuple[dict[str, Any], TaskStatus]] = [
    ({"upstream_id": "theirs"}, TaskStatus.WITH_AGENT),
    ({"upstream_id": None}, TaskStatus.RUNNING),
    (
        {"upstream_id": None, "hold_id": "h", "hold_metadata": {"relay_reason": "HITL_HELD"}},
        TaskStatus.HELD,
    ),
    (
        {"upstream_id": "theirs", "hold_id": "h", "hold_metadata": {"relay_reason": "TIMEOUT"}},
        TaskStatus.RESUMING,
    ),
    (
        {"upstream_id": None, "ending": msgspec.to_builtins(ENDING)},
        TaskStatus.ENDED,
    ),
]


@pytest.mark.parametrize(("fields", "status"), EARLIER_ROWS)
def test_a_row_of_an_earlier_release_gets_the_status_that_its_fields_mean(
    fields: dict[str, Any], status: TaskStatus
) -> None:
    body = msgspec.json.encode({"id": "one", "owner": "ann", **fields})
    row = TaskRow(tenant="t", agent="a", kind="task", id="one", body=body, saved_at=NOW)
    assert task_from_row(row).status is status


@pytest.mark.parametrize("status", list(TaskStatus))
def test_a_task_is_read_as_it_was_stored(status: TaskStatus) -> None:
    task = task_in_status(status)
    found = task_from_row(row_from_task("t", "a", "task", task, NOW))
    assert (found.status, found.hold_id, found.ending) == (task.status, task.hold_id, task.ending)
