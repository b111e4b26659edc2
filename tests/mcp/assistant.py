"""An assistant with the SDK's own client, over either transport, and a person who answers its questions."""

import asyncio
import json
import re
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, closing, contextmanager
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit, urlunsplit

import httpx
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.types import (
    CallToolResult,
    ElicitCompleteNotification,
    ElicitRequestURLParams,
    ElicitResult,
    TextContent,
)

from placet.agent import PendingCases
from placet.mcp.messengers import Messengers
from placet.mcp.questions import Questions
from placet.mcp.server import build_server
from placet.ports.channel import Channel
from tests.cli.forked_command import forked_command
from tests.cli.process import ServerProcess, environment
from tests.server.running import ReviewPage
from tests.waiting import PATIENCE_S, eventually

START_S = 60.0
ERA = {"2025": "legacy", "2026": "2026-07-28"}
T = TypeVar("T")


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run to the end, which comes in time."""
    return asyncio.run(asyncio.wait_for(work, 100))


class Setting:
    """A running Placet server, its key, and a folder for one assistant's open questions."""

    def __init__(self, server: ServerProcess, folder: Path) -> None:
        self.url = server.url()
        self.key = server.admin_key
        self.folder = folder

    def env(self, **more: str) -> dict[str, str]:
        return environment({"PLACET_SERVER": self.url, "PLACET_KEY": self.key, **more})

    def pending(self) -> set[str]:
        """The questions that wait on the server."""
        headers = {"Authorization": f"Bearer {self.key}"}
        url = f"{self.url}/v1/reviews?status=pending&limit=200"
        listed = httpx.get(url, headers=headers, timeout=PATIENCE_S).json()["cases"]
        return {one["poll"]["case_id"] for one in listed}

    def status(self, case_id: str) -> dict[str, Any]:
        headers = {"Authorization": f"Bearer {self.key}"}
        return httpx.get(
            f"{self.url}/v1/reviews/{case_id}/status", headers=headers, timeout=PATIENCE_S
        ).json()

    @asynccontextmanager
    async def in_process(
        self,
        *,
        key: str | None = None,
        url: str | None = None,
        channel: Channel | None = None,
        answerers: frozenset[str] = frozenset(),
        **client: Any,
    ) -> AsyncIterator[Client]:
        """The same server without a process of its own, for what no transport changes."""
        chosen = key or self.key
        with closing(PendingCases(self.folder / "agent.db")) as cases:
            questions = Questions(
                server=url or self.url,
                key=chosen,
                cases=cases,
                trusted=[self.url],
                messengers=Messengers([(channel, answerers)], cases) if channel is not None else None,
            )
            async with (
                questions,
                Client(build_server(questions, key=chosen), **_with_timeout(client)) as connected,
            ):
                yield connected

    @asynccontextmanager
    async def over_stdio(
        self, *arguments: str, env: dict[str, str] | None = None, **client: Any
    ) -> AsyncIterator[Client]:
        """`placet mcp` as a client starts it."""
        parameters = StdioServerParameters(
            command=forked_command(),
            args=["mcp", "--pending", str(self.folder / "agent.db"), *arguments],
            env=env or self.env(),
            cwd=self.folder,
        )
        with (self.folder / "stderr").open("a") as log:
            async with Client(stdio_client(parameters, errlog=log), **_with_timeout(client)) as connected:
                yield connected

    @contextmanager
    def over_http(self, *arguments: str, env: dict[str, str] | None = None) -> Iterator["HttpServer"]:
        """`placet mcp --http` on a free port."""
        arguments = ("--port", "0", "--pending", str(self.folder / "agent.db"), *arguments)
        server = HttpServer(self.folder, "mcp", "--http", *arguments, env=env or self.env())
        try:
            yield server
        finally:
            server.process.kill()
            server.process.wait(PATIENCE_S)


class HttpServer(ServerProcess):
    """`placet mcp --http`; loading the SDK takes its time on a busy machine."""

    def url(self) -> str:
        return eventually(lambda: re.search(r"running at (http://\S+)", self._said()), within=START_S)[1]

    def assistant(self, **client: Any) -> Client:
        return Client(self.url(), **_with_timeout(client))


def _with_timeout(client: dict[str, Any]) -> dict[str, Any]:
    return {"read_timeout_seconds": START_S, **client}


def read_structured(result: CallToolResult) -> dict[str, Any]:
    """What came back, after a look that text and structure say the same."""
    assert not result.is_error, result.content
    assert result.structured_content is not None
    (content,) = result.content
    assert isinstance(content, TextContent)
    assert json.loads(content.text) == result.structured_content
    return result.structured_content


def refusal(result: CallToolResult) -> str:
    """What the model reads of a call that failed."""
    assert result.is_error
    (content,) = result.content
    assert isinstance(content, TextContent)
    return content.text


def answer(review_url: str, action: str, **data: Any) -> httpx.Response:
    """What the page sends when the person has decided."""
    parts = urlsplit(review_url)
    url = urlunsplit(parts._replace(path=f"{parts.path}/respond"))
    return httpx.post(url, json={"action": action, "data": data}, timeout=PATIENCE_S)


def open_page(review_url: str) -> None:
    """What the page does when somebody looks at it."""
    with httpx.Client(timeout=PATIENCE_S, follow_redirects=True) as browser:
        page = ReviewPage(browser, browser.get(review_url))
        assert page.post("opened", {}).response.status_code < 300


class Person:
    """Sits at the client: is shown links, opens them or not, and answers a moment later."""

    def __init__(self, says: str = "accept", then: Callable[[str], object] = lambda url: None) -> None:
        self.seen: list[ElicitRequestURLParams] = []
        self.completed: list[str] = []
        self._says = says
        self._then = then

    async def __call__(self, context: Any, params: Any) -> ElicitResult:
        assert isinstance(params, ElicitRequestURLParams), params
        self.seen.append(params)
        if self._says == "accept":
            threading.Thread(target=self._then, args=(params.url,), daemon=True).start()
        return ElicitResult(action=self._says)  # type: ignore[arg-type]

    async def listen(self, message: Any) -> None:
        if isinstance(message, ElicitCompleteNotification):
            self.completed.append(message.params.elicitation_id)


async def wait_until(holds: Callable[[], Any] | Callable[[], Awaitable[Any]]) -> Any:
    """Wait for what another process does."""
    async with asyncio.timeout(START_S):
        while True:
            found = holds()
            if asyncio.iscoroutine(found):
                found = await found
            if found:
                return found
            await asyncio.sleep(0.02)
