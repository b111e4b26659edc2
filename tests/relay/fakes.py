"""Fakes of the relay's parts: tasks in memory, and an inspector that passes everything."""

from collections.abc import Iterable, Sequence
from typing import Any

from placet.ports.detector import Scannable
from placet.ports.task_store import TaskKey, TaskRow
from placet.relay.a2a.call import A2ACall
from placet.relay.a2a.reply import A2AReply
from placet.relay.a2a.text_extraction import TextPiece
from placet.relay.detectors.stream_plan import StreamPlan
from placet.relay.exchange import Exchange
from placet.relay.inspection.policy_inspector import PolicyInspector
from placet.relay.policy.evaluation import Evaluation
from placet.relay.policy.finding import Finding
from placet.relay.policy.policy import Leg
from placet.relay.policy.verdict import PASS, UNWATCHED, PolicyVerdict
from placet.relay.task import IdKind, Task, task_from_row
from placet.relay.tasks.task_repository import TaskRepository
from placet.relay.tenants import Subscription


class MemoryTaskRepository(TaskRepository):
    """Tasks in memory, without a queue."""

    def __init__(self) -> None:
        self._tasks: dict[TaskKey, Task] = {}

    async def find(self, tenant: str, agent: str, kind: IdKind, id: str) -> Task | None:
        return self._tasks.get((tenant, agent, kind, id))

    async def write(
        self, tenant: str, agent: str, kind: IdKind, task: Task, *, at_once: bool = False, call: Any = None
    ) -> None:
        self._tasks[tenant, agent, kind, task.id] = task

    async def flush(self) -> None:
        pass

    def adopt(self, rows: Iterable[TaskRow]) -> None:
        for row in rows:
            if row.kind in ("task", "context"):
                self._tasks[row.tenant, row.agent, row.kind, row.id] = task_from_row(row)


class PassthroughInspector(PolicyInspector):
    """An inspector that passes everything."""

    def __init__(self) -> None:
        """There are no policies."""

    def has_policies(self, leg: Leg, subscription: Subscription) -> bool:
        return False

    def inspect_quickly(
        self, leg: Leg, subscription: Subscription, message: A2ACall | A2AReply
    ) -> PolicyVerdict | None:
        return UNWATCHED

    async def inspect(self, leg: Leg, exchange: Exchange, message: A2ACall | A2AReply) -> PolicyVerdict:
        return PASS

    def plan_stream(self, subscription: Subscription) -> StreamPlan:
        return StreamPlan()

    async def inspect_window(
        self, subscription: Subscription, texts: Sequence[Scannable]
    ) -> Sequence[Finding] | None:
        raise AssertionError("no stream has a window")

    async def is_stream_clean(
        self, exchange: Exchange, replies: Sequence[A2AReply], pieces: Sequence[Sequence[TextPiece]]
    ) -> bool:
        raise AssertionError("no stream is withheld")

    async def observe_stream(self, exchange: Exchange, replies: Sequence[A2AReply]) -> None:
        raise AssertionError("no stream is observed")

    async def inspect_stream(
        self, leg: Leg, exchange: Exchange, replies: Sequence[A2AReply]
    ) -> PolicyVerdict:
        return PASS


class NoHeldTasks:
    """The `HeldTasks` of a relay without holds."""

    async def withdraw(self, subscription: Subscription, task: Task) -> Task:
        raise AssertionError("no task is held")

    async def list_relay_only_tasks(self, subscription: Subscription) -> Sequence[Task]:
        return []


class RefusingHolder:
    """A `MessageHolder` that holds nothing: messages are refused, and agents' questions go to the caller."""

    async def hold(
        self, leg: Leg, exchange: Exchange, message: A2ACall | A2AReply, evaluation: Evaluation
    ) -> dict[str, Any]:
        raise PolicyVerdict(evaluation=evaluation).build_refusal()

    async def hold_input_request(self, exchange: Exchange, reply: A2AReply) -> None:
        return None

    async def list_approved(self, exchange: Exchange, message: A2ACall | A2AReply) -> frozenset[str]:
        return frozenset()

    async def report_observed(
        self, exchange: Exchange, message: A2ACall | A2AReply, evaluation: Evaluation
    ) -> None:
        raise AssertionError("no stream is observed")
