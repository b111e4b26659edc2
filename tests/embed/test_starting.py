"""An embedded server starts with its first request: whole, once, and again after it could not."""

import asyncio
import threading
from collections.abc import Sequence
from pathlib import Path

import httpx
import pytest

from placet import Placet
from placet.errors import SettingsError, Unavailable
from placet.http.asgi import AsgiMessage
from placet.ports.config_store import ConfigKind, ConfigRecord
from placet.stores.sqlite import SqliteStore
from placet.stores.sqlite.in_memory import InMemorySqliteStore

pytestmark = pytest.mark.anyio


class SlowToStart(InMemorySqliteStore):
    """Takes its time with what the relay reads when it starts."""

    def __init__(self) -> None:
        super().__init__()
        self.asked, self.go_on = asyncio.Event(), asyncio.Event()

    async def list_records(self, kind: ConfigKind, tenant: str | None = None) -> Sequence[ConfigRecord]:
        if kind != "agent":
            self.asked.set()
            await self.go_on.wait()
        return await super().list_records(kind, tenant)


async def test_nothing_is_served_before_the_relay_has_read_its_policies() -> None:
    store = SlowToStart()
    placet = Placet(base_url="http://127.0.0.1:8000", store=store, relay={"enabled": True})
    first = asyncio.create_task(placet.parts())
    await store.asked.wait()
    second = asyncio.create_task(placet.parts())
    await asyncio.sleep(0)
    assert not second.done()
    store.go_on.set()
    assert await first is await second
    await placet.aclose()


class BrokenAtFirst(InMemorySqliteStore):
    """Cannot be read while the relay starts."""

    async def list_records(self, kind: ConfigKind, tenant: str | None = None) -> Sequence[ConfigRecord]:
        if kind != "agent":
            raise Unavailable
        return await super().list_records(kind, tenant)


async def test_what_could_not_start_serves_nobody() -> None:
    placet = Placet(base_url="http://127.0.0.1:8000", store=BrokenAtFirst(), relay={"enabled": True})
    for _ in range(2):
        with pytest.raises(Unavailable):
            await placet.parts()


async def test_what_could_not_be_built_leaves_nothing_open(tmp_path: Path) -> None:
    store = await SqliteStore.open(tmp_path / "cases.db")
    await store.save_signing_keys([("damaged", "{}")])
    await store.aclose()
    before = threading.active_count()
    placet = Placet(base_url="http://127.0.0.1:8000", db=str(tmp_path / "cases.db"))
    for _ in range(3):
        with pytest.raises(SettingsError):
            await placet.parts()
    assert threading.active_count() == before


async def test_callers_hear_in_our_own_words_that_it_could_not_start(tmp_path: Path) -> None:
    broken = Placet(base_url="http://127.0.0.1:8000", store=BrokenAtFirst(), relay={"enabled": True})
    nowhere = Placet(base_url="http://127.0.0.1:8000", db=str(tmp_path / "missing" / "cases.db"))
    for placet, status, code in ((broken, 503, "unavailable"), (nowhere, 500, "internal")):
        transport = httpx.ASGITransport(app=placet)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8000") as caller:
            answer = await caller.get("/healthz")
        assert (answer.status_code, answer.json()["error"]) == (status, code)


async def test_a_server_of_its_own_does_not_start_without_it(tmp_path: Path) -> None:
    placet = Placet(base_url="http://127.0.0.1:8000", db=str(tmp_path / "missing" / "cases.db"))
    told: list[str] = []

    async def receive() -> AsgiMessage:
        return {"type": "lifespan.startup"}

    async def send(message: AsgiMessage) -> None:
        told.append(message["type"])

    with pytest.raises(SettingsError):
        await placet({"type": "lifespan"}, receive, send)
    assert told == ["lifespan.startup.failed"]
