"""`assent settings`: the effective settings and where each came from."""

from pathlib import Path

import click
import msgspec

from assent.cli.options import config_option, json_option, loaded, print_json


@click.command()
@config_option
@json_option
def settings(config: Path | None, as_json: bool) -> None:
    """Show the effective settings and where each came from."""
    found = loaded(config)
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
    return msgspec.json.encode(value).decode()
