"""`placet serve` as an operator starts it: its first key, its refusals, its end."""

import asyncio
import os
import re
import resource
import shutil
import signal
import socket
import stat
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from placet.bootstrap.storage import open_memory_store
from placet.cli.admin_key import write_first_admin_key
from placet.ports.store import Store
from tests.cli.process import COMMAND, placet, serving
from tests.waiting import PATIENCE_S, eventually

KEY = re.compile(r"placet_[A-Za-z0-9_-]{43}\n")


@asynccontextmanager
async def open_memory() -> AsyncIterator[Store]:
    store = open_memory_store()
    try:
        yield store
    finally:
        await store.aclose()


def test_the_first_admin_key_is_in_a_file_of_its_owner_and_not_in_the_journal(tmp_path: Path) -> None:
    with serving(tmp_path) as first:
        first.url()
        file = tmp_path / "cases.db.admin-key"
        assert first.stdout == f"{file}\n"
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert KEY.fullmatch(file.read_text())
        key = first.admin_key
        assert key not in first.stdout + first.stderr
        with first.client(key) as client:
            assert client.get("/v1/reviews").json() == {"cases": [], "next": None}
        assert first.stop() == 0
    with serving(tmp_path) as second:
        second.url()
        assert second.stdout == ""
        with second.client(key) as client:
            assert client.get("/v1/reviews").status_code == 200


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077, 0o777])
@pytest.mark.anyio
async def test_admin_key_file_is_for_its_owner_whatever_the_umask(tmp_path: Path, umask: int) -> None:
    async with open_memory() as store:
        before = os.umask(umask)
        try:
            path = await write_first_admin_key(store, f"sqlite:///{tmp_path}/new.db")
        finally:
            os.umask(before)
    assert path == tmp_path / "new.db.admin-key"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert KEY.fullmatch(path.read_text())


@pytest.mark.parametrize("planted", ["file", "link", "dangling link", "folder"])
def test_first_start_writes_its_key_into_nothing_that_was_there_before(tmp_path: Path, planted: str) -> None:
    there = tmp_path / "cases.db.admin-key"
    target = tmp_path / "of-somebody-else"
    if planted == "folder":
        there.mkdir()
    elif planted == "file":
        there.touch(mode=0o666)
    else:
        there.symlink_to(target)
    if planted == "link":
        target.touch()
    run = placet(tmp_path, "serve", "--port", "0", "--db", "cases.db")
    assert run.returncode == 1
    assert run.stdout == ""
    assert f"placet: {there} already exists" in run.stderr
    assert "Traceback" not in run.stderr
    assert planted == "folder" or there.is_symlink() or there.read_text() == ""
    assert not target.exists() or target.read_text() == ""
    assert placet(tmp_path, "key", "list", "--db", "cases.db").stdout == ""  # nobody has a key that is lost


@pytest.mark.anyio
async def test_servers_that_start_together_write_one_admin_key(tmp_path: Path) -> None:
    async with open_memory() as store:
        found = await asyncio.gather(*(write_first_admin_key(store, f"{tmp_path}/new.db") for _ in range(8)))
        assert len([path for path in found if path is not None]) == 1
        assert len(await store.list_api_keys()) == 1


@pytest.mark.anyio
async def test_admin_key_of_a_database_in_memory_is_in_a_private_folder() -> None:
    async with open_memory() as store:
        path = await write_first_admin_key(store, ":memory:")
    assert path is not None
    try:
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
        assert KEY.fullmatch(path.read_text())
    finally:
        shutil.rmtree(path.parent)


