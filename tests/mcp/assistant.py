"""An assistant with the SDK's own client, over either transport, and a person who answers its questions."""

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit, urlunsplit

import httpx
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.types import CallToolResult, ElicitRequestURLParams, ElicitResult, TextContent

from tests.cli.process import COMMAND, ServerProcess, environment
from tests.waiting import PATIENCE_S

ERA = {"2025": "legacy", "2026": "2026-07-28"}
T = TypeVar("T")


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run to the end, which comes in time."""
    return asyncio.run(asyncio.wait_for(work, PATIENCE_S * 4))


class Setting:
    """A running Assent server, its key, and a folder for one assistant's open questions."""

    def __init__(self, server: ServerProcess, folder: Path) -> None:
        self.url = server.url()
        self.key = server.stdout.split()[0]
        self.folder = folder

    def env(self, **more: str) -> dict[str, str]:
        return environment({"ASSENT_SERVER": self.url, "ASSENT_KEY": self.key, **more})

    def status(self, case_id: str) -> dict[str, Any]:
        headers = {"Authorization": f"Bearer {self.key}"}
        return httpx.get(
            f"{self.url}/v1/reviews/{case_id}/status", headers=headers, timeout=PATIENCE_S
        ).json()

    @asynccontextmanager
    async def over_stdio(
        self, *arguments: str, env: dict[str, str] | None = None, **client: Any
    ) -> AsyncIterator[Client]:
        """`assent mcp` as a client starts it."""
        parameters = StdioServerParameters(
            command=COMMAND,
            args=["mcp", "--pending", str(self.folder / "agent.db"), *arguments],
            env=env or self.env(),
            cwd=self.folder,
        )
        with (self.folder / "stderr").open("a") as log:
            async with Client(stdio_client(parameters, errlog=log), **_timed(client)) as connected:
                yield connected

    @contextmanager
    def http_server(self, *arguments: str, env: dict[str, str] | None = None) -> Iterator[ServerProcess]:
        """`assent mcp --http` on a free port."""
        pending = str(self.folder / "agent.db")
        process = ServerProcess(
            self.folder,
            "mcp",
            "--http",
            "--port",
            "0",
            "--pending",
            pending,
            *arguments,
            env=env or self.env(),
        )
        try:
            yield process
        finally:
            process.process.kill()
            process.process.wait(PATIENCE_S)

    @asynccontextmanager
    async def over_http(self, **client: Any) -> AsyncIterator[Client]:
        with self.http_server() as server:
            async with Client(await asyncio.to_thread(server.url), **_timed(client)) as connected:
                yield connected


def _timed(client: dict[str, Any]) -> dict[str, Any]:
    return {"read_timeout_seconds": PATIENCE_S * 2, **client}


def structured(result: CallToolResult) -> dict[str, Any]:
    """What came back, after a look that text and structure say the same."""
    assert not result.is_error, result.content
    assert result.structured_content is not None
    (content,) = result.content
    assert isinstance(content, TextContent)
    assert json.loads(content.text) == result.structured_content
    return result.structured_content


def answer(review_url: str, action: str, **data: Any) -> httpx.Response:
    """What the page sends when the person has decided."""
    parts = urlsplit(review_url)
    url = urlunsplit(parts._replace(path=f"{parts.path}/respond"))
    return httpx.post(url, json={"action": action, "data": data}, timeout=PATIENCE_S)


class Person:
    """Sits at the client: is shown links, opens them or not, and answers a moment later."""

    def __init__(self, says: str = "accept", then: Callable[[str], object] = lambda url: None) -> None:
        self.seen: list[ElicitRequestURLParams] = []
        self.messages: list[Any] = []
        self._says = says
        self._then = then

    async def __call__(self, context: Any, params: Any) -> ElicitResult:
        assert isinstance(params, ElicitRequestURLParams), params
        self.seen.append(params)
        if self._says == "accept":
            threading.Thread(target=self._then, args=(params.url,), daemon=True).start()
        return ElicitResult(action=self._says)  # type: ignore[arg-type]

    async def listen(self, message: Any) -> None:
        self.messages.append(message)


async def until(holds: Callable[[], Any] | Callable[[], Awaitable[Any]]) -> Any:
    """Wait for what another process does."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            found = holds()
            if asyncio.iscoroutine(found):
                found = await found
            if found:
                return found
            await asyncio.sleep(0.02)
