"""`placet relay`: agents behind the relay, who may call them and decide what, and what waits for a person."""

import click

from placet.cli.command_group import CommandGroup
from placet.cli.relay_agents import agent
from placet.cli.relay_approvals import approval
from placet.cli.relay_members import caller, group


@click.group(cls=CommandGroup)
def relay() -> None:
    """The relay: its registry, on a server or in its database file, and what it holds for a person.

    A running server follows a change of the registry within a second.
    """


relay.add_command(agent)
relay.add_command(caller)
relay.add_command(group)
relay.add_command(approval)
