"""The group that the commands of one noun belong to; light, as every command imports it."""

import click

WHOLE = 1000  # characters: more than any sentence has


class CommandGroup(click.Group):
    """A group whose overview has the whole first sentence of each command, not just what fits into a line."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The overview."""
        commands = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        with formatter.section("Commands"):
            formatter.write_dl([(name, one.get_short_help_str(limit=WHOLE)) for name, one in commands if one])
