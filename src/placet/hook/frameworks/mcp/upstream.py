"""The MCP server behind a gate: connected when it is needed, and anew after it died. It judges nothing."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from types import TracebackType
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

logger = logging.getLogger(__name__)
T = TypeVar("T")
CONNECT_TIMEOUT_S = 60.0
LIST_TIMEOUT_S = 30.0
MAX_PAGES = 100
_SESSION_TERMINATED = "Session terminated"
"""What the SDK says where a server has forgotten an HTTP session."""
_CHANGE_NOTIFICATIONS = (
    ToolListChangedNotification,
    PromptListChangedNotification,
    ResourceListChangedNotification,
)
_CLIENT_INFO = Implementation(name="placet-mcp-gate", title="Placet", version=__version__)


class ToolsChanged(Exception):
    """The server's tools are others by now than those that a call was judged by; the call was not made."""


class McpUpstream:
    """One connection to the server behind the gate. Raises Unavailable while there is none.

    `target` names it each time it is connected: what an `mcp.Client` takes, such as StdioServerParameters or
    a URL. To the server, the gate is a client without sampling, elicitation and roots: it asks nothing back.
    """

    def __init__(self, target: Callable[[], Any]) -> None:
        self._target = target
        self._client: Client | None = None
        self._leave = asyncio.Event()
        self._running: asyncio.Task[None] | None = None
        self._connecting = asyncio.Lock()
        self._tools: dict[str, Tool] = {}
        self._edition = (
            0  # another one for each connection, and whenever the server says that its tools changed
        )
        self._calls = 0  # how many are made right now
        self.on_change: Callable[[Any], Awaitable[None]] | None = None
        """Told when the server says that its tools, prompts or resources are others now."""

    async def __aenter__(self) -> Self:
        await self.client()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._disconnect()

    async def client(self) -> Client:
        """The connection, made now if there is none."""
        async with self._connecting:
            if self._client is None:
                await self._disconnect()
                self._client = await self._connect()
                self._edition += 1
            return self._client

    async def read(self, work: Callable[[Client], Awaitable[T]]) -> T:
        """Ask the server for what may be asked for twice: a new connection is tried if it is gone."""
        try:
            return await self._send(work)
        except MCPError as error:
            if not _is_disconnect(error):
                raise
            return await self._send(work)

    async def _send(self, work: Callable[[Client], Awaitable[T]]) -> T:
        """Ask the server something, once; if it is gone, the next one to ask connects anew."""
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
        """Run a tool. What it answers is handed on as it is; whether it fits its schema, clients check.

        Raises ToolsChanged if `edition` is not that of its tools any more.
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

    async def list_tools(self, cursor: str | None = None) -> ListToolsResult:
        """One page of its tools."""
        params = PaginatedRequestParams(cursor=cursor)
        page = await self.read(lambda client: client.session.list_tools(params=params))
        self._tools.update({tool.name: tool for tool in page.tools})
        return page

    async def tool(self, name: str) -> tuple[Tool | None, int]:
        """What the server says about this tool now, None if it lists none of this name; and the edition.

        It is asked each time: not every server says when its tools change, and a tool that was read-only
        yesterday is not trusted for it today.
        """
        edition = await self.refresh()
        return self._tools.get(name), edition

    @property
    def tools(self) -> dict[str, Tool]:
        """The tools as they were listed last."""
        return self._tools

    async def refresh(self) -> int:
        """List all tools anew, over a new connection if the old one is dead: then a call can be made."""
        try:
            return await self._list_all()
        except (MCPError, TimeoutError):
            if not self._calls:  # for those it would be the end
                self._drop(self._client)
            try:
                return await self._list_all()
            except (MCPError, TimeoutError, ValidationError) as error:
                raise Unavailable(f"The server behind the gate does not list its tools: {error}.") from error
        except ValidationError as error:
            raise Unavailable(f"The server behind the gate lists its tools oddly: {error}.") from error

    async def _list_all(self) -> int:
        await self.client()
        edition = self._edition
        self._tools = await self._patiently(self._all_pages())
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

    async def _patiently(self, work: Coroutine[Any, Any, T]) -> T:
        """A server that is busy with a call may answer nothing else: then it has as long as that takes."""
        asked = asyncio.create_task(work)
        try:
            busy = bool(self._calls)
            while not (await asyncio.wait({asked}, timeout=LIST_TIMEOUT_S))[0]:
                # A call may have ended just now: the time in which it ran does not count.
                was_busy, busy = busy, bool(self._calls)
                if not (was_busy or busy):
                    raise TimeoutError(f"no answer within {LIST_TIMEOUT_S:g} seconds")
            return asked.result()
        finally:
            asked.cancel()

    async def _connect(self) -> Client:
        ready: asyncio.Future[Client] = asyncio.get_running_loop().create_future()
        self._leave = asyncio.Event()
        self._running = asyncio.create_task(self._hold(ready, self._leave))
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT_S):
                return await ready
        except Exception as error:
            self._running.cancel()
            raise Unavailable(
                f"The server behind the gate cannot be reached: {_innermost_message(error)}."
            ) from error

    async def _hold(self, ready: "asyncio.Future[Client]", leave: asyncio.Event) -> None:
        """Hold the connection: the SDK wants it to be left by the task that made it."""
        try:
            target = _tolerate_bad_utf8(self._target())
            client = Client(target, message_handler=self._heard, client_info=_CLIENT_INFO, cache=None)
            async with client:
                if not ready.cancelled():
                    ready.set_result(client)
                    await self._listen(client, leave)
        except Exception as error:
            if ready.done():
                logger.debug("The server behind the gate left with an error.", exc_info=error)
            else:
                ready.set_exception(error)

    async def _listen(self, client: Client, leave: asyncio.Event) -> None:
        """Hear of changes until it is time to leave; newer servers tell them to those who listen."""
        tools = client.server_capabilities.tools
        if client.protocol_version in MODERN_PROTOCOL_VERSIONS and tools is not None and tools.list_changed:
            try:
                async with client.listen(tools_list_changed=True):
                    await leave.wait()
            except (MCPError, TimeoutError, RuntimeError) as error:
                logger.debug("Changes behind the gate are not heard of.", exc_info=error)
        await leave.wait()

    async def _disconnect(self) -> None:
        self._leave.set()
        running, self._running, self._client = self._running, None, None
        if running is not None:
            with suppress(asyncio.CancelledError):
                await running

    def _drop(self, client: Client | None) -> None:
        if self._client is client:
            self._client = None
            self._leave.set()

    async def _heard(self, message: Any) -> None:
        if not isinstance(message, _CHANGE_NOTIFICATIONS):
            return
        if isinstance(message, ToolListChangedNotification):
            self._edition += 1
        if self.on_change is not None:
            await self.on_change(message)


def _tolerate_bad_utf8(target: Any) -> Any:
    """The same; but bytes that are no UTF-8 do not make the SDK deaf to a command for good."""
    if isinstance(target, StdioServerParameters):
        return target.model_copy(update={"encoding_error_handler": "replace"})
    return target


def _is_disconnect(error: MCPError) -> bool:
    return error.code == CONNECTION_CLOSED or error.message == _SESSION_TERMINATED


def _innermost_message(error: BaseException) -> str:
    """What went wrong, from the inside of the groups that it may be wrapped in."""
    while isinstance(error, BaseExceptionGroup) and error.exceptions:
        error = error.exceptions[0]
    return str(error).rstrip(".") or type(error).__name__
