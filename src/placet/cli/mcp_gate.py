"""`placet mcp-gate`: an MCP proxy that requires approval for the tools of another MCP server."""

import asyncio
import json
import os
import signal
import tomllib
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, closing, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from placet.agent.pending import default_path
from placet.cli.mcp import serve_http, warn_if_interactive
from placet.cli.options import PORT
from placet.cli.request import DEFAULT_SERVER
from placet.errors import SettingsError, Unavailable
from placet.extras import require_extra
from placet.protocol.addresses import is_secure_or_loopback
from placet.protocol.duration import parse_duration

if TYPE_CHECKING:
    from mcp.server import Server

    from placet.hook.frameworks.mcp import ApprovalProxy
    from placet.hook.frameworks.mcp.upstream import McpUpstream

TOKEN_VARIABLE = "PLACET_UPSTREAM_TOKEN"  # noqa: S105 - a name, not a secret
_MEMBERS = frozenset({"command", "url", "agent", "wait", "tools", "others", "trust_annotations"})


@dataclass(frozen=True, kw_only=True, slots=True)
class Behind:
    """The upstream MCP server: a command to start, or a URL."""

    command: tuple[str, ...] = ()
    url: str | None = None

    @property
    def scope(self) -> str:
        """Return the identity of this server. An approval for one server does not count for another."""
        return self.url or json.dumps([*self.command, str(Path.cwd())])


@click.command("mcp-gate", context_settings={"allow_interspersed_args": False})
@click.argument("command", nargs=-1, type=click.UNPROCESSED, metavar="[--] [COMMAND [ARGS]...]")
@click.option(
    "--config", type=click.Path(path_type=Path, dir_okay=False), help="A TOML file that says what waits."
)
@click.option("--url", metavar="URL", help="The server behind the gate, where it is not a command.")
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
@click.option("--agent", metavar="NAME", help="Whom people read as asking; default: the client's own name.")
@click.option("--wait", metavar="DURATION", help="How long a call waits for its person; default 20s.")
@click.option(
    "--db",
    "path",
    type=click.Path(path_type=Path, dir_okay=False),
    help="The file that keeps calls that wait; default: one for all gates of this user.",
)
@click.option("--http", is_flag=True, help="Serve streamable HTTP instead of standard input and output.")
@click.option("--host", default="127.0.0.1", show_default=True, help="With --http: the address to listen on.")
@click.option(
    "--port", type=PORT, default=8403, show_default=True, help="With --http: the port, 0 for a free one."
)
@click.option(
    "--name",
    "names",
    multiple=True,
    metavar="HOST",
    help="With --http: a name that clients may call it by, such as mcp.example.org; repeatable.",
)
def mcp_gate(
    command: tuple[str, ...],
    config: Path | None,
    url: str | None,
    server: str,
    key: str | None,
    agent: str | None,
    wait: str | None,
    path: Path | None,
    http: bool,
    host: str,
    port: int,
    names: tuple[str, ...],
) -> None:
    """Put a person before the tools of any MCP server.

    COMMAND starts that server; everything it offers is handed on. Calls of tools that it does not call
    read-only wait for a person, unless the file says otherwise.

    Over HTTP, set PLACET_MCP_TOKEN to let in only clients that present it as a bearer token. For a server
    behind the gate that wants one, set PLACET_UPSTREAM_TOKEN.
    """
    if not key:
        raise SettingsError(
            "Name a key of the server in PLACET_KEY or with --key; `placet key create` makes one."
        )
    settings = _read(config)
    behind = _behind(command, url, settings)
    named = agent or settings.get("agent")
    patience = parse_duration(wait or settings.get("wait", "20s")).total_seconds()
    require_extra("mcp", "placet mcp-gate")

    async def main() -> None:
        gate = _gate(behind, settings, server=server, key=key, agent=named, wait=patience, path=path)
        async with gate as proxy:
            built = await proxy.server()
            if http:
                await serve_http(built, host, port, names)
            else:
                # As in `placet mcp`: a thread reads standard input, so an interrupt just ends the process.
                signal.signal(signal.SIGINT, signal.SIG_DFL)
                warn_if_interactive()
                await _serve_stdio(built)

    asyncio.run(main())


