"""Callers and groups that several operators change at the same moment."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

import pytest

from placet.cli.relay_calls import RelayCalls, on_server
from placet.cli.relay_members import amended
from placet.cli.relay_registry import GROUPS
from placet.relay.settings import RelaySettings
from tests.server.running import RunningServer, running

Change = dict[str, Any]
pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with running(tmp_path_factory.mktemp("members"), relay=RelaySettings(enabled=True)) as found:
        yield found


class Outrun:
    """Calls in which somebody else does something right after the first look."""

    def __init__(self, calls: RelayCalls, meanwhile: Callable[[RelayCalls], Awaitable[object]]) -> None:
        self._calls = calls
        self._meanwhile: Callable[[RelayCalls], Awaitable[object]] | None = meanwhile

    async def ask(self, method: str, path: str, body: Any = None, **query: str | None) -> Any:
        try:
            return await self._calls.ask(method, path, body, **query)
        finally:
            meanwhile, self._meanwhile = self._meanwhile, None
            if meanwhile is not None:
                await meanwhile(self._calls)

    async def put(self, path: str, body: Any, *, rev: int | None) -> Any:
        return await self._calls.put(path, body, rev=rev)

    def pieces(self, path: str, **query: str | None) -> AsyncIterator[bytes]:
        return self._calls.pieces(path, **query)


def joins(member: str) -> Callable[[Change], Change]:
    return lambda known: {
        "members": [*known["members"], member],
        "permissions": known["permissions"],
    }


async def on(server: RunningServer, work: Callable[[RelayCalls], Awaitable[Change]]) -> Change:
    return await on_server(server.url, server.create_key("root", "admin"), None, work)


async def test_whoever_was_removed_does_not_come_back_with_somebody_who_is_added(server: RunningServer):
    async def remove_mallory(calls: RelayCalls) -> object:
        return await calls.ask("PUT", f"{GROUPS}/reviewers", {"members": ["ada"]})

    async def work(calls: RelayCalls) -> Change:
        await calls.ask("POST", GROUPS, {"name": "reviewers", "members": ["ada", "mallory"]})
        return await amended(Outrun(calls, remove_mallory), GROUPS, "reviewers", joins("grace"))

    assert (await on(server, work))["members"] == ["ada", "grace"]


async def test_two_who_make_the_same_group_both_get_their_members_in(server: RunningServer):
    async def make(calls: RelayCalls) -> object:
        return await calls.ask("POST", GROUPS, {"name": "auditors", "members": ["kim"]})

    async def work(calls: RelayCalls) -> Change:
        draft = {"name": "auditors", "members": ["lee"]}
        return await amended(Outrun(calls, make), GROUPS, "auditors", joins("lee"), draft)

    assert (await on(server, work))["members"] == ["kim", "lee"]


async def test_a_group_that_was_removed_meanwhile_stays_removed(server: RunningServer):
    async def work(calls: RelayCalls) -> Change:
        await calls.ask("POST", GROUPS, {"name": "passers", "members": ["ada"]})
        gone = Outrun(calls, lambda others: others.ask("DELETE", f"{GROUPS}/passers"))
        return await amended(gone, GROUPS, "passers", joins("grace"))

    with pytest.raises(Exception, match="There is no"):
        await on(server, work)
