"""The connection to the upstream MCP server: opened when needed, and again after it broke."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from typing import Any, Self, TypeVar

from mcp import Client, StdioServerParameters
from mcp.shared.dispatcher import ProgressFnT
from mcp.shared.exceptions import MCPError
from mcp.types import (
    CONNECTION_CLOSED,
    CallToolRequest,
    CallToolRequestParams,
    CallToolResult,
    Implementation,
    ListToolsResult,
    PaginatedRequestParams,
    PromptListChangedNotification,
    ResourceListChangedNotification,
    Tool,
    ToolListChangedNotification,
)
from mcp.types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from placet import __version__
from placet.errors import Unavailable
from placet.hook.argument_checks import refuse

logger = logging.getLogger(__name__)
T = TypeVar("T")
CONNECT_TIMEOUT_S = 60.0
LIST_TIMEOUT_S = 30.0
MAX_PAGES = 100
_SESSION_TERMINATED = "Session terminated"
"""The SDK's message when a server does not know an HTTP session any more."""
_CHANGE_NOTIFICATIONS = (
    ToolListChangedNotification,
    PromptListChangedNotification,
    ResourceListChangedNotification,
)
_CLIENT_INFO = Implementation(name="placet-mcp-gate", title="Placet", version=__version__)


class ToolsChanged(Exception):
    """The server's tools have changed since a call was evaluated; the call was not made."""


