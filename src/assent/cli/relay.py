"""`assent relay`: agents behind the relay, who may call them, and who may see and decide what."""

import click

from assent.cli.relay_agents import agent
from assent.cli.relay_members import caller, group


@click.group()
def relay() -> None:
    """The relay's registry, on the machine that keeps it; a running server follows within a second."""


relay.add_command(agent)
relay.add_command(caller)
relay.add_command(group)