@asynccontextmanager
async def _gate(
    behind: Behind,
    settings: Mapping[str, Any],
    *,
    server: str,
    key: str,
    agent: str | None,
    wait: float,
    path: Path | None,
) -> "AsyncIterator[ApprovalProxy]":
    from placet.client import PlacetClient
    from placet.hook.frameworks.mcp import ApprovalProxy
    from placet.hook.frameworks.mcp.policy import read_policy
    from placet.hook.frameworks.mcp.upstream import McpUpstream
    from placet.hook.grants import ServerGrants
    from placet.hook.reviews import ServerReviews
    from placet.hook.savers.sqlite import SqliteSaver

    hook = read_policy(settings)
    with closing(SqliteSaver(_place(path))) as saver, PlacetClient(server, key) as client:
        async with McpUpstream(target_of(behind)) as upstream:
            proxy = ApprovalProxy(
                upstream,
                hook,
                saver=saver,
                scope=behind.scope,
                agent=agent,
                reviews=ServerReviews(client),
                grants=ServerGrants(client),
                wait_for=wait,
            )
            proxy.purge()
            await _mention_idle_lines(settings, upstream)
            purging = asyncio.create_task(proxy.purge_periodically())
            yield proxy
            purging.cancel()


async def _mention_idle_lines(settings: Mapping[str, Any], upstream: "McpUpstream") -> None:
    """A line that is about no tool may be misspelt, and then a tool runs that should wait."""
    from placet.hook.frameworks.mcp.policy import find_unmatched_rules

    with suppress(Unavailable):  # the tool call reports the error
        await upstream.refresh()
        for line, meant in find_unmatched_rules(settings, upstream.tools).items():
            hint = f" Is it {meant}?" if meant else ""
            click.echo(
                f"No tool of the server fits {line}: that line of the file does nothing.{hint}", err=True
            )


def target_of(behind: Behind) -> Callable[[], Any]:
    """Return the connection to the upstream server. Our settings and key are not passed on."""
    from mcp import StdioServerParameters

    token = os.environ.get(TOKEN_VARIABLE)
    if behind.url is not None and token:
        if not is_secure_or_loopback(behind.url):
            raise SettingsError(f"A token travels to {behind.url}: it must be https://… or on loopback.")
        return partial(_with_token, behind.url, token)
    if behind.url is not None:
        return lambda: behind.url
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PLACET_")}
    program, *arguments = behind.command
    return lambda: StdioServerParameters(command=program, args=arguments, env=environment)


@asynccontextmanager
async def _with_token(url: str, token: str) -> AsyncIterator[Any]:
    import httpx2
    from mcp.client.streamable_http import streamable_http_client

    headers, timeout = {"Authorization": f"Bearer {token}"}, httpx2.Timeout(30, read=300)
    async with (
        httpx2.AsyncClient(headers=headers, timeout=timeout) as http,
        streamable_http_client(url, http_client=http) as streams,
    ):
        yield streams


async def _serve_stdio(built: "Server[Any]") -> None:
    from mcp.server.stdio import stdio_server

    async with stdio_server() as (reading, writing):
        await built.run(reading, writing, built.create_initialization_options())


def _read(config: Path | None) -> Mapping[str, Any]:
    if config is None:
        return {}
    try:
        settings = tomllib.loads(config.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise SettingsError(f"{config} cannot be read: {error}.") from error
    if unknown := sorted(set(settings) - _MEMBERS):
        raise SettingsError(f"{config} has no {', '.join(unknown)}; there are {', '.join(sorted(_MEMBERS))}.")
    for name in ("agent", "wait", "url"):
        if not isinstance(settings.get(name, ""), str):
            raise SettingsError(f"{name} in {config} is text.")
    return settings


def _behind(command: tuple[str, ...], url: str | None, settings: Mapping[str, Any]) -> Behind:
    if not command and url is None:
        command, url = settings.get("command", ()), settings.get("url")
    if not isinstance(command, list | tuple) or not all(isinstance(part, str) for part in command):
        raise SettingsError('command is a list of texts, such as ["npx", "server"].')
    if bool(command) == (url is not None):
        raise SettingsError("Name one server to gate: a command after --, or its --url.")
    return Behind(command=tuple(command), url=url)


def _place(path: Path | None) -> Path:
    if path is not None:
        return path
    usual = default_path().with_name("mcp-gate.db")
    try:
        usual.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise SettingsError(f"Calls that wait cannot be kept in {usual}: {error}.") from error
    return usual
