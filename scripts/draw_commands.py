"""Draws the command line: every command with its arguments, options and help, as `--help` gives them."""

import inspect
from collections.abc import Iterator

import click

from placet.cli.main import cli
from scripts.drawing import code, table


def draw() -> str:
    """One section for each command that does something."""
    return "\n\n".join(_section(path, command) for path, command in commands())


def commands(group: click.Group = cli, path: str = "placet") -> Iterator[tuple[str, click.Command]]:
    """Every command with the words that call it, in the order of their names."""
    context = click.Context(group)
    for name in sorted(group.list_commands(context)):
        command, words = group.get_command(context, name), f"{path} {name}"
        if isinstance(command, click.Group):
            yield from commands(command, words)
        elif command is not None:
            yield words, command


def options(command: click.Command) -> list[click.Option]:
    """The options of a command, without `--help`."""
    return [param for param in command.params if isinstance(param, click.Option)]


def _section(path: str, command: click.Command) -> str:
    context = click.Context(command, info_name=path)
    usage = " ".join([path, *command.collect_usage_pieces(context)])
    parts = [f"### `{path}`", inspect.cleandoc(command.help or ""), code(usage)]
    rows = [_row(option, context) for option in options(command)]
    if rows:
        parts.append(table(("Option", "Meaning"), rows))
    return "\n\n".join(parts)


def _row(option: click.Option, context: click.Context) -> tuple[str, str]:
    record = option.get_help_record(context)
    names, about = record or (", ".join(option.opts), "")
    return code(names), about