def test_only_the_keys_digest_is_in_the_database(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        server.url()
        key = server.admin_key
        assert server.stop() == 0
    stored = b"".join(path.read_bytes() for path in tmp_path.glob("cases.db*") if path.suffix != ".admin-key")
    assert key.encode() not in stored


def test_the_demo_takes_another_port_and_says_so(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with serving(tmp_path, "--port", str(port), command="demo") as demo:
            assert not demo.url().endswith(f":{port}")
            assert f"port {port}: Address already in use. The demo uses another port.\n" in demo.stderr
            assert demo.stop() == 0


def test_the_demo_shows_a_command_that_can_be_typed_in_a_checkout(tmp_path: Path) -> None:
    with serving(tmp_path, command="demo", env={"PATH": str(tmp_path)}, program=COMMAND) as demo:
        typed = f"    {COMMAND} request POST '{demo.url()}/api/demo"
        assert eventually(lambda: typed in demo.stdout)


def test_unavailable_host_is_named_and_not_reported_as_a_used_port(tmp_path: Path) -> None:
    away = ("--host", "203.0.113.1", "--base-url", "https://placet.example", "--port", "8400")
    run = placet(tmp_path, "serve", *away)
    assert run.returncode == 1
    assert run.stderr == "placet: Cannot listen on 203.0.113.1 port 8400: Cannot assign requested address.\n"


def test_a_port_in_use_is_named_and_nothing_starts(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        run = placet(tmp_path, "serve", "--port", str(port))
    assert run.returncode == 1
    assert run.stderr == (
        f"placet: Cannot listen on 127.0.0.1 port {port}: Address already in use.\n"
        "Stop the program that uses it, or choose another port with --port.\n"
    )
    assert run.stdout == ""
    assert not (tmp_path / "placet.db").exists()


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("--base-url", "http://placet.example"), "base_url 'http://placet.example' must be https://"),
        (("--base-url", "https://placet.example/?a=b"), "must not have a query"),
        (("--base-url", "placet.example"), "must be https://"),
        (("--host", "0.0.0.0"), "Listening on 0.0.0.0 requires base_url"),
        (("--db", "no/such/folder.db"), "no/such/folder.db cannot be used: No such file"),
        (("--config", "no.toml"), "no.toml cannot be read"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_invalid_settings_prevent_the_start(
    tmp_path: Path, arguments: tuple[str, ...], complaint: str
) -> None:
    run = placet(tmp_path, "serve", "--port", "0", *arguments)
    assert run.returncode == 1
    assert complaint in run.stderr
    assert "Traceback" not in run.stderr
    assert run.stdout == ""


def test_usage_error_shows_how_to_get_help(tmp_path: Path) -> None:
    run = placet(tmp_path, "serve", "--port", "70000")
    assert run.returncode == 2
    assert "70000 is not in the range" in run.stderr
    assert "placet serve --help" in run.stderr


def test_foreign_database_file_is_not_changed(tmp_path: Path) -> None:
    precious = tmp_path / "cases.db"
    precious.write_text("a letter, " * 1000)
    run = placet(tmp_path, "serve", "--port", "0", "--db", "cases.db")
    assert run.returncode == 1
    assert "is not an SQLite database" in run.stderr
    assert precious.read_text() == "a letter, " * 1000


def test_the_base_url_is_in_every_address_that_is_handed_out(tmp_path: Path) -> None:
    with serving(tmp_path, "--base-url", "https://placet.example/hitl/") as server:
        with server.client() as client:
            client.headers["Authorization"] = f"Bearer {server.admin_key}"
            opened = client.post("/v1/cases", json={"type": "confirmation", "prompt": "Go?"}).json()["hitl"]
            base = "https://placet.example/hitl"
            assert opened["review_url"].startswith(f"{base}/review/{opened['case_id']}?token=")
            assert opened["poll_url"] == f"{base}/v1/reviews/{opened['case_id']}/status"
            entered = client.get(opened["review_url"].removeprefix(base))
        assert entered.headers["location"] == f"/hitl/review/{opened['case_id']}"
        assert entered.headers["set-cookie"].startswith("__Host-placet_case")
        assert "; Path=/;" in entered.headers["set-cookie"]
        assert "; Secure" in entered.headers["set-cookie"]
        assert f"public_url={base} " in server.stderr


def test_ctrl_c_ends_a_server_in_order(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        server.url()
        assert server.stop(signal.SIGINT) == 0
        assert "server_stopped" in server.stderr
        assert "Traceback" not in server.stderr


@pytest.mark.parametrize("limit", [8, 20, 63])
def test_a_limit_of_open_files_that_is_too_low_is_one_sentence(tmp_path: Path, limit: int) -> None:
    run = subprocess.run(
        [COMMAND, "serve", "--port", "0"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit)),
    )
    assert run.returncode == 1
    assert run.stderr.startswith(f"placet: This process may open only {limit} files, and a server needs ")
    assert "Traceback" not in run.stderr
    assert not list(tmp_path.iterdir())
