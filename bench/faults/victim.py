"""The real `placet serve` on one file and one port: started, killed without warning, started again."""

import asyncio
import signal
import socket
import subprocess
import sys
from pathlib import Path

import aiohttp
from msgspec.structs import replace

from bench.faults.checks import ServerRun
from placet.desk import clock

READY_WITHIN_S = 30.0
STOP_WITHIN_S = 30.0
PLACET = Path(sys.executable).with_name("placet")


class Victim:
    """One server over many lives."""

    def __init__(self, db: Path) -> None:
        self.db = db
        self.port = _free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.lives: list[ServerRun] = []
        self._log = db.with_name("server.log").open("ab")
        self._process: subprocess.Popen[bytes] | None = None

    def make_key(self) -> str:
        """A key for the clients, made as an operator makes one."""
        command = [str(PLACET), "key", "create", "clients", "--db", str(self.db)]
        return subprocess.check_output(command, text=True, timeout=READY_WITHIN_S).strip()

    def launch(self) -> None:
        """Start the process without waiting for it."""
        command = [str(PLACET), "serve", "--db", str(self.db), "--port", str(self.port)]
        self.lives.append(ServerRun(launched_at=clock.now()))
        self._process = subprocess.Popen(command, stdout=self._log, stderr=self._log)

    async def start(self) -> None:
        """Start the process; returns once it serves. Raises RuntimeError when it does not."""
        self.launch()
        deadline = clock.monotonic() + READY_WITHIN_S
        async with aiohttp.ClientSession() as http:
            while not await self._ready(http):
                if clock.monotonic() > deadline or self._running.poll() is not None:
                    raise RuntimeError(
                        f"The server did not come up; its log ends with:\n{self._last_words()}"
                    )
                await asyncio.sleep(0.02)
        self.lives[-1] = replace(self.lives[-1], ready_at=clock.now())

    def kill(self) -> None:
        """End it as a crash would: at once, with whatever was under way."""
        self._running.send_signal(signal.SIGKILL)
        self._running.wait(STOP_WITHIN_S)

    def stop(self) -> int:
        """Ask it to stop; returns its exit code."""
        self._running.terminate()
        try:
            return self._running.wait(STOP_WITHIN_S)
        except subprocess.TimeoutExpired:
            self.kill()
            raise

    def close(self) -> None:
        """Leave nothing running, whatever happened."""
        if self._process is not None and self._process.poll() is None:
            self.kill()
        self._log.close()

    async def _ready(self, http: aiohttp.ClientSession) -> bool:
        try:
            async with http.get(f"{self.url}/readyz", timeout=aiohttp.ClientTimeout(total=2)) as reply:
                return reply.status == 200
        except (aiohttp.ClientError, TimeoutError, OSError):
            return False

    @property
    def _running(self) -> "subprocess.Popen[bytes]":
        assert self._process is not None
        return self._process

    def _last_words(self) -> str:
        return self.db.with_name("server.log").read_text("utf-8", "replace")[-2000:]


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port
