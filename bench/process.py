"""Starts and stops the process that is measured."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import httpx
import msgspec

from bench.target import WINDOW, Usage

READY_WITHIN_S = 30.0
STOP_WITHIN_S = 30.0


class Server:
    """A running server: where it is and what it has used."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._http = httpx.Client(base_url=url, timeout=30)

    def usage(self) -> Usage:
        """What the process has used so far."""
        return self._window("usage")

    def start_profile(self) -> Usage:
        """Begin to profile the server's loop."""
        return self._window("profile/start")

    def stop_profile(self) -> Usage:
        """End it; the profile is written to the file named at the start."""
        return self._window("profile/stop")

    def start_turns(self) -> Usage:
        """Begin to watch how long the loop works without a pause."""
        return self._window("turns/start")

    def stop_turns(self) -> Usage:
        """End that; tells the longest."""
        return self._window("turns/stop")

    def statuses(self) -> dict[tuple[str, str], int]:
        """How often each route has answered with each status, by the server's own count."""
        found = {}
        for line in self._http.get("/metrics").text.splitlines():
            if line.startswith("placet_http_requests_total{"):
                labels, _, count = line.partition("{")[2].partition("} ")
                route, status = (part.split("=")[1].strip('"') for part in labels.split(","))
                found[route, status] = int(float(count))
        return found

    def get(self, path: str, **options: object) -> httpx.Response:
        """One request, to look at its answer."""
        return self._http.get(path, **options)  # type: ignore[arg-type]

    def close(self) -> None:
        """Close the connections to it."""
        self._http.close()

    def _window(self, name: str) -> Usage:
        return msgspec.json.decode(self._http.get(WINDOW + name).content, type=Usage)


@contextmanager
def run_server(db: Path, *, profile_to: Path | None = None) -> Iterator[Server]:
    """The server on this database, stopped at the end."""
    command = [sys.executable, "-m", "bench.target", str(db)]
    if profile_to is not None:
        command += ["--profile-to", str(profile_to)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        server = Server(f"http://127.0.0.1:{_port(process)}")
        with closing(server):
            yield server
    finally:
        stop(process)


def stop(process: "subprocess.Popen[str]") -> None:
    """End a process: kindly, then firmly."""
    process.terminate()
    try:
        process.wait(STOP_WITHIN_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait(STOP_WITHIN_S)
    if process.stdout is not None:
        process.stdout.close()


def _port(process: "subprocess.Popen[str]") -> int:
    assert process.stdout is not None
    line = process.stdout.readline().strip()
    if not line:
        raise RuntimeError("The server did not start; see above for why.")
    port = int(line)
    wait_for(port)
    return port


def wait_for(port: int) -> None:
    """Return once the server answers."""
    with httpx.Client(transport=httpx.HTTPTransport(retries=20)) as client:
        client.get(f"http://127.0.0.1:{port}/healthz", timeout=READY_WITHIN_S)
