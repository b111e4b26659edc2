"""Registers agents as another process would: through the file, not through the server."""

from placet.desk import clock
from placet.relay.registry import build_record, build_revision_record, read_stored_registry
from placet.relay.settings import AgentSettings
from placet.stores.sqlite.store import SqliteStore


async def register(db: str, agent_id: str, url: str) -> None:
    store = await SqliteStore.open(db)
    try:
        rev = (await read_stored_registry(store)).rev
        agent = build_record("agent", ("default", agent_id), AgentSettings(url=url), rev=1, now=clock.now())
        await store.change_records(save=(agent, build_revision_record(rev=rev + 1, now=clock.now())))
    finally:
        await store.aclose()
