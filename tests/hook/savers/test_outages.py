"""What a disk cannot take is refused as a whole, and taken once the outage is over."""

import fcntl
import os
import resource
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import apsw
import pytest

from placet.errors import CheckpointConflict, MigrationError, SettingsError, Unavailable
from placet.hook.savers.file import FileSaver
from placet.hook.savers.saver import Saver
from placet.hook.savers.sqlite import SqliteSaver
from placet.testing.contracts.saver import HOUR, save_thread
from placet.testing.threads import create_thread

SOON = timedelta(milliseconds=50)
KINDS: dict[str, Callable[..., Saver]] = {"file": FileSaver, "sqlite": SqliteSaver}


@pytest.fixture(params=KINDS)
def saver_path(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    return tmp_path / request.param


@pytest.fixture
def saver(saver_path: Path) -> Iterator[Saver]:
    opened = KINDS[saver_path.name](saver_path, lock_timeout=SOON)
    yield opened
    opened.close()


@contextmanager
def limit_file_size(size: int) -> Iterator[None]:
    """For a while, no file of this process grows beyond so many bytes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_full_disk_keeps_what_was_there_and_nothing_half(saver: Saver, saver_path: Path) -> None:
    checkpoint = save_thread(saver, 2)
    before = saver.list_checkpoints("thread")
    huge = checkpoint.next(queued=("x" * 3_000_000,), stage="paused")
    with limit_file_size(1_000_000), pytest.raises(Unavailable, match="Nothing was recorded"):
        saver.put(huge)
    assert saver.list_checkpoints("thread") == before
    assert saver.list_threads("paused") == []
    assert not list(saver_path.parent.rglob("*.new"))
    saver.put(huge)
    assert saver.list_threads("paused") == ["thread"]


def test_a_lease_that_cannot_be_written_stays_as_it_was(saver: Saver) -> None:
    checkpoint = save_thread(saver, 1)
    with limit_file_size(10), pytest.raises(Unavailable):
        saver.claim(checkpoint.next(stage="running"), lease_for=HOUR)
    with limit_file_size(10), pytest.raises(Unavailable):
        saver.renew("thread", 1, lease_for=HOUR)
    with limit_file_size(10), pytest.raises(Unavailable):
        saver.put(create_thread("other").next())
    saver.claim(checkpoint.next(stage="running"), lease_for=HOUR)


@contextmanager
def lock_from_another_process(place: Path) -> Iterator[None]:
    if place.is_dir():
        locks = [os.open(lock, os.O_RDWR) for lock in place.glob(".lock-*")]
        for lock in locks:
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield
        for lock in locks:
            os.close(lock)
    else:
        other = apsw.Connection(str(place))
        other.execute("BEGIN IMMEDIATE")
        yield
        other.close()


def test_a_lock_held_by_another_process_is_waited_for_and_then_unavailable(
    saver: Saver, saver_path: Path
) -> None:
    checkpoint = save_thread(saver, 1)
    with lock_from_another_process(saver_path):
        for _ in range(2):
            with pytest.raises(Unavailable, match="Nothing was recorded"):
                saver.put(checkpoint.next())
        kept = saver.get("thread")
    assert kept is not None
    assert kept.checkpoint == checkpoint
    saver.put(checkpoint.next())


def test_a_lock_that_is_given_back_in_time_only_delays(saver_path: Path) -> None:
    saver = KINDS[saver_path.name](saver_path)
    checkpoint = save_thread(saver, 1)
    late = threading.Thread(target=saver.put, args=(checkpoint.next(),))
    with lock_from_another_process(saver_path):
        late.start()
        kept = saver.get("thread")
    late.join(60)
    assert kept is not None
    assert kept.checkpoint == checkpoint
    assert [one.checkpoint.rev for one in saver.list_checkpoints("thread")] == [2, 1]
    saver.close()


def test_a_folder_that_was_taken_away_is_unavailable(tmp_path: Path) -> None:
    saver = FileSaver(tmp_path / "threads")
    checkpoint = save_thread(saver, 1)
    shutil.rmtree(tmp_path / "threads")
    with pytest.raises(Unavailable):
        saver.put(checkpoint.next())
    with pytest.raises(Unavailable):
        saver.list_threads("ready")


def test_a_damaged_file_is_missed_and_never_taken_for_a_new_thread(tmp_path: Path) -> None:
    saver = FileSaver(tmp_path)
    checkpoint = save_thread(saver, 1)
    (path,) = tmp_path.glob("*.thread")
    whole = path.read_bytes()
    for damage in (b"", whole[:10], whole[:-1], whole[:-5] + b"\n", b"{}\n{}\n", b"[]\n{}\n", b"\xff\n\n"):
        path.write_bytes(damage)
        with pytest.raises(Unavailable):
            saver.get("thread")
        with pytest.raises((Unavailable, CheckpointConflict)):
            saver.put(create_thread("thread").next())
    path.write_bytes(whole)
    saver.put(checkpoint.next())


def test_files_and_folders_are_their_owners_alone(saver: Saver, saver_path: Path) -> None:
    save_thread(saver, 1)
    made = [saver_path, *saver_path.rglob("*"), *saver_path.parent.glob("sqlite*")]
    assert {oct(path.stat().st_mode & 0o077) for path in made} == {"0o0"}


def test_unusable_path_is_reported_when_the_saver_opens(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder, and not a database")
    with pytest.raises(SettingsError, match="cannot be used"):
        FileSaver(tmp_path / "file")
    with pytest.raises(SettingsError, match="cannot be used"):
        SqliteSaver(tmp_path / "nowhere" / "threads.db")
    with pytest.raises(MigrationError, match="not an SQLite database"):
        SqliteSaver(tmp_path / "file")


def test_foreign_database_is_not_changed(tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    other = apsw.Connection(str(path))
    other.execute("CREATE TABLE threads (id)")
    other.close()
    before = path.read_bytes()
    with pytest.raises(MigrationError, match="not one of a SqliteSaver"):
        SqliteSaver(path)
    assert path.read_bytes() == before


def test_a_database_of_another_version_is_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "threads.db"
    SqliteSaver(path).close()
    newer = apsw.Connection(str(path))
    newer.pragma("user_version", 9)
    newer.close()
    with pytest.raises(MigrationError, match="schema 9"):
        SqliteSaver(path)


FORKING = """
import os, sys
from placet.hook.savers.sqlite import SqliteSaver
from placet.testing.racing_processes import append_steps
saver = SqliteSaver(sys.argv[1])
append_steps(saver, "parent", 1)
child = os.fork()
append_steps(saver, "child" if child == 0 else "parent", 20)
if child == 0:
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
"""


def test_a_saver_opened_before_a_fork_works_on_both_sides(tmp_path: Path) -> None:
    path = tmp_path / "threads.db"
    subprocess.run([sys.executable, "-c", FORKING, str(path)], check=True, timeout=60)
    saver = SqliteSaver(path)
    kept = saver.get("thread")
    saver.close()
    assert kept is not None
    assert sorted(kept.checkpoint.queued) == ["child"] * 20 + ["parent"] * 21
    assert apsw.Connection(str(path)).pragma("integrity_check") == "ok"
