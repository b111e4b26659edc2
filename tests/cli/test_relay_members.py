"""Callers and groups that several operators change at the same moment."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

import pytest

from placet.cli.relay_members import GROUPS, amend_record
from placet.cli.relay_operations import run_on_server
from placet.http.operations import Operations
from placet.relay.settings import RelaySettings
from tests.server.running import RunningServer, running

Change = dict[str, Any]
pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with running(tmp_path_factory.mktemp("members"), relay=RelaySettings(enabled=True)) as found:
        yield found


class InterruptedOperations:
    """Calls in which somebody else does something right after the first look."""

    def __init__(self, calls: Operations, meanwhile: Callable[[Operations], Awaitable[object]]) -> None:
        self._calls = calls
        self._meanwhile: Callable[[Operations], Awaitable[object]] | None = meanwhile

    async def call(
        self, operation: str, body: Any = None, *, if_match: object = None, **arguments: str | None
    ) -> Any:
        try:
            return await self._calls.call(operation, body, if_match=if_match, **arguments)
        finally:
            meanwhile, self._meanwhile = self._meanwhile, None
            if meanwhile is not None:
                await meanwhile(self._calls)

    def stream(self, operation: str, **arguments: str | None) -> AsyncIterator[bytes]:
        return self._calls.stream(operation, **arguments)


def add_member(member: str) -> Callable[[Change], Change]:
    return lambda known: {
        "members": [*known["members"], member],
        "permissions": known["permissions"],
    }


async def change_on_server(server: RunningServer, work: Callable[[Operations], Awaitable[Change]]) -> Change:
    return await run_on_server(server.url, server.create_key("root", "admin"), None, work)


async def test_concurrent_removal_survives_an_addition(server: RunningServer):
    async def remove_mallory(calls: Operations) -> object:
        return await calls.call("changeGroup", name="reviewers", body={"members": ["ada"]})

    async def work(calls: Operations) -> Change:
        await calls.call("createGroup", {"name": "reviewers", "members": ["ada", "mallory"]})
        return await amend_record(
            InterruptedOperations(calls, remove_mallory), GROUPS, "reviewers", add_member("grace")
        )

    assert (await change_on_server(server, work))["members"] == ["ada", "grace"]


async def test_concurrent_creation_of_a_group_keeps_both_members(server: RunningServer):
    async def make(calls: Operations) -> object:
        return await calls.call("createGroup", {"name": "auditors", "members": ["kim"]})

    async def work(calls: Operations) -> Change:
        draft = {"name": "auditors", "members": ["lee"]}
        return await amend_record(
            InterruptedOperations(calls, make), GROUPS, "auditors", add_member("lee"), draft
        )

    assert (await change_on_server(server, work))["members"] == ["kim", "lee"]


async def test_a_group_that_was_removed_meanwhile_stays_removed(server: RunningServer):
    async def work(calls: Operations) -> Change:
        await calls.call("createGroup", {"name": "passers", "members": ["ada"]})
        gone = InterruptedOperations(calls, lambda others: others.call("removeGroup", name="passers"))
        return await amend_record(gone, GROUPS, "passers", add_member("grace"))

    with pytest.raises(Exception, match="Group not found"):
        await change_on_server(server, work)
