"""`placet mcp`: the tools with which an assistant asks a person."""

import asyncio
import os
import signal
import sys
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from placet.agent import PendingCases
from placet.agent.pending import default_path
from placet.channels.registry import CHANNEL_NAMES
from placet.cli.options import PORT
from placet.cli.request import DEFAULT_SERVER
from placet.errors import SettingsError

if TYPE_CHECKING:
    from mcp.server import Server
    from mcp.server.mcpserver import MCPServer


@click.command()
@click.option(
    "--server",
    envvar="PLACET_SERVER",
    default=DEFAULT_SERVER,
    show_default=True,
    metavar="URL",
    help="The Placet server.",
)
@click.option(
    "--key", envvar="PLACET_KEY", metavar="API_KEY", help="A key of that server; better in PLACET_KEY."
)
@click.option(
    "--trust", "trusted", multiple=True, metavar="ORIGIN", help="A further origin of the server; repeatable."
)
@click.option(
    "--pending",
    "path",
    type=click.Path(path_type=Path, dir_okay=False),
    help="The file that keeps open questions; default: the one of all agents of this user.",
)
@click.option(
    "--via",
    "vias",
    multiple=True,
    type=click.Choice([name for name in CHANNEL_NAMES if name != "terminal"]),
    help="Ask the person in this messenger, so that the assistant never has the link; repeatable.",
)
@click.option("--http", is_flag=True, help="Serve streamable HTTP instead of standard input and output.")
@click.option("--host", default="127.0.0.1", show_default=True, help="With --http: the address to listen on.")
@click.option(
    "--port", type=PORT, default=8402, show_default=True, help="With --http: the port, 0 for a free one."
)
@click.option(
    "--name",
    "names",
    multiple=True,
    metavar="HOST",
    help="With --http: a name that clients may call it by, such as mcp.example.org; repeatable.",
)
def mcp(
    server: str,
    key: str | None,
    trusted: tuple[str, ...],
    path: Path | None,
    vias: tuple[str, ...],
    http: bool,
    host: str,
    port: int,
    names: tuple[str, ...],
) -> None:
    """Serve assistants over MCP: tools to ask a person, and to follow their questions.

    Over HTTP, set PLACET_MCP_TOKEN to let in only clients that present it as a bearer token.
    """
    if not key:
        raise SettingsError(
            "Name a key of the server in PLACET_KEY or with --key; `placet key create` makes one."
        )
    from placet.mcp import server as run

    async def main() -> None:
        with closing(_open_case_file(path or default_path())) as cases:
            told = run.open_messengers(vias, os.environ, cases)
            asking = run.Questions(server=server, key=key, cases=cases, trusted=trusted, messengers=told)
            async with asking as questions:
                built = run.build_server(questions, key=key)
                if http:
                    await serve_http(built, host, port, names)
                else:
                    # A thread reads standard input, and nothing but its end would end the thread: an
                    # interrupt ends the process, as being killed does. No question is lost by either.
                    signal.signal(signal.SIGINT, signal.SIG_DFL)
                    warn_if_interactive()
                    await built.run_stdio_async()

    asyncio.run(main())


async def serve_http(
    built: "MCPServer[Any] | Server[Any]", host: str, port: int, names: tuple[str, ...]
) -> None:
    """Serve MCP over streamable HTTP until a signal; print the URL to standard error."""
    from placet.mcp import http_transport
    from placet.server.serving import bind

    token = os.environ.get(http_transport.TOKEN_VARIABLE) or None
    app = http_transport.build_http_app(built, host=host, names=names, token=token)
    with closing(bind(host, port)) as listener:
        shown = f"[{host}]" if ":" in host else host
        url = f"http://{shown}:{listener.getsockname()[1]}{http_transport.PATH}"
        guard = (
            "" if token else f" Any program on this machine may use it; set {http_transport.TOKEN_VARIABLE}."
        )
        ready = partial(click.echo, f"MCP is running at {url} .{guard}", err=True)
        await http_transport.serve_http(app, listener, ready)


def warn_if_interactive() -> None:
    """Explain to a person who started this by hand what it is waiting for."""
    if sys.stdin.isatty():
        click.echo("This speaks MCP with the assistant that starts it; Ctrl-C ends it. See --help.", err=True)


def _open_case_file(path: Path) -> PendingCases:
    try:
        return PendingCases(path)
    except OSError as error:
        raise SettingsError(f"Open questions cannot be kept in {path}: {error}.") from error
