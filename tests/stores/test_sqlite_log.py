"""The log in SQLite: the store removes and rewrites nothing, and changes by other programs are found."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import apsw
import pytest

from placet.cases.events import find_broken_link
from placet.ports.store import Store
from placet.stores.sqlite.connection import connect_writer
from placet.stores.sqlite.store import SqliteStore
from placet.testing.contracts.case_store import create_answered_case

pytestmark = pytest.mark.anyio

TAMPERING = [
    "DELETE FROM events WHERE seq = 2",
    "UPDATE events SET data = '{}' WHERE seq = 2",
    "UPDATE events SET actor = 'nobody' WHERE seq = 2",
    "UPDATE events SET at = at + 1, data = NULL, salt = NULL WHERE seq = 2",
    "UPDATE events SET digest = previous WHERE seq = 2",
    "UPDATE events SET seq = 9 WHERE seq = 2",
    "UPDATE events SET salt = NULL WHERE seq = 2",
    "UPDATE events SET data = NULL WHERE seq = 2",
    "REPLACE INTO events SELECT * FROM events WHERE seq = 2",
]


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    sqlite = await SqliteStore.open(tmp_path / "placet.db")
    yield sqlite
    await sqlite.aclose()


@pytest.fixture
def intruder(store: Store, tmp_path: Path) -> Iterator[apsw.Connection]:
    connection = connect_writer(tmp_path / "placet.db")
    yield connection
    connection.close()


@pytest.mark.parametrize("statement", TAMPERING)
async def test_the_log_refuses_tampering(store: Store, intruder: apsw.Connection, statement: str) -> None:
    case = await create_answered_case(store)
    before = await store.list_events(case.id)
    with pytest.raises(apsw.ConstraintError):
        intruder.execute(statement)
    assert await store.list_events(case.id) == before


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE events SET data = CAST(replace(data, 'approve', 'decline') AS BLOB) WHERE seq = 4",
        "UPDATE events SET actor = 'nobody' WHERE seq = 4",
        "UPDATE events SET at = at + 1 WHERE seq = 4",
        "UPDATE events SET type = 'review.expired' WHERE seq = 4",
    ],
)
async def test_what_was_changed_behind_the_triggers_is_found(
    store: Store, intruder: apsw.Connection, statement: str
) -> None:
    case = await create_answered_case(store)
    assert find_broken_link(await store.list_events(case.id)) is None
    intruder.execute("DROP TRIGGER events_are_only_ever_blanked")
    intruder.execute(statement)
    assert find_broken_link(await store.list_events(case.id)) == 4


async def test_an_event_removed_behind_the_triggers_is_missed(
    store: Store, intruder: apsw.Connection
) -> None:
    case = await create_answered_case(store)
    intruder.execute("DROP TRIGGER events_are_never_removed")
    intruder.execute("DELETE FROM events WHERE seq = 2")
    assert find_broken_link(await store.list_events(case.id)) == 2


async def test_every_event_belongs_to_a_case(store: Store, intruder: apsw.Connection) -> None:
    await create_answered_case(store)
    with pytest.raises(apsw.ConstraintError, match="FOREIGN KEY"):
        intruder.execute("INSERT INTO events SELECT 999, 1, '', 0, '', NULL, NULL, '', '', '', NULL")
