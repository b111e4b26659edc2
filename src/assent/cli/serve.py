"""`assent serve` and `assent demo`: the server, for good or to try it."""

import socket
import tempfile
from pathlib import Path

import click
from msgspec.structs import replace

from assent.bootstrap import Parts, build
from assent.cli.demo_tour import DemoTour
from assent.cli.options import config_option, db_option, loaded
from assent.desk import clock
from assent.desk.api_keys import create_key
from assent.errors import SettingsError
from assent.server.logs import configure_logs
from assent.server.serving import ServedApp, bind, run
from assent.settings import Settings, check


@click.command()
@db_option
@config_option
@click.option("--host", help="The address to listen on; default 127.0.0.1.")
@click.option("--port", type=int, help="The port to listen on; default 8400, 0 for a free one.")
@click.option("--base-url", help="The public https:// address of this server.")
@click.option("--log-style", type=click.Choice(["json", "text"]), help="How log lines look.")
@click.option("--log-requests/--no-log-requests", default=None, help="Log each request.")
def serve(
    db: str | None,
    config: Path | None,
    host: str | None,
    port: int | None,
    base_url: str | None,
    log_style: str | None,
    log_requests: bool | None,
) -> None:
    """Run the server."""
    settings = loaded(
        config, db=db, host=host, port=port, base_url=base_url, log_style=log_style, log_requests=log_requests
    ).settings
    configure_logs(style=settings.log_style, level=settings.log_level)
    listener = bind(settings.host, settings.port)
    settings = replace(settings, port=listener.getsockname()[1])

    async def make_app() -> ServedApp:
        parts = await build(settings)
        await _print_first_key(parts)
        click.echo(f"Assent is serving {settings.public_url} from {settings.db}", err=True)
        return parts.app

    run(listener, make_app)


@click.command()
@click.option("--port", type=int, default=8400, show_default=True, help="The port to listen on.")
@click.option("--db", metavar="FILE", help="The SQLite file; default: a new one in a temporary folder.")
def demo(port: int, db: str | None) -> None:
    """Try it: a server with one open question of each type."""
    path = db or str(Path(tempfile.mkdtemp(prefix="assent-demo-")) / "assent.db")
    listener = _bind_nearby(port)
    settings = Settings(
        db=path,
        port=listener.getsockname()[1],
        service_name="Assent demo",
        allow_loopback=True,
        log_style="text",
        log_level="warning",
    )
    check(settings)
    configure_logs(style=settings.log_style, level=settings.log_level)

    async def make_app() -> ServedApp:
        parts = await build(settings)
        await DemoTour(parts, parts.add_demo()).begin()
        return parts.app

    run(listener, make_app)
    click.echo(f"\nStopped. The cases are in {path}", err=True)


def _bind_nearby(port: int) -> socket.socket:
    try:
        return bind("127.0.0.1", port)
    except SettingsError:
        return bind("127.0.0.1", 0)


async def _print_first_key(parts: Parts) -> None:
    if await parts.store.api_keys():
        return
    key = await create_key(parts.store, "admin", scopes=("admin",), now=clock.now())
    click.echo("This is your admin key. It is shown once and only its digest is kept:", err=True)
    click.echo(key)
