"""`placet gate`: the group of its commands. A command is imported when it is called."""

from collections.abc import Mapping
from importlib import import_module

import click

from placet.cli.command_group import CommandGroup

COMMANDS: Mapping[str, str] = {
    "install": "placet.cli.gate_install",
    "uninstall": "placet.cli.gate_install",
    "doctor": "placet.cli.gate_doctor",
    "check": "placet.cli.gate_check",
    "suggest": "placet.cli.gate_suggest",
    "permission-tool": "placet.cli.gate_permission_tool",
    "serve": "placet.cli.gate_serve",
    "run": "placet.cli.gate_run",
}
"""Command -> the module that defines it under its name."""


class GateGroup(CommandGroup):
    """A group that imports a command only when it is needed."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names, in the order of the table."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the command with this name, or None."""
        if cmd_name not in COMMANDS:
            return None
        command = getattr(import_module(COMMANDS[cmd_name]), cmd_name.replace("-", "_"))
        return command if isinstance(command, click.Command) else None


@click.group(cls=GateGroup)
def gate() -> None:
    """Require approval for the actions of a coding agent.

    AGENT is claude-code, codex, opencode, cursor, antigravity or gemini-cli. For any other agent that speaks
    the Agent Client Protocol, use `placet acp`.
    """
