"""Options and output that several commands share, and access to the settings and the store."""

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

import click
import msgspec

from placet.cli.text_tables import format_aligned, format_stacked, terminal_width
from placet.errors import SettingsError
from placet.ports.store import Store
from placet.settings import Loaded, load
from placet.text.characters import escape_hidden_in_json
from placet.text.truncation import to_single_line
from placet.text.width import display_width

T = TypeVar("T")

config_option = click.option(
    "--config", type=click.Path(path_type=Path, dir_okay=False), help="A TOML file with settings."
)
db_option = click.option("--db", metavar="URL", help="The database: sqlite:///FILE or a path.")
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
PORT = click.IntRange(0, 65535)


def server_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options of a server. Each option overrides the setting of the same name."""
    options = (
        db_option,
        config_option,
        click.option("--host", help="The address to listen on; default 127.0.0.1."),
        click.option("--port", type=PORT, help="The port to listen on; default 8400, 0 for a free one."),
        click.option("--base-url", metavar="URL", help="The public https:// address of this server."),
        click.option("--log-style", type=click.Choice(["auto", "json", "text"]), help="How log lines look."),
        click.option("--log-requests/--no-log-requests", default=None, help="Log each request."),
    )
    for option in reversed(options):
        command = option(command)
    return command


def load_settings(config: Path | None = None, **flags: Any) -> Loaded:
    """Return the effective settings: options first, then the environment, then the configuration file."""
    return load(environ=os.environ, flags=flags, file=config)


def with_store(db: str, work: Callable[[Store], Awaitable[T]], *, create: bool = False) -> T:
    """Run `work` on the store at this URL or path; without `create` the database must exist."""
    from placet.bootstrap.storage import open_store  # it needs the `server` extra

    if not create and not has_database(db):
        raise SettingsError(f"There is no database {db}; name one with --db URL or start `placet serve`.")

    async def run() -> T:
        store = await open_store(db)
        try:
            return await work(store)
        finally:
            await store.aclose()

    return asyncio.run(run())


def has_database(db: str) -> bool:
    """Return whether there is a database at this URL or path."""
    from placet.bootstrap.storage import database_exists  # it needs the `server` extra

    return database_exists(db)


def print_json(value: Any) -> None:
    """Print one JSON document on standard output."""
    click.echo(escape_hidden_in_json(msgspec.json.format(msgspec.json.encode(value), indent=2).decode()))


def print_table(header: Sequence[str], rows: Sequence[Sequence[object]], *, empty: str) -> None:
    """Print rows under a header, one field per line in a narrow terminal, or `empty` without rows."""
    if not rows:
        click.echo(empty, err=True)
        return
    texts = [[_cell(value) for value in row] for row in rows]
    lines = format_aligned(header, texts)
    columns = terminal_width(sys.stdout) if sys.stdout.isatty() else None
    if columns is not None and max(map(display_width, lines)) > columns:
        lines = format_stacked(header, texts, columns)
    for line in lines:
        click.echo(line)


def _cell(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, datetime):
        return value.astimezone().strftime("%Y-%m-%d %H:%M")
    return to_single_line(str(value))
