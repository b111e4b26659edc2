"""`placet mcp`: an MCP server with tools for asking a person."""

import asyncio
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from contextlib import closing
from dataclasses import dataclass
from functools import partial, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from placet.agent import PendingCases
from placet.agent.pending_case_store import get_default_path
from placet.channels.registry import MESSENGER_NAMES
from placet.cli.client_options import (
    CommandFunction,
    Decorator,
    join_options,
    key_option,
    require_key,
    server_option,
)
from placet.cli.options import PORT
from placet.errors import SettingsError

if TYPE_CHECKING:
    from mcp.server import Server
    from mcp.server.mcpserver import MCPServer


@dataclass(frozen=True, kw_only=True, slots=True)
class HttpAddress:
    """Where MCP is served over HTTP; `names` are host names that clients may use."""

    host: str
    port: int
    names: tuple[str, ...]


def add_http_options(*, port: int) -> Decorator:
    """Return the options for serving MCP over HTTP; `port` is the default.

    The command gets them as `http`: an HttpAddress, or None for standard input and output.
    """
    return join_options(
        click.option(
            "--http", is_flag=True, help="Serve streamable HTTP instead of standard input and output."
        ),
        click.option(
            "--host", default="127.0.0.1", show_default=True, help="With --http: the address to listen on."
        ),
        click.option(
            "--port",
            type=PORT,
            default=port,
            show_default=True,
            help="With --http: the port to listen on; 0 for a free one.",
        ),
        click.option(
            "--name",
            "names",
            multiple=True,
            metavar="HOST",
            help="With --http: a host name that clients may use, such as mcp.example.org. Repeatable.",
        ),
        _collect_address,
    )


def _collect_address(command: CommandFunction) -> CommandFunction:
    @wraps(command)
    def run(*, http: bool, host: str, port: int, names: tuple[str, ...], **values: Any) -> None:
        command(http=HttpAddress(host=host, port=port, names=names) if http else None, **values)

    return run


@click.command()
@server_option
@key_option
@click.option(
    "--trust",
    "trusted",
    multiple=True,
    metavar="ORIGIN",
    help="Another trusted origin of the server. Repeatable.",
)
@click.option(
    "--pending",
    "path",
    type=click.Path(path_type=Path, dir_okay=False),
    help="File of pending cases. Default: one for all agents of this user.",
)
@click.option(
    "--via",
    "vias",
    multiple=True,
    type=click.Choice(MESSENGER_NAMES),
    help="Ask the person in this messenger, so that the assistant never gets the link. Repeatable.",
)
@add_http_options(port=8402)
def mcp(
    server: str,
    key: str | None,
    trusted: tuple[str, ...],
    path: Path | None,
    vias: tuple[str, ...],
    http: HttpAddress | None,
) -> None:
    """Run an MCP server with tools for asking a person.

    Over HTTP, set PLACET_MCP_TOKEN to accept only clients that send it as a bearer token.
    """
    from placet.mcp import server as run

    key = require_key(key)

    async def main() -> None:
        with closing(_open_case_file(path or get_default_path())) as cases:
            messengers = run.open_messengers(vias, os.environ, cases)
            async with run.Questions(
                server=server, key=key, cases=cases, trusted=trusted, messengers=messengers
            ) as questions:
                built = run.build_server(questions, key=key)
                await serve(built, http, built.run_stdio_async)

    asyncio.run(main())


async def serve(
    built: "MCPServer[Any] | Server[Any]", http: HttpAddress | None, run_stdio: Callable[[], Awaitable[None]]
) -> None:
    """Serve MCP at this address, or on standard input and output with `run_stdio`."""
    if http is not None:
        await _serve_http(built, http)
        return
    # A thread blocks on standard input and cannot be cancelled, so an interrupt ends the process at once.
    # What waits for a decision is already saved.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    if sys.stdin.isatty():
        click.echo(
            "This is an MCP server for the assistant that starts it. Ctrl-C stops it. See --help.", err=True
        )
    await run_stdio()


async def _serve_http(built: "MCPServer[Any] | Server[Any]", address: HttpAddress) -> None:
    """Serve MCP over streamable HTTP until a signal; print the URL to standard error."""
    from placet.http.listening import bind
    from placet.mcp import http_transport

    token = os.environ.get(http_transport.TOKEN_VARIABLE) or None
    app = http_transport.build_http_app(built, host=address.host, names=address.names, token=token)
    with closing(bind(address.host, address.port)) as listener:
        shown = f"[{address.host}]" if ":" in address.host else address.host
        url = f"http://{shown}:{listener.getsockname()[1]}{http_transport.MCP_ROUTE.path}"
        guard = (
            "" if token else f" Any program on this machine may use it; set {http_transport.TOKEN_VARIABLE}."
        )
        ready = partial(click.echo, f"MCP is running at {url} .{guard}", err=True)
        await http_transport.serve_http(app, listener, ready)


def _open_case_file(path: Path) -> PendingCases:
    try:
        return PendingCases(path)
    except OSError as error:
        raise SettingsError(f"The file of pending cases, {path}, cannot be opened: {error}.") from error
