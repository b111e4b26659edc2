"""`placet mcp-gate`: an MCP proxy that requires approval for the tools of another MCP server."""

import asyncio
import json
import os
import tomllib
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from placet.agent.pending_case_store import get_default_path
from placet.cli.client_options import key_option, require_key, server_option
from placet.cli.mcp import HttpAddress, add_http_options, serve
from placet.errors import SettingsError
from placet.extras import require_extra
from placet.protocol.addresses import is_secure_or_loopback
from placet.protocol.duration import parse_duration

if TYPE_CHECKING:
    from mcp.server import Server

    from placet.hook.frameworks.mcp import ApprovalProxy

TOKEN_VARIABLE = "PLACET_UPSTREAM_TOKEN"  # noqa: S105 - a name, not a secret
_MEMBERS = frozenset({"command", "url", "agent", "wait", "tools", "others", "optional", "trust_annotations"})


@dataclass(frozen=True, kw_only=True, slots=True)
class UpstreamServer:
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
    "--config", type=click.Path(path_type=Path, dir_okay=False), help="TOML file with the approval rules."
)
@click.option("--url", metavar="URL", help="URL of the MCP server, instead of COMMAND.")
@server_option
@key_option
@click.option(
    "--agent", metavar="NAME", help="Agent name shown to reviewers. Default: the MCP client's name."
)
@click.option("--wait", metavar="DURATION", help="How long a call waits for a decision. Default: 20s.")
@click.option(
    "--db",
    "path",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Database of waiting calls. Default: one for all gates of this user.",
)
@add_http_options(port=8403)
def mcp_gate(
    command: tuple[str, ...],
    config: Path | None,
    url: str | None,
    server: str,
    key: str | None,
    agent: str | None,
    wait: str | None,
    path: Path | None,
    http: HttpAddress | None,
) -> None:
    """Require approval for the tool calls of any MCP server.

    COMMAND starts the MCP server; everything else it offers is passed on. A call waits for approval unless
    the server declares the tool as read-only, or a rule in --config says otherwise.

    Over HTTP, set PLACET_MCP_TOKEN to accept only clients that send it as a bearer token. If the MCP server
    needs a bearer token, set PLACET_UPSTREAM_TOKEN.
    """
    require_extra("mcp", "placet mcp-gate")
    key = require_key(key)
    settings = _read(config)
    target = _find_upstream(command, url, settings)
    named = agent or settings.get("agent")
    wait_s = parse_duration(wait or settings.get("wait", "20s"), "wait").total_seconds()

    async def main() -> None:
        opened = _open_proxy(target, settings, server=server, key=key, agent=named, wait=wait_s, path=path)
        async with opened as proxy:
            built = await proxy.server()
            await serve(built, http, partial(_serve_stdio, built))

    asyncio.run(main())


@asynccontextmanager
async def _open_proxy(
    target: UpstreamServer,
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
    from placet.hook.savers.local import open_local_saver

    hook = read_policy(settings)
    with (
        closing(open_local_saver(_prepare_database_path(path))) as saver,
        PlacetClient(server, key) as client,
    ):
        async with McpUpstream(connect_to(target)) as upstream:
            proxy = ApprovalProxy(
                upstream,
                hook,
                saver=saver,
                scope=target.scope,
                agent=agent,
                reviews=ServerReviews(client),
                grants=ServerGrants(client),
                wait_for=wait,
            )
            proxy.purge()
            purging = asyncio.create_task(proxy.purge_periodically())
            yield proxy
            purging.cancel()


def connect_to(target: UpstreamServer) -> Callable[[], Any]:
    """Return the connection to the upstream server. Our settings and key are not passed on."""
    from mcp import StdioServerParameters

    token = os.environ.get(TOKEN_VARIABLE)
    if target.url is not None and token:
        if not is_secure_or_loopback(target.url):
            raise SettingsError(
                f"{target.url} must be https://… or on loopback, because a token is sent to it."
            )
        return partial(_with_token, target.url, token)
    if target.url is not None:
        return lambda: target.url
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PLACET_")}
    program, *arguments = target.command
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
        raise SettingsError(f"{config}: unknown {', '.join(unknown)}. Use {', '.join(sorted(_MEMBERS))}.")
    for name in ("agent", "wait", "url"):
        if not isinstance(settings.get(name, ""), str):
            raise SettingsError(f"{config}: {name} must be text.")
    return settings


def _find_upstream(command: tuple[str, ...], url: str | None, settings: Mapping[str, Any]) -> UpstreamServer:
    if not command and url is None:
        command, url = settings.get("command", ()), settings.get("url")
    if not isinstance(command, list | tuple) or not all(isinstance(part, str) for part in command):
        raise SettingsError('command must be a list of texts, such as ["npx", "server"].')
    if bool(command) == (url is not None):
        raise SettingsError("Pass one MCP server: a command after --, or --url.")
    return UpstreamServer(command=tuple(command), url=url)


def _prepare_database_path(path: Path | None) -> Path:
    if path is not None:
        return path
    default = get_default_path().with_name("mcp-gate.db")
    try:
        default.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise SettingsError(
            f"The database of waiting calls, {default}, cannot be opened: {error}."
        ) from error
    return default
