"""Every change of a case or of the audit log by another program is found when the log is verified."""

from collections.abc import Iterator
from datetime import timedelta
from itertools import pairwise
from typing import Any

import apsw
import msgspec
import pytest

from placet.bootstrap.storage import open_memory_store
from placet.cases.log_checkpoint import LogCheckpoint
from placet.desk.answer import Answer
from placet.desk.log_checkpoints import build_checkpoint
from placet.desk.log_verification import LogTotals, verify_log
from placet.ports.store import Store
from placet.protocol.poll import RespondedBy
from placet.relay.audit.retention import strip_bodies
from placet.stores.sqlite import in_memory
from placet.testing.clock import DAYBREAK
from placet.testing.desk import ACME, DeskForTests, create_desk_for_tests
from placet.testing.relay_samples import sample_audit
from tests.desk.granting import LenientReviewType, call, create_grant, make_grant_service

SECOND = timedelta(seconds=1)
MESSAGE = {"payload": {"method": "SendMessage", "requestBody": {"text": "hello"}}, "metadata": None}


async def fill(store: Store) -> DeskForTests:
    """Create cases in every state, with grants, and audit events of two tenants, whole and redacted."""
    kit = create_desk_for_tests(store=store)
    tools = create_desk_for_tests(
        store=store, clock=kit.clock, review_types={"approval": LenientReviewType()}
    )
    await kit.human(await kit.open()).answer("approve")
    await create_grant(tools)
    kit.clock.advance(kit.desk.limits.keep_for)
    await kit.sweep.run_once()
    service = make_grant_service(tools)
    used, revoked = await create_grant(tools), await create_grant(tools)
    assert (await service.use(call(1), ACME)) is not None
    assert used.id != revoked.id
    await service.revoke(revoked.id, ACME)
    await kit.open()
    answered, cancelled = await kit.open(), await kit.open()
    case, _ = await kit.human(answered).look()
    ada = RespondedBy(name="Ada", email="ada@acme.example")
    answer = Answer(action="approve", data={}, path="browser_submit", actor="link:1", responded_by=ada)
    await kit.desk.answer(answered.id, answer, shown=case.offer_digest)
    await kit.human(await kit.open()).type({"a": "b"})
    await kit.desk.cancel(cancelled.id, ACME, reason="no need")
    await kit.open(timeout="1m")
    kit.clock.advance(timedelta(minutes=1))
    await kit.sweep.run_once()
    await add_audit_events(store)
    return kit


async def add_audit_events(store: Store) -> None:
    body = msgspec.json.encode(MESSAGE)
    events = [sample_audit(at=DAYBREAK + SECOND * number, body=body) for number in range(6)]
    plain = [sample_audit(at=DAYBREAK + SECOND * (6 + number), task_id="task") for number in range(2)]
    await store.add_audit_events(
        [*events, *plain, sample_audit(tenant="other"), sample_audit(tenant="other")]
    )
    assert await store.delete_older("acme", before=DAYBREAK + SECOND * 2, limit=100) == 2
    old = await store.list_events_to_redact("acme", before=DAYBREAK + SECOND * 4, limit=100)
    await store.redact_audit_events([strip_bodies(event, DAYBREAK) for event in old])


def serialize(store: Store) -> bytes:
    return bytes(store._writer._connection.serialize("main"))  # type: ignore[attr-defined]


def open_changed(monkeypatch: pytest.MonkeyPatch, content: bytes) -> Store:
    monkeypatch.setattr(in_memory, "_build_empty_database", lambda: content)
    try:
        return open_memory_store()
    finally:
        monkeypatch.undo()


async def verify(store: Store, *checkpoints: LogCheckpoint) -> list[str]:
    return [f"{one.case_id}: {one.problem}" async for one in verify_log(store, checkpoints, LogTotals())]


def tamper(content: bytes, *statements: tuple[str, tuple[Any, ...]]) -> bytes | None:
    """Return the database after these statements, or None if the schema refuses them or nothing changed."""
    connection = apsw.Connection(":memory:")
    connection.deserialize("main", content)
    for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'trigger'").fetchall():
        connection.execute(f"DROP TRIGGER {name}")
    connection.pragma("foreign_keys", False)
    before = connection.total_changes()
    try:
        for sql, params in statements:
            connection.execute(sql, params)
    except (apsw.ConstraintError, apsw.MismatchError):
        return None
    return bytes(connection.serialize("main")) if connection.total_changes() > before else None


FIRST_PLAIN = 7  # the number of the first audit event without messages
TABLES = ("cases", "offers", "events", "grants", "audit_events", "audit_heads")
Change = tuple[str, list[tuple[str, tuple[Any, ...]]]]


def list_changes(content: bytes) -> Iterator[Change]:
    """Yield every change of a value, every swap, copy and deletion of rows."""
    connection = apsw.Connection(":memory:")
    connection.deserialize("main", content)
    for table in TABLES:
        columns = [str(row[1]) for row in connection.execute(f"PRAGMA table_info({table})")]
        key = "tenant" if table == "audit_heads" else "rowid"
        rows: list[Any] = connection.execute(f"SELECT {key}, * FROM {table} ORDER BY 1").fetchall()
        for row_key, *values in rows:
            yield f"{table} {row_key} deleted", [(f"DELETE FROM {table} WHERE {key} = ?", (row_key,))]
            for column, value in zip(columns, values, strict=True):
                for label, new in list_values(value, [row[1 + columns.index(column)] for row in rows]):
                    if new == value:
                        continue
                    name = f"{table} {row_key} {column} {label}"
                    yield name, [(f"UPDATE {table} SET {column} = ? WHERE {key} = ?", (new, row_key))]
        yield f"{table} emptied", [(f"DELETE FROM {table}", ())]
        yield f"{table} truncated", [(f"DELETE FROM {table} WHERE {key} >= ?", (rows[-2][0],))]
        if key == "rowid":
            yield from list_row_changes(table, columns, [row[0] for row in rows])


