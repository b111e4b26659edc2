"""The life of a relayed task: one table keyed by status and command, and one pure function over it.

A task is a record of who owns a task or context, under which id the agent knows it, and who answers for it
now: the agent, the relay, or a person. `apply` is the only way to change who answers.
"""

from collections.abc import Callable, Mapping
from datetime import datetime
from enum import StrEnum
from typing import Any, Literal

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from placet.cases.machine import STAY, Stay
from placet.ports.row_validation import can_be_stored
from placet.ports.task_store import TaskRow
from placet.relay.a2a.dialects import Dialect
from placet.relay.a2a.errors import A2AError, ErrorKind
from placet.relay.a2a.json_format import Json
from placet.relay.policy.verdict import HoldingPolicy

IdKind = Literal["task", "context"]
MAX_FORWARDED_DIGESTS = 500
MAX_APPROVED_DIGESTS = 5_000
NOT_ANSWERED = "The agent has not answered yet. Try again later."
WAITS_FOR_DECISION = "The task waits for a person's decision. Try again later."
HAS_ENDED = "The task has ended."


RelayReason = Literal[
    "TIMEOUT", "HITL_HELD", "HITL_HELD_AGENT_INPUT_REQUIRED", "HITL_REJECTED", "HITL_EXPIRED"
]
"""Why the relay answers for a task, as callers see it in the task's metadata.

The agent did not answer in time and its call continues; a policy holds a message until a person decides; the
agent's request for input is held; a person rejected the message; or nobody decided in time.
"""
REASONS_WITH_POLICY: frozenset[RelayReason] = frozenset({"HITL_HELD", "HITL_REJECTED", "HITL_EXPIRED"})
NO_POLICY: Mapping[str, None] = {"policy_name": None, "policy_version": None, "policy_level": None}


def build_reason_metadata(reason: RelayReason, policy: HoldingPolicy | None = None) -> Json:
    """Return a task's metadata with this reason. The policy is null if the agent had asked for input."""
    described = {} if reason not in REASONS_WITH_POLICY else policy.describe() if policy else NO_POLICY
    return {"relay_reason": reason, **described}


def build_streaming_metadata(policy_name: str | None) -> Json:
    """Return the metadata of a stream whose text is sent when all of it is inspected.

    The name is that of the policy that needs the whole stream.
    """
    return {"relay_streaming": "whole", "relay_streaming_policy": policy_name}


class TaskStatus(StrEnum):
    """Who answers for a task."""

    RUNNING = "running"
    """The relay: its call to the agent continues, and the agent has sent no id yet."""
    WITH_AGENT = "with_agent"
    """The agent."""
    HELD = "held"
    """The relay, until a person has decided about a held message of the task."""
    RESUMING = "resuming"
    """The relay, while it carries out an approval."""
    ENDED = "ended"
    """The relay, which has the final state."""


RUNNING, WITH_AGENT, HELD = TaskStatus.RUNNING, TaskStatus.WITH_AGENT, TaskStatus.HELD
RESUMING, ENDED = TaskStatus.RESUMING, TaskStatus.ENDED


class TaskEnding(Struct, frozen=True, kw_only=True):
    """How a task ended that the relay answers for: a message, a failure, a whole task or a cancellation."""

    dialect: Dialect
    message: Json | None = None
    failure: str | None = None
    task: Json | None = None
    """The whole task as the caller may see it, in `dialect` and with the caller's ids."""
    metadata: Json | None = None
    """Metadata that says why the relay canceled the task."""


class Task(Struct, frozen=True, kw_only=True):
    """One task or context, by the id that its caller uses. Only `status` says who answers for it."""

    id: str
    owner: str
    status: TaskStatus = WITH_AGENT
    upstream_id: str | None
    """The agent's id; None while the agent has not sent one."""
    caller_task_id: str | None = None
    """The id that the caller was given, if `id` is the agent's and the caller has another one."""
    context_id: str | None = None
    ending: TaskEnding | None = None
    """How the task has ended, if its status is ENDED."""
    hold_id: str | None = None
    """The hold that the task waits for, if its status is HELD or RESUMING."""
    hold_metadata: Json | None = None
    """The `relay_reason` metadata that callers see while the task is held."""
    approved: tuple[str, ...] = ()
    """Digests of texts that a person has approved in this task."""
    forwarded: tuple[str, ...] = ()
    """Digests (`digest_message`) of the messages that the relay forwarded to this task, the newest last."""
    since: datetime | None = None
    """Since when the relay answers for the task; set by `row_from_task`."""
    until: datetime | None = None
    """When the lease of the background call ends, if the status is RUNNING."""

    @property
    def is_held(self) -> bool:
        """Whether the task waits for a person, or for the relay to carry out the approval."""
        return self.status in (HELD, RESUMING)

    @property
    def has_ended(self) -> bool:
        """Whether the relay has the final state of the task."""
        return self.status is ENDED

    @property
    def is_kept_by_relay(self) -> bool:
        """Whether the relay answers for the task even if the agent knows it."""
        return self.status in (HELD, RESUMING, ENDED)

    @property
    def is_known_to_agent(self) -> bool:
        """Whether the agent has given the task an id."""
        return self.upstream_id is not None

    def with_forwarded(self, digest: str | None) -> "Task":
        """Return the task with the digest of another forwarded message; the same object if it is known."""
        if digest is None or digest in self.forwarded:
            return self
        return replace(self, forwarded=(*self.forwarded, digest)[-MAX_FORWARDED_DIGESTS:])

    def is_abandoned(self, now: datetime) -> bool:
        """Return whether the lease of the background call has ended, because its server has stopped."""
        return self.status is RUNNING and self.until is not None and now >= self.until


