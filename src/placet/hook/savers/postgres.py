"""Threads in PostgreSQL: shared by machines, with times and leases by the database's clock."""

from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, timedelta
from functools import partial
from time import monotonic
from typing import Any

import psycopg
from psycopg_pool import ConnectionPool, PoolTimeout

from placet.errors import CheckpointConflict, ThreadBusy, Unavailable
from placet.hook.checkpoint import Checkpoint, Stage
from placet.hook.savers.encoding import (
    decode_thread_id,
    digest_thread_id,
    encode_thread_id,
    read_saved,
    to_micros,
)
from placet.hook.savers.saver import WRITE_UNCERTAIN, CheckpointRetention, SavedCheckpoint, Saver

DEFAULT_TIMEOUT = timedelta(seconds=5)
CONNECTIONS = 8
SETUP_LOCK = 0x506C_6368  # advisory lock: one of several starting processes creates the tables

TABLES_EXIST = "SELECT to_regclass('placet_checkpoints') IS NOT NULL"
SCHEMA = """
CREATE TABLE IF NOT EXISTS placet_threads (
  key bytea PRIMARY KEY,
  thread_id bytea NOT NULL,
  rev bigint NOT NULL,
  stage text NOT NULL,
  saved_at timestamptz NOT NULL,
  leased_until timestamptz
);
CREATE INDEX IF NOT EXISTS placet_threads_by_stage ON placet_threads (stage, saved_at);
CREATE TABLE IF NOT EXISTS placet_checkpoints (
  key bytea NOT NULL REFERENCES placet_threads ON DELETE CASCADE,
  rev bigint NOT NULL,
  stage text NOT NULL,
  saved_at timestamptz NOT NULL,
  body text NOT NULL,
  PRIMARY KEY (key, rev)
);
"""
ENFORCE_DURABLE_SESSION = """
SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'
"""
BEGIN_THREAD = """
INSERT INTO placet_threads (key, thread_id, rev, stage, saved_at, leased_until)
VALUES (%(key)s, %(thread_id)s, %(rev)s, %(stage)s,
        clock_timestamp(), clock_timestamp() + %(lease_for)s::interval)
ON CONFLICT (key) DO NOTHING
RETURNING key, rev, stage, saved_at
"""
MOVE_THREAD = """
UPDATE placet_threads SET rev = %(rev)s, stage = %(stage)s,
  saved_at = clock_timestamp(), leased_until = clock_timestamp() + %(lease_for)s::interval
WHERE key = %(key)s AND rev = %(rev)s - 1
RETURNING key, rev, stage, saved_at
"""
CLAIM_THREAD = MOVE_THREAD.replace(
    "\nRETURNING", " AND (leased_until IS NULL OR leased_until <= clock_timestamp())\nRETURNING"
)
# One statement: one round trip and atomic. The update of the newest row guards the rest.
APPEND = """
WITH moved AS ({move}), appended AS (
  INSERT INTO placet_checkpoints (key, rev, stage, saved_at, body)
  SELECT key, rev, stage, saved_at, %(body)s FROM moved
), forgotten AS (
  DELETE FROM placet_checkpoints AS c USING moved
  WHERE c.key = moved.key AND c.rev < moved.rev
    AND (c.rev <= moved.rev - %(count)s OR c.saved_at < moved.saved_at - %(age)s::interval)
)
SELECT count(*), {durably} FROM moved
"""
# Also behind a pooler that gives every transaction another session.
ENFORCE_DURABLE_TRANSACTION = """
CASE current_setting('synchronous_commit') WHEN 'off' THEN set_config('synchronous_commit', 'on', true) END
"""
BEGIN, MOVE, CLAIM = (
    APPEND.format(move=move, durably=ENFORCE_DURABLE_TRANSACTION)
    for move in (BEGIN_THREAD, MOVE_THREAD, CLAIM_THREAD)
)
# A lease that expired after it blocked the claim still means ThreadBusy.
IS_LEASED = "SELECT rev = %s - 1 OR leased_until > clock_timestamp() FROM placet_threads WHERE key = %s"
RENEW = """
UPDATE placet_threads SET leased_until = clock_timestamp() + %s::interval WHERE key = %s AND rev = %s
"""
SELECT_NEWEST = """
SELECT rev, c.stage, body, c.saved_at, leased_until
FROM placet_threads JOIN placet_checkpoints AS c USING (key, rev) WHERE key = %s
"""
SELECT_ALL = """
SELECT c.rev, c.stage, body, c.saved_at, CASE WHEN c.rev = t.rev THEN leased_until END
FROM placet_threads AS t JOIN placet_checkpoints AS c USING (key) WHERE key = %s ORDER BY c.rev DESC
"""
SELECT_THREADS = "SELECT thread_id FROM placet_threads WHERE stage = %s ORDER BY saved_at, thread_id"
FORGET = "DELETE FROM placet_threads WHERE key = %s"


