"""The parts that hold messages, joined."""

from placet.relay.holds.courier import RelayCourier
from placet.relay.holds.guard import TaskGuard
from placet.relay.holds.holds import Holds
from placet.relay.holds.resuming import Resuming
from placet.relay.holds.settling import Settling
from placet.relay.membership.registry import Registry
from placet.relay.traffic.calls import Calls
from placet.relay.traffic.forwarding import Forwarding


class Holding:
    """Everything about held messages but the holding itself, which others do with `holds`."""

    def __init__(self, holds: Holds, *, calls: Calls, registry: Registry) -> None:
        self.holds = holds
        self.settling = Settling(
            store=holds.store, book=holds.book, own=calls.own, trail=holds.trail, now=holds.now
        )
        self.resuming = Resuming(
            settling=self.settling, forwarding=Forwarding(calls), registry=registry, book=holds.book
        )
        self.courier = RelayCourier(self.resuming)
        calls.own.guard = TaskGuard(holds, self.settling)
        holds.store.add_change_listener(calls.own.look_again)

    async def aclose(self) -> None:
        """Give up what is under way."""
        await self.courier.aclose()
