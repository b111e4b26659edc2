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
from placet.errors import MissingExtra, PlacetError

# Command -> its module and its line in the overview. A module is imported when its command is called.
COMMANDS: Mapping[str, tuple[str, str]] = {
    "demo": ("placet.cli.serve", "Try it: a server with one open question of each type."),
    "request": ("placet.cli.request", "Call a service; where it needs a person, wait for the decision."),
    "wait": ("placet.cli.wait", "Wait for the decision of a case, by its poll address."),
    "ask": ("placet.cli.ask", "Ask a person: approval, selection, input, confirmation, escalation."),
    "pending": ("placet.cli.pending_cases", "Cases that were left waiting: list, resume, forget."),
    "mcp": ("placet.cli.mcp", "Serve assistants over MCP: tools to ask a person."),
    "mcp-gate": ("placet.cli.mcp_gate", "Put a person before the tools of any MCP server."),
    "serve": ("placet.cli.serve", "Run the server."),
    "settings": ("placet.cli.settings", "Show the effective settings and where each came from."),
    "key": ("placet.cli.keys", "API keys: create, list, revoke."),
    "case": ("placet.cli.cases", "Cases: show one with its events, and check its chain."),
    "grant": ("placet.cli.grants", "Grants: what people allowed in advance: list, show, revoke."),
    "relay": ("placet.cli.relay", "The relay: agents, callers, groups with permissions, approvals."),
    "policy": ("placet.cli.policies", "Policies of the relay: write, bind, try and replay them."),
    "audit": ("placet.cli.audit", "The relay's audit: list it, follow a call, export it."),
    "deliveries": ("placet.cli.deliveries", "Callbacks: what was sent where, and how it went."),
    "migrate": ("placet.cli.migrate", "Bring the database's schema up to date."),
    "signing": ("placet.cli.signing", "The keys that sign results: list, rotate."),
    "verify": ("placet.cli.signing", "Check the signature of a completed case's poll response."),
    "skill": ("placet.cli.skill", "Print a SKILL.md: of a service, or for agents that run commands."),
}

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)


class LazyGroup(click.Group):
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

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command of these arguments. The error for an unknown one suggests similar names."""
        try:
            return super().resolve_command(ctx, args)
        except click.NoSuchCommand as error:
            raise click.NoSuchCommand(error.command_name, possibilities=COMMANDS, ctx=ctx) from None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the overview from the table, without importing the commands."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, about) for name, (_, about) in COMMANDS.items()])


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, message="%(prog)s %(version)s")
def cli() -> None:
    """Placet: where autonomous agents get human decisions.

    Begin with `placet demo`; run your own with `placet serve`.
    """


def main() -> None:
    """Run a command: an error is one sentence on standard error and exit code 1.

    A wrong call and a missing extra have exit code 2.
    """
    _mend_streams()
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


def _mend_streams() -> None:
    """Replace closed streams by the null device, and escape characters that the terminal lacks."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if (
            getattr(sys, name) is None
        ):  # in this order each takes its own place again, and no file or socket can
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115 - for good
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