class PostgresSaver(Saver):
    """Saves threads in the database named by `conninfo`, in two tables that it creates if missing.

    Needs the extra `placet[postgres]`. Open it after a fork, not before. If the connection breaks during
    a write, or the server stops responding, Unavailable leaves open whether the checkpoint was saved:
    completely or not at all; `get` tells. `timeout` is how long to wait for a connection, and how long
    the server may be silent. No session state is used, so a pooler may share connections between
    transactions.
    """

    def __init__(
        self,
        conninfo: str,
        *,
        retain: CheckpointRetention | None = None,
        connections: int = CONNECTIONS,
        timeout: timedelta = DEFAULT_TIMEOUT,
    ) -> None:
        self._retain = retain or CheckpointRetention()
        self._pool = ConnectionPool(
            conninfo,
            connection_class=_TimedConnection,
            kwargs={
                "autocommit": True,
                "prepare_threshold": None,
            },  # poolers may not support prepared statements
            min_size=1,
            max_size=connections,
            timeout=timeout.total_seconds(),
            configure=partial(_configure, timeout=timeout),
            check=ConnectionPool.check_connection,
            open=True,
        )
        try:
            self._make_tables()
        except Unavailable as error:
            self._pool.close()
            reason = _connection_problem(conninfo, error.__cause__)
            raise Unavailable(f"PostgreSQL cannot be used: {reason}") from error

    def get(self, thread_id: str) -> SavedCheckpoint | None:
        for row in self._read_rows(SELECT_NEWEST, (_build_key(thread_id),)):
            return _saved_checkpoint_from_row(thread_id, row)
        return None

    def put(self, checkpoint: Checkpoint, *, lease_for: timedelta | None = None) -> None:
        if not self._append(MOVE, checkpoint, lease_for):
            raise CheckpointConflict

    def claim(self, checkpoint: Checkpoint, *, lease_for: timedelta) -> None:
        if not self._append(CLAIM, checkpoint, lease_for):
            leased = self._read_rows(IS_LEASED, (checkpoint.rev, _build_key(checkpoint.thread_id)))
            raise ThreadBusy if leased and leased[0][0] else CheckpointConflict

    def renew(self, thread_id: str, rev: int, *, lease_for: timedelta) -> None:
        with self._connection() as connection:
            if not connection.execute(RENEW, (lease_for, _build_key(thread_id), rev)).rowcount:
                raise CheckpointConflict

    def list_checkpoints(self, thread_id: str) -> Sequence[SavedCheckpoint]:
        return [
            _saved_checkpoint_from_row(thread_id, row)
            for row in self._read_rows(SELECT_ALL, (_build_key(thread_id),))
        ]

    def list_threads(self, stage: Stage) -> Sequence[str]:
        return [decode_thread_id(bytes(key)) for (key,) in self._read_rows(SELECT_THREADS, (stage,))]

    def release(self, thread_id: str) -> None:
        with self._connection() as connection:
            connection.execute(FORGET, (_build_key(thread_id),))

    def close(self) -> None:
        self._pool.close()

    def _append(self, move: str, checkpoint: Checkpoint, lease_for: timedelta | None) -> bool:
        parameters = {
            "key": _build_key(checkpoint.thread_id),
            "thread_id": encode_thread_id(checkpoint.thread_id),
            "rev": checkpoint.rev,
            "stage": checkpoint.stage,
            "body": checkpoint.to_json(),
            "lease_for": lease_for,
            "count": self._retain.count,
            "age": self._retain.age,
        }
        ((moved, _),) = self._read_rows(BEGIN if checkpoint.rev == 1 else move, parameters)
        return bool(moved)

    def _read_rows(self, query: str, parameters: Any) -> Sequence[Any]:
        with self._connection() as connection:
            return connection.execute(query, parameters).fetchall()

    def _make_tables(self) -> None:
        with self._connection() as connection:
            ((there,),) = connection.execute(TABLES_EXIST).fetchall()
            if not there:
                with connection.transaction():
                    connection.execute("SELECT pg_advisory_xact_lock(%s)", (SETUP_LOCK,))
                    connection.execute(SCHEMA)

    @contextmanager
    def _connection(self) -> Iterator["_TimedConnection"]:
        try:
            with self._pool.connection() as connection:
                try:
                    yield connection
                except psycopg.Error as error:
                    if isinstance(error, psycopg.errors.ReadOnlySqlTransaction):
                        connection.close()  # after a failover the primary is another server: reconnect
                    raise (
                        Unavailable(WRITE_UNCERTAIN) if error.sqlstate is None else Unavailable()
                    ) from error
        except psycopg.Error as error:
            raise Unavailable from error


