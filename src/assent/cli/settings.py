"""`assent settings`: the effective settings and where each came from."""

from pathlib import Path
from typing import Any

import click
import msgspec

from assent.cli.options import json_option, loaded, print_json, server_options


@click.command()
@server_options
@json_option
def settings(config: Path | None, as_json: bool, **flags: Any) -> None:
    """Show the effective settings and where each came from.

    The flags are those of `assent serve`. What is printed is a valid assent.toml.
    """
    found = loaded(config, **flags)
    values = msgspec.to_builtins(found.settings)
    if as_json:
        print_json({name: {"value": values[name], "origin": found.origins[name]} for name in values})
        return
    width = max(map(len, values))
    shown = {name: _toml(value) for name, value in values.items()}
    column = max(map(len, shown.values()))
    for name, text in shown.items():
        click.echo(f"{name.ljust(width)} = {text.ljust(column)}  # {found.origins[name]}")


def _toml(value: object) -> str:
    if value is None:
        return '""'
    if isinstance(value, dict):
        inner = (f"{_toml(name)} = {_toml(one)}" for name, one in value.items() if one is not None)
        return f"{{{', '.join(inner)}}}"
    return msgspec.json.encode(value).decode()
