"""Build and connect the parts that handle held messages."""

from placet.relay.holds.courier import RelayCourier
from placet.relay.holds.hold_service import HoldService
from placet.relay.holds.resolution import HoldResolver
from placet.relay.holds.resumption import HoldResumer, NotifyCaller
from placet.relay.holds.task_guard import TaskGuard
from placet.relay.registry.subscriptions import Registry
from placet.relay.traffic.call_handler import CallHandler
from placet.relay.traffic.forwarding import HeldMessageForwarder


class HoldSubsystem:
    """The parts that resolve and resume holds. `holds` creates the holds."""

    def __init__(
        self, holds: HoldService, *, calls: CallHandler, registry: Registry, notify_caller: NotifyCaller
    ) -> None:
        self.holds = holds
        self.resolver = HoldResolver(
            store=holds.store,
            tasks=holds.tasks,
            relay_tasks=calls.relay_tasks,
            audit_log=holds.audit_log,
            now=holds.now,
        )
        self.resumer = HoldResumer(
            resolver=self.resolver,
            forwarding=HeldMessageForwarder(calls),
            registry=registry,
            tasks=holds.tasks,
            notify_caller=notify_caller,
        )
        self.courier = RelayCourier(self.resumer)
        calls.relay_tasks.guard = TaskGuard(holds, self.resolver)
        holds.store.add_change_listener(calls.relay_tasks.wake_all)

    async def aclose(self) -> None:
        """Cancel the resumes in progress. The outbox retries them later."""
        await self.courier.aclose()
