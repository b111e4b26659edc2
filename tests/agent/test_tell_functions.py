"""What may be passed as `tell`: a function of the right kind, or a sentence that helps."""

import asyncio
import functools
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from placet.agent import Agent, AsyncAgent, Decided, Notice, PendingCases
from placet.errors import NotificationFailed, SettingsError
from tests.cli.strange_service import StrangeService, strange_service


@pytest.fixture
def service() -> Iterator[StrangeService]:
    with strange_service() as service:
        service.asks()
        service.answer_polls_with(status="completed", result={"action": "confirm", "data": {}})
        yield service


async def tell_async(notice: Notice, *more: object) -> None:
    """Notify nobody."""


class AsyncTeller:
    async def __call__(self, notice: Notice) -> None:
        """Notify nobody."""

    async def tell(self, notice: Notice) -> None:
        """Notify nobody."""


def tell_lazily(notice: Notice) -> Iterator[None]:
    yield


async def tell_lazily_async(notice: Notice) -> AsyncIterator[None]:
    yield


def follow_async(url: str, tell: Any) -> Any:
    async def main() -> Any:
        async with AsyncAgent(tell=tell) as agent:
            return await agent.request("POST", f"{url}/act")

    return asyncio.run(main())


def test_async_agent_takes_a_plain_function(service: StrangeService) -> None:
    heard: list[Notice] = []
    assert isinstance(follow_async(service.url, heard.append), Decided)
    assert [notice.name for notice in heard] == ["requested", "ended"]


@pytest.mark.parametrize("tell", [AsyncTeller(), AsyncTeller().tell, lambda notice: tell_async(notice, 1)])
def test_async_agent_awaits_what_must_be_awaited(service: StrangeService, tell: Any) -> None:
    assert isinstance(follow_async(service.url, tell), Decided)


def test_failing_plain_function_is_a_failed_notification(service: StrangeService) -> None:
    def fail(notice: Notice) -> None:
        raise ValueError

    with pytest.raises(NotificationFailed):
        follow_async(service.url, fail)


@pytest.mark.parametrize(
    "tell", [tell_async, AsyncTeller(), AsyncTeller().tell, functools.partial(tell_async)]
)
def test_blocking_agent_refuses_an_async_function(tell: Any) -> None:
    with pytest.raises(SettingsError, match="Pass a plain function, or use AsyncAgent"):
        Agent(tell=tell)


def test_coroutine_that_nobody_awaits_is_a_failed_notification(
    service: StrangeService, tmp_path: Path
) -> None:
    cases = PendingCases(tmp_path / "agent.db")

    def tell(notice: Notice) -> Any:
        return tell_async(notice)

    with (
        Agent(tell=tell, pending=cases) as agent,
        pytest.raises(NotificationFailed, match="use AsyncAgent"),
    ):
        agent.request("POST", f"{service.url}/act")
    assert [one.is_notified for one in cases.list_pending()] == [False]


@pytest.mark.parametrize("kind", [Agent, AsyncAgent])
@pytest.mark.parametrize(
    ("tell", "why"),
    [(None, "a function"), ("print", "a function"), (tell_lazily, "yield"), (tell_lazily_async, "yield")],
)
def test_what_does_not_run_when_called_is_refused(kind: Any, tell: Any, why: str) -> None:
    with pytest.raises(SettingsError, match=why):
        kind(tell=tell)