class _TimedConnection(psycopg.Connection[Any]):
    """A connection that limits how long the server may be silent, for example because a row is locked.

    Then the statement is cancelled: if that works, nothing was written. If not, the connection is
    dropped. No session setting is used for this: behind a pooler it would apply to all clients.
    """

    timeout_s = DEFAULT_TIMEOUT.total_seconds()

    def wait(self, gen: Any, *args: Any, **named: Any) -> Any:
        return super().wait(self._with_timeout(gen), *args, **named)

    def _with_timeout(self, steps: Generator[Any, Any, Any]) -> Generator[Any, Any, Any]:
        ready, responded_at, is_cancelled = None, monotonic(), False
        while True:
            try:
                ready = yield steps.send(ready)
            except StopIteration as end:
                return end.value
            if ready:
                responded_at = monotonic()
            elif monotonic() - responded_at >= self.timeout_s:
                if is_cancelled:
                    raise psycopg.OperationalError("the server does not respond")
                with suppress(psycopg.Error):
                    self.cancel_safe(timeout=self.timeout_s)
                responded_at, is_cancelled = monotonic(), True


def _configure(connection: _TimedConnection, timeout: timedelta) -> None:
    connection.timeout_s = timeout.total_seconds()
    connection.execute(ENFORCE_DURABLE_SESSION)


def _connection_problem(conninfo: str, error: BaseException | None) -> str:
    """Return the server's reason; a pool only reports that it has no connection."""
    if isinstance(error, PoolTimeout):
        try:
            psycopg.connect(conninfo, connect_timeout=2).close()
        except psycopg.OperationalError as refused:
            error = refused
        except psycopg.Error:  # its message would quote the password
            return "the connection string is invalid."
    return str(error).partition("\n")[0]


def _build_key(thread_id: str) -> bytes:
    """Return a key of fixed length: an index takes no key longer than a third of a page."""
    return bytes.fromhex(digest_thread_id(thread_id))


def _saved_checkpoint_from_row(thread_id: str, row: Any) -> SavedCheckpoint:
    rev, stage, body, saved_at, leased_until = row
    until = None if leased_until is None else to_micros(leased_until.astimezone(UTC))
    return read_saved(thread_id, rev, stage, body, to_micros(saved_at.astimezone(UTC)), until)