class TaskCommand(Struct, frozen=True, kw_only=True):
    """Something that happens to a task."""


class RenewLease(TaskCommand, frozen=True, kw_only=True):
    """The server still waits for the agent's answer."""

    until: datetime


class HandOver(TaskCommand, frozen=True, kw_only=True):
    """The agent has answered a background call and goes on with the task under its own id."""

    agent_task_id: str


class EndCall(TaskCommand, frozen=True, kw_only=True):
    """A background call has ended, and the agent has no task for it."""

    ending: TaskEnding


class HoldTask(TaskCommand, frozen=True, kw_only=True):
    """A message of the task is held."""

    new_hold_id: str
    metadata: Json
    agent_task_id: str | None = None


class HoldOutcome(TaskCommand, frozen=True, kw_only=True):
    """What became of a hold. For a task that does not wait for this hold, it changes nothing."""

    hold_id: str


class ApproveTask(HoldOutcome, frozen=True, kw_only=True):
    """A person has approved the held message."""

    digests: tuple[str, ...] = ()
    """Digests of what was approved."""


class RefuseTask(HoldOutcome, frozen=True, kw_only=True):
    """The held message was rejected, expired, or was withdrawn."""

    ending: TaskEnding


class ReleaseTask(HoldOutcome, frozen=True, kw_only=True):
    """The approved message was forwarded or released, and the agent answers for the task again."""

    agent_task_id: str


class FinishTask(HoldOutcome, frozen=True, kw_only=True):
    """The approved message was forwarded or released, and the result is final."""

    ending: TaskEnding
    agent_task_id: str | None = None


class FailTask(HoldOutcome, frozen=True, kw_only=True):
    """The decision cannot be carried out."""

    ending: TaskEnding


class TaskRefusal(Struct, frozen=True):
    """The command is refused with this error."""

    kind: ErrorKind
    message: str


WAITS = TaskRefusal("unsupported", WAITS_FOR_DECISION)
OVER = TaskRefusal("unsupported", HAS_ENDED)
NOT_APPROVED = TaskRefusal("internal", "The message was not approved, so it cannot be forwarded.")
DECIDED = TaskRefusal("internal", "A decision was made before.")
TaskRule = TaskStatus | Stay | TaskRefusal

TRANSITIONS: Mapping[tuple[TaskStatus, type[TaskCommand]], TaskRule] = {
    (RUNNING, RenewLease): RUNNING,
    (RUNNING, HandOver): WITH_AGENT,
    (RUNNING, EndCall): ENDED,
    (RUNNING, HoldTask): HELD,
    (RUNNING, ApproveTask): STAY,
    (RUNNING, RefuseTask): STAY,
    (RUNNING, ReleaseTask): STAY,
    (RUNNING, FinishTask): STAY,
    (RUNNING, FailTask): STAY,
    (WITH_AGENT, RenewLease): STAY,
    (WITH_AGENT, HandOver): STAY,
    (WITH_AGENT, EndCall): STAY,
    (WITH_AGENT, HoldTask): HELD,
    (WITH_AGENT, ApproveTask): STAY,
    (WITH_AGENT, RefuseTask): STAY,
    (WITH_AGENT, ReleaseTask): STAY,
    (WITH_AGENT, FinishTask): STAY,
    (WITH_AGENT, FailTask): STAY,
    (HELD, RenewLease): STAY,
    (HELD, HandOver): STAY,  # the answer itself is held, and the decision ends the task
    (HELD, EndCall): STAY,
    (HELD, HoldTask): WAITS,
    (HELD, ApproveTask): RESUMING,
    (HELD, RefuseTask): ENDED,
    (HELD, ReleaseTask): NOT_APPROVED,
    (HELD, FinishTask): NOT_APPROVED,
    (HELD, FailTask): ENDED,
    (RESUMING, RenewLease): STAY,
    (RESUMING, HandOver): STAY,
    (RESUMING, EndCall): STAY,
    (RESUMING, HoldTask): HELD,  # the answer to the approved message is held, too
    (RESUMING, ApproveTask): STAY,
    (RESUMING, RefuseTask): DECIDED,
    (RESUMING, ReleaseTask): WITH_AGENT,
    (RESUMING, FinishTask): ENDED,
    (RESUMING, FailTask): ENDED,
    (ENDED, RenewLease): STAY,
    (ENDED, HandOver): STAY,
    (ENDED, EndCall): STAY,
    (ENDED, HoldTask): OVER,
    (ENDED, ApproveTask): STAY,
    (ENDED, RefuseTask): STAY,
    (ENDED, ReleaseTask): STAY,
    (ENDED, FinishTask): STAY,
    (ENDED, FailTask): STAY,
}

