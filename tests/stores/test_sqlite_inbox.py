"""Lists of what waits: filled in for older files, and as quick with a hundred thousand cases as with ten."""

import time
from datetime import timedelta
from pathlib import Path

import apsw
import pytest

from placet.cases.case import Case
from placet.cases.commands import Expire
from placet.ports.inbox_store import InboxCursor
from placet.stores.sql.rows import encode, to_micros
from placet.stores.sqlite.migrate import MIGRATIONS, migrate
from placet.stores.sqlite.store import SqliteStore
from placet.testing.clock import DAYBREAK
from placet.testing.samples import sample_approval, sample_creation, sample_offer, sample_step

pytestmark = pytest.mark.anyio

MANY = 100_000
OLD_CASE = "INSERT INTO cases (id, owner, status, version, due_at, state) VALUES (?, ?, ?, ?, ?, ?)"
NEW_CASE = (
    "INSERT INTO cases (id, owner, status, version, due_at, state, waits_until) VALUES (?, ?, ?, ?, ?, ?, ?)"
)
OFFER = "INSERT INTO offers (case_number, offer) VALUES (?, ?)"


def write_old_case(connection: apsw.Connection, case: Case, *, erased: bool = False) -> None:
    """A case as it was written before there were lists."""
    row = (case.id, case.owner, case.status, case.version, 1, encode(case))
    connection.execute(OLD_CASE, row)
    if not erased:
        connection.execute(OFFER, (connection.last_insert_rowid(), encode(sample_offer())))


async def test_an_older_file_lists_what_it_holds_once_it_is_migrated(tmp_path: Path) -> None:
    path = tmp_path / "placet.db"
    migrate(path, scripts={number: sql for number, sql in MIGRATIONS.items() if number < 6})
    odd = DAYBREAK + timedelta(hours=3, microseconds=1_204)
    soon, late = (
        sample_creation(expires_at=odd).case,
        sample_creation(expires_at=odd + timedelta(hours=1)).case,
    )
    done = sample_step(sample_creation().case, sample_approval(), now=odd).case
    over = sample_step(sample_creation().case, Expire(actor="system"), now=DAYBREAK + timedelta(days=2)).case
    erased = sample_step(sample_creation().case, sample_approval(), now=odd).case
    connection = apsw.Connection(str(path))
    for case in (late, done, soon, over):
        write_old_case(connection, case)
    write_old_case(connection, erased, erased=True)
    connection.close()
    migrate(path)
    store = await SqliteStore.open(path)
    try:
        assert [case for case, _ in await store.list_waiting_cases(["acme"], now=DAYBREAK)] == [soon, late]
        assert [case for case, _ in await store.list_waiting_cases(["acme"], now=odd)] == [late]
        assert [case for case, _ in await store.list_closed_cases(["acme"])] == [over, done]
    finally:
        await store.aclose()


async def test_a_page_is_quick_however_much_waits(tmp_path: Path) -> None:
    path = tmp_path / "placet.db"
    migrate(path)
    connection = apsw.Connection(str(path))
    soonest = to_micros(DAYBREAK) + 1
    state, offer = encode(sample_creation().case), encode(sample_offer())
    connection.execute("BEGIN")
    connection.executemany(
        NEW_CASE,
        (
            (
                f"review_{n}",
                f"owner {n % 40}",
                "pending",
                1,
                1,
                state,
                soonest + n * 7_919 % MANY,
            )
            for n in range(MANY)
        ),
    )
    connection.execute("INSERT INTO offers (case_number, offer) SELECT number, ? FROM cases", (offer,))
    connection.execute("COMMIT")
    connection.close()
    store = await SqliteStore.open(path)
    try:
        owners = await store.list_owners()
        assert len(owners) == 40
        middle = InboxCursor(at=DAYBREAK + timedelta(microseconds=MANY // 2), case_id="review_5")
        await store.list_waiting_cases(owners, now=DAYBREAK, limit=1)
        began = time.process_time()
        for after in (None, middle):
            assert len(await store.list_waiting_cases(owners, now=DAYBREAK, after=after, limit=50)) == 50
        assert time.process_time() - began < 2.0  # some milliseconds of work
    finally:
        await store.aclose()
