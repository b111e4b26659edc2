"""`placet serve` and `placet demo`: run the server, or a demo."""

import errno
import logging
import socket
import tempfile
from pathlib import Path
from typing import Any

import click
from msgspec.structs import replace

from placet.bootstrap.server import ServerParts, build
from placet.cli.admin_key import write_first_admin_key
from placet.cli.client_options import read_port
from placet.cli.database import hide_password, load_settings
from placet.cli.demo_tour import DemoTour
from placet.cli.options import PORT, add_server_options
from placet.errors import SettingsError
from placet.http.listening import bind
from placet.server.logs import configure_logs
from placet.server.serving import ServedApp, run
from placet.settings import Settings, check

log = logging.getLogger("placet.serve")


@click.command()
@add_server_options
def serve(config: Path | None, **flags: Any) -> None:
    """Run the server.

    The first start on a new database writes an admin key to a file beside the database, such as
    placet.db.admin-key, that only its owner can read. The path goes to standard output, everything else to
    standard error. Settings come from options, PLACET_… environment variables, and placet.toml or --config.
    """
    settings = load_settings(config, **flags).settings
    configure_logs(style=settings.log_style, level=settings.log_level)
    if settings.tracing:
        from placet.server.tracing import start_tracing

        start_tracing(settings.service_name)
    listener = _bind(settings.host, settings.port)
    settings = replace(settings, port=listener.getsockname()[1])

    async def make_app() -> ServedApp:
        parts = await build(settings)
        await _announce_first_key(parts)
        return parts.app

    run(listener, make_app, ready=lambda: _announce(settings))
    log.info("server_stopped")


@click.command()
@click.option("--port", type=PORT, help="The port to listen on. Default: PLACET_PORT, else 8400.")
@click.option("--db", metavar="URL", help="The database; default: a new SQLite file in a temporary folder.")
def demo(port: int | None, db: str | None) -> None:
    """Start a demo server with one open case of each type."""
    path = db or str(Path(tempfile.mkdtemp(prefix="placet-demo-")) / "placet.db")
    listener = _bind_nearby(read_port() if port is None else port)
    settings = Settings(
        db=path,
        port=listener.getsockname()[1],
        service_name="Placet demo",
        allow_loopback=True,
        log_style="text",
        log_level="warning",
    )
    check(settings)
    configure_logs(style=settings.log_style, level=settings.log_level)

    tour = DemoTour()

    async def make_app() -> ServedApp:
        parts = await build(settings)
        await tour.open(parts)
        return parts.app

    run(listener, make_app, ready=tour.begin)
    click.echo(f"\nStopped. The cases are in {path}", err=True)


def _bind(host: str, port: int) -> socket.socket:
    try:
        return bind(host, port)
    except SettingsError as error:
        if getattr(error.__cause__, "errno", None) == errno.EADDRINUSE:
            error.add_note("Stop the program that uses it, or choose another port with --port.")
        raise


def _bind_nearby(port: int) -> socket.socket:
    try:
        return bind("127.0.0.1", port)
    except SettingsError as error:
        click.echo(f"placet: {error.message} The demo uses another port.", err=True)
        return bind("127.0.0.1", 0)


def _announce(settings: Settings) -> None:
    here = replace(settings, base_url=None).public_url
    db = hide_password(settings.db)
    log.info("server_started url=%s public_url=%s db=%s", here, settings.public_url, db)


async def _announce_first_key(parts: ServerParts) -> None:
    path = await write_first_admin_key(parts.store, parts.settings.db)
    if path is not None:
        log.info("admin_key_created file=%s", path)
        click.echo(path)
