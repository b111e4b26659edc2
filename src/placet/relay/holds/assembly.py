"""Build and connect the parts that handle held messages."""

from placet.relay.holds.courier import RelayCourier
from placet.relay.holds.hold_service import HoldService
from placet.relay.holds.resolution import HoldResolver
from placet.relay.holds.resumption import HoldResumer
from placet.relay.holds.task_guard import TaskGuard
from placet.relay.registry.subscriptions import Registry
from placet.relay.traffic.call_handler import CallHandler
from placet.relay.traffic.forwarding import HeldMessageForwarder


class HoldSubsystem:
    """The parts that resolve and resume holds; `holds` creates them."""

    def __init__(self, holds: HoldService, *, calls: CallHandler, registry: Registry) -> None:
        self.holds = holds
        self.settling = HoldResolver(
            store=holds.store, book=holds.book, own=calls.own, trail=holds.trail, now=holds.now
        )
        self.resuming = HoldResumer(
            settling=self.settling, forwarding=HeldMessageForwarder(calls), registry=registry, book=holds.book
        )
        self.courier = RelayCourier(self.resuming)
        calls.own.guard = TaskGuard(holds, self.settling)
        holds.store.add_change_listener(calls.own.wake_all)

    async def aclose(self) -> None:
        """Give up what is under way."""
        await self.courier.aclose()
