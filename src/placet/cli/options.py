"""Options that several commands share."""

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import click

from placet.desk import clock
from placet.errors import ValidationFailed
from placet.protocol.duration import parse_duration

config_option = click.option(
    "--config", type=click.Path(path_type=Path, dir_okay=False), help="A TOML file with settings."
)
db_option = click.option("--db", metavar="URL", help="The database: sqlite:///FILE or a path.")
limit_option = click.option(
    "--limit",
    type=click.IntRange(1, 10_000),
    default=50,
    show_default=True,
    help="Maximum number of rows to list.",
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
PORT = click.IntRange(0, 65535)


def add_server_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options of a server. Each option overrides the setting of the same name."""
    options = (
        db_option,
        config_option,
        click.option("--host", help="The address to listen on; default 127.0.0.1."),
        click.option("--port", type=PORT, help="The port to listen on; default 8400, 0 for a free one."),
        click.option("--base-url", metavar="URL", help="The public https:// address of this server."),
        click.option(
            "--log-style", type=click.Choice(["auto", "json", "text"]), help="Format of the log lines."
        ),
        click.option("--log-requests/--no-log-requests", default=None, help="Log each request."),
    )
    for option in reversed(options):
        command = option(command)
    return command


def parse_time(option: str, text: str) -> datetime:
    """Return the time that an option names, by a timestamp or a duration before now; refuse other texts."""
    try:
        return clock.now() - parse_duration(text)
    except ValidationFailed:
        pass
    try:
        return datetime.fromisoformat(text).astimezone(UTC)
    except (ValueError, OverflowError):
        raise click.UsageError(
            f"{option}: use a timestamp such as 2026-11-15T12:00:00Z, or a duration such as 2h or 7d."
        ) from None