TaskChanges = dict[str, Any]


def apply(task: Task, command: TaskCommand) -> Task:
    """Return the task after `command`, the same object if nothing changes.

    Raises A2AError if the table refuses the command.
    """
    if isinstance(command, HoldOutcome) and command.hold_id != task.hold_id:
        return task
    rule = TRANSITIONS[task.status, type(command)]
    if isinstance(rule, TaskRefusal):
        raise A2AError(rule.kind, rule.message)
    if isinstance(rule, Stay):
        return task
    return replace(task, status=rule, **_CHANGES[type(command)](task, command))


def _renew(task: Task, command: RenewLease) -> TaskChanges:
    return {"until": command.until}


def _hand_over(task: Task, command: HandOver) -> TaskChanges:
    return {"upstream_id": command.agent_task_id, "until": None, "since": None}


def _end(task: Task, command: EndCall | RefuseTask | FinishTask | FailTask) -> TaskChanges:
    ended: TaskChanges = {"ending": command.ending, "hold_id": None, "hold_metadata": None, "until": None}
    if isinstance(command, FinishTask):
        ended["upstream_id"] = command.agent_task_id or task.upstream_id
    return ended


def _hold(task: Task, command: HoldTask) -> TaskChanges:
    return {
        "hold_id": command.new_hold_id,
        "hold_metadata": command.metadata,
        "upstream_id": command.agent_task_id or task.upstream_id,
    }


def _approve(task: Task, command: ApproveTask) -> TaskChanges:
    approved = tuple(dict.fromkeys((*task.approved, *command.digests)))[-MAX_APPROVED_DIGESTS:]
    return {"approved": approved, "hold_metadata": None}


def _release(task: Task, command: ReleaseTask) -> TaskChanges:
    return {"hold_id": None, "hold_metadata": None, "upstream_id": command.agent_task_id}


_CHANGES: Mapping[type[TaskCommand], Callable[[Task, Any], TaskChanges]] = {
    RenewLease: _renew,
    HandOver: _hand_over,
    EndCall: _end,
    HoldTask: _hold,
    ApproveTask: _approve,
    RefuseTask: _end,
    ReleaseTask: _release,
    FinishTask: _end,
    FailTask: _end,
}
TASK_COMMANDS = tuple(_CHANGES)


_encode = msgspec.json.Encoder().encode
_decode_task = msgspec.json.Decoder(Task).decode


def row_from_task(tenant: str, agent: str, kind: IdKind, task: Task, at: datetime) -> TaskRow:
    """Return the row of a task or context. Raises A2AError if it cannot be stored."""
    if not can_be_stored(tenant, agent, task.id):
        raise A2AError("params", "The task id or context id is too long or not valid text.")
    if task.status is not WITH_AGENT:
        task = replace(task, since=at)
    body = _encode(task)
    if not can_be_stored(body):
        raise A2AError("too_large", "The task is too large to be stored.")
    return TaskRow(tenant=tenant, agent=agent, kind=kind, id=task.id, body=body, saved_at=at)


def task_from_row(row: TaskRow) -> Task:
    """Return the task or context of a row."""
    return decode_task(row.body)


def decode_task(body: bytes) -> Task:
    """Return the task or context of a row's body. Rows of earlier releases have no status."""
    task = _decode_task(body)
    if task.status is not WITH_AGENT:
        return task
    if task.hold_id is not None:
        is_approved = (task.hold_metadata or {}).get("relay_reason") == "TIMEOUT"
        return replace(task, status=RESUMING if is_approved else HELD)
    if task.ending is not None:
        return replace(task, status=ENDED)
    return task if task.upstream_id is not None else replace(task, status=RUNNING)
