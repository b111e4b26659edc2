"""`placet serve` and `placet demo`: run the server, or try it."""

import errno
import logging
import socket
import tempfile
from pathlib import Path
from typing import Any

import click
from msgspec.structs import replace

from placet.bootstrap.server import ServerParts, build
from placet.cli.demo_tour import DemoTour
from placet.cli.options import PORT, load_settings, server_options
from placet.desk import clock
from placet.desk.api_keys import create_key
from placet.errors import SettingsError
from placet.server.logs import configure_logs
from placet.server.serving import ServedApp, bind, run
from placet.settings import Settings, check

log = logging.getLogger("placet.serve")


@click.command()
@server_options
def serve(config: Path | None, **flags: Any) -> None:
    """Run the server.

    The first start on a new database prints an admin key, once and alone on standard output; all else goes
    to standard error. Settings come from flags, PLACET_… in the environment, and placet.toml or --config.
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
        await _print_first_key(parts)
        return parts.app

    run(listener, make_app, ready=lambda: _announce(settings))
    log.info("stopped")


@click.command()
@click.option("--port", type=PORT, default=8400, show_default=True, help="The port to listen on.")
@click.option("--db", metavar="URL", help="The database; default: a new SQLite file in a temporary folder.")
def demo(port: int, db: str | None) -> None:
    """Try it: a server with one open question of each type."""
    path = db or str(Path(tempfile.mkdtemp(prefix="placet-demo-")) / "placet.db")
    listener = _bind_nearby(port)
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
            error.add_note("Stop what runs there, or name another port with --port.")
        raise


def _bind_nearby(port: int) -> socket.socket:
    try:
        return bind("127.0.0.1", port)
    except SettingsError as error:
        click.echo(f"placet: {error.message} The demo takes another port.", err=True)
        return bind("127.0.0.1", 0)


def _announce(settings: Settings) -> None:
    here = replace(settings, base_url=None).public_url
    public = f" as {settings.public_url}" if settings.public_url != here else ""
    log.info("serving %s%s from %s", here, public, settings.db)


async def _print_first_key(parts: ServerParts) -> None:
    if await parts.store.list_api_keys():
        return
    key = await create_key(parts.store, "admin", scopes=("admin",), now=clock.now())
    log.info("the admin key is on standard output; it is shown once and only its digest is kept")
    click.echo(key)
