"""What probes, metrics and callers see of a storage failure."""

import os
import resource
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import apsw
import httpx
import pytest

from tests.cli.process import COMMAND, serving
from tests.server.running import RunningServer, running
from tests.waiting import eventually

DRAFT = {"type": "confirmation", "prompt": "Water the plants?", "inline_actions": ["confirm", "cancel"]}


LOG_SPACE = 65_536
"""The server writes its log into a file, which the limit must not stop."""


def ready(client: httpx.Client) -> int:
    return client.get("/readyz").status_code


@contextmanager
def log_in_use(database: Path) -> Iterator[None]:
    """Keep a reader on the write-ahead log: it is neither emptied nor written from its beginning."""
    # apsw, as the server: another library in the same process would release its locks
    with closing(apsw.Connection(str(database), flags=apsw.SQLITE_OPEN_READONLY)) as reader:
        reader.execute("BEGIN").execute("SELECT count(*) FROM cases").fetchall()
        yield


@contextmanager
def full_disk(client: httpx.Client, process_id: int, database: Path) -> Iterator[None]:
    """Let no file of the process become longer than its write-ahead log is now."""
    wal = Path(f"{database}-wal")
    while wal.stat().st_size < LOG_SPACE:
        assert client.post("/v1/cases", json=DRAFT).status_code == 202
    with log_in_use(database):
        assert client.post("/v1/cases", json=DRAFT).status_code == 202
        limit = (wal.stat().st_size, resource.RLIM_INFINITY)
        before = resource.prlimit(process_id, resource.RLIMIT_FSIZE, limit)
        try:
            yield
        finally:
            resource.prlimit(process_id, resource.RLIMIT_FSIZE, before)


def test_a_database_deleted_under_a_running_server_gives_503_and_no_acknowledgement(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with running(tmp_path) as server, server.client(server.api_key) as client:
        hitl = server.open(client, **DRAFT)
        assert ready(client) == 200
        os.rename(tmp_path / "cases.db", tmp_path / "moved.db")
        for refused in (
            client.get("/readyz"),
            client.post("/v1/cases", json=DRAFT),
            server.press(hitl, "confirm"),
            client.get(hitl["poll_url"]),
        ):
            assert (refused.status_code, refused.json()["error"]) == (503, "unavailable")
            assert refused.headers["retry-after"] == "2"
        assert client.get("/healthz").status_code == 200
        metrics = client.get("/metrics").text
        assert 'placet_storage_outage{operation="write"} 1.0' in metrics
        assert "storage_outage operation=write" in caplog.text
        os.rename(tmp_path / "moved.db", tmp_path / "cases.db")
        assert ready(client) == 200
        assert server.press(hitl, "confirm").status_code == 200
        assert 'placet_storage_outage{operation="write"} 0.0' in client.get("/metrics").text


def test_metrics_of_a_sound_server_show_no_outage(tmp_path: Path) -> None:
    with running(tmp_path) as server, server.client(server.api_key) as client:
        server.open(client, **DRAFT)
        metrics = client.get("/metrics").text
    for operation in ("read", "write"):
        assert f'placet_storage_refused_total{{operation="{operation}"}} 0.0' in metrics
        assert f'placet_storage_outage{{operation="{operation}"}} 0.0' in metrics


def test_a_full_disk_is_reported_by_readiness_log_and_metrics(tmp_path: Path) -> None:
    with serving(tmp_path, program=COMMAND) as server:
        server.url()
        with server.client(server.admin_key) as client:
            with full_disk(client, server.process.pid, tmp_path / "cases.db"):
                assert client.post("/v1/cases", json=DRAFT).status_code == 503
                assert ready(client) == 503
                assert 'placet_storage_outage{operation="write"} 1.0' in client.get("/metrics").text
            eventually(lambda: ready(client) == 200)
        assert server.stop() == 0
        assert server.stderr.count("storage_outage") == 1
        assert server.stderr.count("storage_recovered") == 1


def test_an_idle_server_on_a_full_disk_is_not_ready(tmp_path: Path) -> None:
    with serving(tmp_path, program=COMMAND) as server:
        server.url()
        with (
            server.client(server.admin_key) as client,
            full_disk(client, server.process.pid, tmp_path / "cases.db"),
        ):
            assert ready(client) == 503


def test_a_read_only_database_is_not_ready(tmp_path: Path) -> None:
    with running(tmp_path) as server, server.client(server.api_key) as client:
        set_query_only(server, True)
        refused = client.get("/readyz")
        assert (refused.status_code, refused.json()["error"]) == (503, "unavailable")
        assert client.post("/v1/cases", json=DRAFT).status_code == 503
        set_query_only(server, False)
        assert ready(client) == 200


@pytest.mark.parametrize(("name", "size"), [("cases.db-wal", 0), ("cases.db", 8_192)])
def test_a_server_with_a_damaged_file_is_not_ready_although_some_reads_succeed(
    tmp_path: Path, name: str, size: int
) -> None:
    with running(tmp_path) as server, server.client(server.api_key) as client:
        with log_in_use(tmp_path / "cases.db"):
            hitl = server.open(client, **DRAFT)
            os.truncate(tmp_path / name, size)
        client.post("/v1/cases", json=DRAFT)
        eventually(lambda: ready(client) == 503)
        for _ in range(3):
            client.get(hitl["poll_url"])
            assert ready(client) == 503
        metrics = client.get("/metrics").text
        outages = [f'placet_storage_outage{{operation="{name}"}} 1.0' for name in ("read", "write")]
        assert any(outage in metrics for outage in outages)


def set_query_only(server: RunningServer, query_only: bool) -> None:
    async def switch() -> None:
        server.parts.store._writer._connection.pragma("query_only", query_only)  # type: ignore[attr-defined]

    server.run(switch())