class McpUpstream:
    """One connection to the upstream MCP server. Raises Unavailable while there is none.

    `target` returns what an `mcp.Client` takes, such as StdioServerParameters or a URL. To the server,
    the gate is a client without sampling, elicitation and roots, so the server cannot ask back.
    """

    def __init__(self, target: Callable[[], Any]) -> None:
        if not callable(target):
            refuse("target", "a function, such as lambda: StdioServerParameters(command=…)", target)
        self._target = target
        self._client: Client | None = None
        self._closing = asyncio.Event()
        self._connection_task: asyncio.Task[None] | None = None
        self._connecting = asyncio.Lock()
        self._tools: dict[str, Tool] = {}
        self._edition = 0  # increased with each connection, and when the server reports changed tools
        self._calls = 0  # calls in progress
        self._idle_since = 0.0  # when the last call ended, by the event loop's clock
        self.on_change: Callable[[Any], Awaitable[None]] | None = None
        """Called when the server reports changed tools, prompts or resources."""

    async def __aenter__(self) -> Self:
        await self.client()
        return self

    async def __aexit__(self, *raised: object) -> None:
        await self._disconnect()

    async def client(self) -> Client:
        """Return the connection, made now if there is none."""
        async with self._connecting:
            if self._client is None:
                await self._disconnect()
                self._client = await self._connect()
                self._edition += 1
            return self._client

    async def read(self, work: Callable[[Client], Awaitable[T]]) -> T:
        """Send an idempotent request; if the connection is gone, try again over a new one."""
        try:
            return await self._send(work)
        except MCPError as error:
            if not _is_disconnect(error):
                raise
            return await self._send(work)

    async def _send(self, work: Callable[[Client], Awaitable[T]]) -> T:
        """Send a request once; if the connection is gone, the next request reconnects."""
        client = await self.client()
        try:
            return await work(client)
        except MCPError as error:
            if _is_disconnect(error):
                self._drop(client)
            raise

    async def call(
        self,
        name: str,
        arguments: dict[str, Any],
        meta: Any,
        on_progress: ProgressFnT | None,
        *,
        edition: int | None = None,
    ) -> CallToolResult:
        """Run a tool. Its result is passed on unchecked; clients check it against the output schema.

        Raises ToolsChanged if the tools are no longer those of `edition`.
        """
        request = CallToolRequest(params=CallToolRequestParams(name=name, arguments=arguments, _meta=meta))

        async def make(client: Client) -> CallToolResult:
            if edition not in (None, self._edition):
                raise ToolsChanged
            return await client.session.send_request(request, CallToolResult, progress_callback=on_progress)

        self._calls += 1
        try:
            return await self._send(make)
        finally:
            self._calls -= 1
            self._idle_since = asyncio.get_running_loop().time()

    async def list_tools(self, cursor: str | None = None) -> ListToolsResult:
        """Return one page of its tools."""
        params = PaginatedRequestParams(cursor=cursor)
        page = await self.read(lambda client: client.session.list_tools(params=params))
        self._tools.update({tool.name: tool for tool in page.tools})
        return page

    async def tool(self, name: str) -> tuple[Tool | None, int]:
        """Return the tool as the server lists it now, None if it does not, and the edition of the tools.

        The list is fetched each time: not every server reports changes, and a tool that was read-only
        yesterday may not be today.
        """
        edition = await self.refresh()
        return self._tools.get(name), edition

    @property
    def tools(self) -> dict[str, Tool]:
        """The tools as they were listed last."""
        return self._tools

    async def refresh(self) -> int:
        """List all tools again, over a new connection if the old one is dead; return the edition."""
        try:
            return await self._list_all()
        except (MCPError, TimeoutError):
            if not self._calls:  # reconnecting would end calls in progress
                self._drop(self._client)
            try:
                return await self._list_all()
            except (MCPError, TimeoutError, ValidationError) as error:
                raise Unavailable(f"The upstream MCP server does not list its tools: {error}.") from error
        except ValidationError as error:
            raise Unavailable(
                f"The upstream MCP server returned an invalid list of tools: {error}."
            ) from error

    async def _list_all(self) -> int:
        await self.client()
        edition = self._edition
        self._tools = await self._with_list_timeout(self._all_pages())
        return edition

    async def _all_pages(self) -> dict[str, Tool]:
        found: dict[str, Tool] = {}
        cursor: str | None = None
        for _ in range(MAX_PAGES):
            page = await self.list_tools(cursor)
            found.update({tool.name: tool for tool in page.tools})
            cursor = page.next_cursor
            if cursor is None:
                break
        return found

    async def _with_list_timeout(self, work: Coroutine[Any, Any, T]) -> T:
        """Wait for a list of tools, not counting the time in which the server is busy with a call.

        A busy server may answer nothing else. It has the whole timeout again when its last call has ended.
        """
        now = asyncio.get_running_loop().time
        started, listing = now(), asyncio.create_task(work)
        try:
            while True:
                idle_since = now() if self._calls else max(started, self._idle_since)
                left = idle_since + LIST_TIMEOUT_S - now()
                if left <= 0:
                    raise TimeoutError(f"no answer within {LIST_TIMEOUT_S:g} seconds")
                if (await asyncio.wait({listing}, timeout=left))[0]:
                    return listing.result()
        finally:
            listing.cancel()

    async def _connect(self) -> Client:
        ready: asyncio.Future[Client] = asyncio.get_running_loop().create_future()
        self._closing = asyncio.Event()
        self._connection_task = asyncio.create_task(self._hold(ready, self._closing))
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT_S):
                return await ready
        except Exception as error:
            self._connection_task.cancel()
            raise Unavailable(
                f"The upstream MCP server cannot be reached: {_innermost_message(error)}."
            ) from error

    async def _hold(self, ready: "asyncio.Future[Client]", closing: asyncio.Event) -> None:
        """Hold the connection: the SDK requires that the task that opened it closes it."""
        try:
            target = _tolerate_bad_utf8(self._target())
            client = Client(target, message_handler=self._on_message, client_info=_CLIENT_INFO, cache=None)
            async with client:
                if not ready.cancelled():
                    ready.set_result(client)
                    await self._listen(client, closing)
        except Exception as error:
            if ready.done():
                logger.debug("upstream_connection_failed", exc_info=error)
            else:
                ready.set_exception(error)

    async def _listen(self, client: Client, closing: asyncio.Event) -> None:
        """Receive change notifications until `closing` is set; newer servers send them to listeners only."""
        tools = client.server_capabilities.tools
        if client.protocol_version in MODERN_PROTOCOL_VERSIONS and tools is not None and tools.list_changed:
            try:
                async with client.listen(tools_list_changed=True):
                    await closing.wait()
            except (MCPError, TimeoutError, RuntimeError) as error:
                logger.debug("upstream_listen_failed", exc_info=error)
        await closing.wait()

    async def _disconnect(self) -> None:
        self._closing.set()
        running, self._connection_task, self._client = self._connection_task, None, None
        if running is not None:
            with suppress(asyncio.CancelledError):
                await running

    def _drop(self, client: Client | None) -> None:
        if self._client is client:
            self._client = None
            self._closing.set()

    async def _on_message(self, message: Any) -> None:
        if not isinstance(message, _CHANGE_NOTIFICATIONS):
            return
        if isinstance(message, ToolListChangedNotification):
            self._edition += 1
        if self.on_change is not None:
            await self.on_change(message)


def _tolerate_bad_utf8(target: Any) -> Any:
    """Return the target with invalid UTF-8 replaced, which would otherwise stop the SDK's reader for good."""
    if isinstance(target, StdioServerParameters):
        return target.model_copy(update={"encoding_error_handler": "replace"})
    return target


def _is_disconnect(error: MCPError) -> bool:
    return error.code == CONNECTION_CLOSED or error.message == _SESSION_TERMINATED


def _innermost_message(error: BaseException) -> str:
    """Return the message of the innermost error of nested exception groups."""
    while isinstance(error, BaseExceptionGroup) and error.exceptions:
        error = error.exceptions[0]
    return str(error).rstrip(".") or type(error).__name__