def list_values(value: Any, others: list[Any]) -> Iterator[tuple[str, Any]]:
    """Yield other values for a column: another row's, none, and slight changes."""
    other = next((one for one in others if one not in (value, None)), None)
    if other is not None:
        yield "of another row", other
    if value is None:
        yield "set", b"{}" if isinstance(other, bytes) else 7 if isinstance(other, int) else "x"
        return
    yield "removed", None
    if isinstance(value, bytes):
        yield "changed", value[:-1] + b',"x":{}}' if value.endswith(b"}") else value + b"x"
        yield "truncated", value[: len(value) // 2]
        yield "emptied", b"{}"
    elif isinstance(value, int):
        yield "changed", value + 1
        yield "negative", -1
        yield "too large", 2**63 - 1
    else:
        yield "changed", value + "x"
        yield "emptied", ""


def list_row_changes(table: str, columns: list[str], keys: list[int]) -> Iterator[Change]:
    for one, other in pairwise(keys):
        swap = [
            (f"UPDATE {table} SET rowid = ? WHERE rowid = ?", pair)
            for pair in ((-1, one), (one, other), (other, -1))
        ]
        if table != "grants":  # grants of one case have no order
            yield f"{table} {one} and {other} swapped", swap
    names = ", ".join(column for column in columns if column != "number")
    for number, column in enumerate(columns):
        if column in ("id", "seq", "case_number") and column != "number":
            fresh = "id || 'x'" if column == "id" else f"{column} + 1000"
            values = ", ".join(fresh if name == column else name for name in names.split(", "))
            copy = f"INSERT INTO {table} ({names}) SELECT {values} FROM {table} WHERE rowid = ?"
            yield f"{table} copied with another {column} {number}", [(copy, (keys[0],))]


def list_json_changes(content: bytes) -> Iterator[Change]:
    """Yield a change, a removal and an addition of each member of each state and offer."""
    connection = apsw.Connection(":memory:")
    connection.deserialize("main", content)
    for table, column in (("cases", "state"), ("offers", "offer"), ("events", "data")):
        rows: list[Any] = connection.execute(f"SELECT rowid, {column} FROM {table}").fetchall()
        for row_key, text in rows:
            for label, new in list_documents(msgspec.json.decode(text)) if text else ():
                sql = f"UPDATE {table} SET {column} = ? WHERE rowid = ?"
                yield f"{table} {row_key} {column} {label}", [(sql, (msgspec.json.encode(new), row_key))]


def list_documents(document: Any) -> Iterator[tuple[str, Any]]:
    yield "with an unknown member", {**document, "unknown": 1}
    for name, value in document.items():
        yield f"without {name}", {key: document[key] for key in document if key != name}
        changed = value + "x" if isinstance(value, str) else [value]
        yield f"with another {name}", {**document, name: changed}
        if isinstance(value, dict) and value:
            yield from ((f"{name} {label}", {**document, name: one}) for label, one in list_documents(value))


def has_no_effect(name: str) -> bool:
    """Return whether a change says nothing false, and cannot be told from what retention does.

    A later timer of a closed case may come from another retention period; the sweep corrects it. An event
    without messages has nothing that redaction could remove.
    """
    table, row, column, *change = name.split()
    is_later_timer = (
        (table, column) == ("cases", "due_at") and change != ["removed"] and row not in ("1", "2")
    )
    is_redaction_of_nothing = (table, column) == ("audit_events", "redacted") and int(row) >= FIRST_PLAIN
    return is_later_timer or is_redaction_of_nothing


@pytest.mark.anyio
async def test_every_change_by_another_program_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    store = open_memory_store()
    kit = await fill(store)
    checkpoint = await build_checkpoint(store, now=kit.clock())
    content = serialize(store)
    assert await verify(open_changed(monkeypatch, content), checkpoint) == []
    tried, missed = 0, []
    for name, statements in (*list_changes(content), *list_json_changes(content)):
        changed = tamper(content, *statements)
        if changed is None:
            continue
        tried += 1
        if not await verify(open_changed(monkeypatch, changed), checkpoint):
            missed.append(name)
    assert [name for name in missed if not has_no_effect(name)] == []
    assert tried > 2_000
    assert len(missed) < 30


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("path", "value", "problem"),
    [
        ("$.expires_at", "2030-01-01T00:00:00Z", "expires_at is not what the events say."),
        ("$.owner", "other", "owner is not what the events say."),
        ("$.owner", None, "owner is not what the events say."),
        ("$.type", "confirmation", "type is not what the events say."),
        ("$.review_digests[1]", "0" * 64, "The number of review links is not what the events say."),
    ],
)
async def test_a_change_that_later_events_cover_is_found(
    monkeypatch: pytest.MonkeyPatch, path: str, value: str | None, problem: str
) -> None:
    store = open_memory_store()
    opened = await create_desk_for_tests(store=store).open()
    sql = "UPDATE cases SET state = CAST(json_set(CAST(state AS TEXT), ?, ?) AS BLOB)"
    content = tamper(serialize(store), (sql, (path, value)))
    assert content is not None
    changed = open_changed(monkeypatch, content)
    await create_desk_for_tests(store=changed).desk.pass_on(opened.id, actor="person")
    assert f"{opened.id}: {problem}" in await verify(changed)
