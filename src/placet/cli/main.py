"""The root of the command line, and the output of its errors."""

import errno
import io
import os
import sys
from collections.abc import Mapping
from importlib import import_module
from typing import Any

import click

from placet import __version__
from placet.cli.command_group import CommandGroup
from placet.cli.environment import refuse_unknown_variables
from placet.errors import MissingExtra, PlacetError

# Command -> its module and its line in the overview. A module is imported when its command is called.
COMMANDS: Mapping[str, tuple[str, str]] = {
    "demo": ("placet.cli.serve", "Start a demo server with one open case of each type."),
    "request": ("placet.cli.request", "Send an HTTP request, and wait for the decision if it needs one."),
    "wait": ("placet.cli.wait", "Wait for the decision of a case, by its poll URL."),
    "ask": ("placet.cli.ask", "Ask a person for an approval, a selection, input and more."),
    "pending": ("placet.cli.pending_cases", "List, resume and forget cases whose command stopped waiting."),
    "mcp": ("placet.cli.mcp", "Run an MCP server with tools for asking a person."),
    "acp": ("placet.cli.acp", "Require approval for the actions of any agent that speaks ACP."),
    "mcp-gate": ("placet.cli.mcp_gate", "Require approval for the tool calls of any MCP server."),
    "gate": ("placet.cli.gate", "Require approval for the actions of a coding agent, such as Claude Code."),
    "serve": ("placet.cli.serve", "Run the server."),
    "settings": ("placet.cli.settings", "Show the effective settings and where each comes from."),
    "key": ("placet.cli.keys", "Create, list and revoke API keys."),
    "passkey": ("placet.cli.passkeys", "Invite people to register passkeys, list and remove passkeys."),
    "case": ("placet.cli.cases", "List, show and withdraw cases."),
    "grant": ("placet.cli.grants", "List, show and revoke grants."),
    "relay": ("placet.cli.relay", "Manage the relay: agents, callers, groups and approvals."),
    "policy": ("placet.cli.policies", "Save, bind, test and replay policies of the relay."),
    "audit": ("placet.cli.audit", "List, trace and export the relay's audit log."),
    "deliveries": ("placet.cli.deliveries", "List deliveries, and send one again."),
    "backup": ("placet.cli.backup", "Copy the database to a file that only its owner can read."),
    "db": ("placet.cli.databases", "Copy a SQLite file into a PostgreSQL database."),
    "migrate": ("placet.cli.migrate", "Update the schema of the database."),
    "signing": ("placet.cli.signing", "List, rotate and revoke the keys that sign results."),
    "verify": ("placet.cli.verification", "Verify a signed result, or the whole log of a database."),
    "convert": ("placet.cli.conversion", "Convert reviews to and from A2A, ADL and WDL."),
    "skill": ("placet.cli.skill", "Print a SKILL.md for a service, or for agents that run commands."),
}

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)


class LazyGroup(CommandGroup):
    """A group that imports a command only when it is called, so that every command starts quickly."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names, in the order of the table."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the command with this name, or None."""
        if cmd_name not in COMMANDS:
            return None
        try:
            command = getattr(import_module(COMMANDS[cmd_name][0]), cmd_name.replace("-", "_"))
        except MissingExtra as error:
            raise MissingExtra.of(f"placet {cmd_name}", error.extra) from error
        return command if isinstance(command, click.Command) else None

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command. If it needs an extra, the error names the command."""
        try:
            return super().invoke(ctx)
        except MissingExtra as error:
            if ctx.invoked_subcommand is None:
                raise
            raise MissingExtra.of(f"placet {ctx.invoked_subcommand}", error.extra) from error

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the overview from the table, without importing the commands."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, about) for name, (_, about) in COMMANDS.items()])


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, message="%(prog)s %(version)s")
def cli() -> None:
    """Placet: human decisions for autonomous agents.

    Try it with `placet demo`. Run your own server with `placet serve`.
    """
    refuse_unknown_variables(os.environ)


def main() -> None:
    """Run a command. An error is printed as one sentence to standard error, with exit code 1.

    Usage errors and missing extras have exit code 2.
    """
    _repair_streams()
    try:
        code = cli.main(prog_name="placet", standalone_mode=False)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        sys.exit(130)
    except MissingExtra as error:
        click.echo(error.message, err=True)
        sys.exit(2)
    except PlacetError as error:
        from placet.text.characters import mark_hidden

        for line in (f"placet: {error.message}", *getattr(error, "__notes__", ())):
            click.echo(mark_hidden(line), err=True)  # the message may quote a service
        sys.exit(1)
    except OSError as error:
        if error.errno not in FULL or error.filename is not None:
            raise
        from placet.cli.text_tables import discard_output

        discard_output()
        click.echo(f"placet: The output cannot be written: {error.strerror}.", err=True)
        sys.exit(1)
    else:
        sys.exit(code if isinstance(code, int) else 0)  # the exit code of the command


def _repair_streams() -> None:
    """Replace closed streams by the null device, and escape characters that the terminal lacks."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if (
            getattr(sys, name) is None
        ):  # in this order, each stream gets its own file descriptor, before any file or socket
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115 - stays open
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
