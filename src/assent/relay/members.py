"""Everyone the relay knows, kept up to date: what the settings say, and what the store has beside it."""

from assent.ports.identity import Principal
from assent.relay.registry import Agent, Subscription
from assent.relay.roster import Roster
from assent.relay.tenancy import Membership


class Members:
    """A `Registry` and a `Tenancy`."""

    def __init__(self, settled: Roster) -> None:
        self._roster = settled

    async def current(self) -> Roster:
        """Everyone there is now."""
        return self._roster

    async def membership(self, principal: Principal, tenant: str | None = None) -> Membership:
        """See `Tenancy`."""
        return (await self.current()).membership(principal, tenant)

    async def subscription(self, caller: str, agent: str) -> Subscription:
        """See `Registry`."""
        return (await self.current()).subscription(caller, agent)

    async def agent(self, agent: str) -> Agent:
        """See `Registry`."""
        return (await self.current()).agent(agent)
