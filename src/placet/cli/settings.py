"""`placet settings`: show the effective settings and where each comes from."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
import msgspec

from placet.cli.database import load_settings
from placet.cli.options import add_server_options, json_option
from placet.cli.output import print_json

BARE = re.compile(r"[A-Za-z0-9_-]+")


@click.command()
@add_server_options
@json_option
def settings(config: Path | None, as_json: bool, **flags: Any) -> None:
    """Show the effective settings and where each comes from.

    The options are those of `placet serve`. The output is a valid placet.toml.
    """
    found = load_settings(config, **flags)
    values = msgspec.to_builtins(found.settings)
    if as_json:
        print_json({name: {"value": values[name], "origin": found.origins[name]} for name in values})
        return
    single = {name: value for name, value in values.items() if not isinstance(value, dict)}
    width = max(map(len, single))
    shown = {name: _format_value(value) for name, value in single.items()}
    column = max(map(len, shown.values()))
    for name, text in shown.items():
        click.echo(f"{name.ljust(width)} = {text.ljust(column)}  # {found.origins[name]}")
    for name, value in values.items():
        if isinstance(value, dict):
            click.echo(f"\n# {name}: {found.origins[name]}")
            _print_table(name, value)


def _print_table(name: str, table: Mapping[str, Any]) -> None:
    """Print a table of settings, then the tables inside it."""
    single = {key: one for key, one in table.items() if one is not None and not isinstance(one, dict)}
    if single:
        click.echo(f"\n[{name}]")
    for key, one in single.items():
        click.echo(f"{_format_key(key)} = {_format_value(one)}")
    for key, one in table.items():
        if isinstance(one, dict):
            _print_table(f"{name}.{_format_key(key)}", one)


def _format_key(name: str) -> str:
    return name if BARE.fullmatch(name) else _format_value(name)


def _format_value(value: object) -> str:
    return '""' if value is None else msgspec.json.encode(value).decode()
