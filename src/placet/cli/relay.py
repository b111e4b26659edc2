"""`placet relay`: manage the relay's agents, callers and groups, and decide held messages."""

import click

from placet.cli.command_group import CommandGroup
from placet.cli.relay_agents import agent
from placet.cli.relay_approvals import approval
from placet.cli.relay_members import caller, group


@click.group(cls=CommandGroup)
def relay() -> None:
    """Manage the relay: agents, callers, groups and approvals.

    The registry is changed on a server or in its database. A running server follows within a second.
    """


relay.add_command(agent)
relay.add_command(caller)
relay.add_command(group)
relay.add_command(approval)
