"""The parts that hold messages, joined."""

from assent.relay.holds.courier import RelayCourier
from assent.relay.holds.guard import TaskGuard
from assent.relay.holds.holds import Holds
from assent.relay.holds.resuming import Resuming
from assent.relay.holds.settling import Settling
from assent.relay.membership.registry import Registry
from assent.relay.traffic.calls import Calls
from assent.relay.traffic.forwarding import Forwarding


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
        holds.store.on_change(calls.own.look_again)

    async def aclose(self) -> None:
        """Give up what is under way."""
        await self.courier.aclose()
