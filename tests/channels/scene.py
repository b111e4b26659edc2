"""An agent that asks through a platform, from the service's 202 to the answer."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

import httpx

from placet.agent import AsyncAgent, ChannelBridge, PendingCases
from placet.ports.channel import Channel
from placet.testing.platforms import VisibleMessage
from tests.channels.loopback import Loopback
from tests.server.running import RunningServer

PATIENCE_S = 60


class Platform(Protocol):
    """What a scene needs of a channel's harness."""

    @property
    def channel(self) -> Channel: ...

    @property
    def server(self) -> Loopback: ...

    def list_messages(self) -> Sequence[VisibleMessage]: ...


P = TypeVar("P", bound=Platform)


class Scene(Generic[P]):
    """A service with a question, an agent that asks it through a channel, and those who may answer."""

    def __init__(
        self,
        harness: P,
        service: RunningServer,
        folder: Path,
        question: dict[str, Any],
        *,
        answerers: Sequence[str],
        http: httpx.AsyncClient | None = None,
    ) -> None:
        self.harness = harness
        self.service = service
        self._question = question
        cases = PendingCases(folder / "agent.db")
        self.board = ChannelBridge(harness.channel, cases, answerers=answerers, http=http)
        self.agent = AsyncAgent(tell=self.board.tell, pending=cases, interval_s=0.05)
        self.board.nudge = self.agent.nudge

    async def ask(self, url: str | None = None) -> "asyncio.Task[Any]":
        """Ask the service, or whatever answers at `url`, and wait until the platform shows the question."""
        headers = {"Authorization": f"Bearer {self.service.api_key}"}
        asking = self.agent.request(
            "POST", url or f"{self.service.url}/v1/cases", json=self._question, headers=headers
        )
        task = asyncio.create_task(asking)
        await self.harness.server.wait_until(lambda: bool(self.harness.list_messages()))
        return task

    def reference(self, label: str) -> str:
        """What the button with this label carries."""
        shown = self.harness.list_messages()[0]
        return shown.references[shown.labels.index(label)]

    def assert_nothing_secret_was_sent(self, submit_token: str | None) -> None:
        sent = b"".join(request.body for request in self.harness.server.requests).decode()
        assert submit_token is not None
        assert submit_token not in sent
        assert self.service.api_key not in sent

    async def aclose(self) -> None:
        await self.board.aclose()
        await self.agent.aclose()
