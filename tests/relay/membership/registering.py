"""Registers agents as another process would: through the file, not through the server."""

from placet.desk import clock
from placet.relay.membership.records import read_enrolled, record_of, roster_record
from placet.relay.settings import AgentSettings
from placet.stores.sqlite.store import SqliteStore


async def register(db: str, agent_id: str, url: str) -> None:
    store = await SqliteStore.open(db)
    try:
        rev = (await read_enrolled(store)).rev
        agent = record_of("agent", ("default", agent_id), AgentSettings(url=url), rev=1, now=clock.now())
        await store.change_records(save=(agent, roster_record(rev=rev + 1, now=clock.now())))
    finally:
        await store.aclose()
