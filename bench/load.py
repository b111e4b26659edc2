"""Drives wrk, the load generator, and reads what it counted."""

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from scripts import wrk

SCRIPTS = Path(__file__).parent / "wrk"
CONNECTIONS = 64


class Load(Struct, frozen=True, kw_only=True):
    """What one run of wrk came to. `refused` counts answers of 400 and above, `failed` broken connections."""

    requests: int
    seconds: float
    failed: int
    refused: int
    p50_ms: float
    p99_ms: float

    @property
    def per_second(self) -> float:
        """Requests answered in a second."""
        return self.requests / self.seconds


def drive(
    url: str,
    script: str,
    arguments: Sequence[str],
    *,
    headers: Sequence[str] = (),
    seconds: int,
    connections: int = CONNECTIONS,
) -> Load:
    """Send requests over so many connections for so many seconds; the script says which."""
    command = [wrk.find(), "-t1", f"-c{connections}", f"-d{seconds}s", "--timeout", "10s"]
    command += [part for header in headers for part in ("-H", header)]
    command += ["-s", str(SCRIPTS / f"{script}.lua"), url, "--", *arguments]
    environment = {**os.environ, "LUA_PATH": f"{SCRIPTS}/?.lua"}
    outcome = subprocess.run(
        command, env=environment, capture_output=True, text=True, check=True, timeout=seconds + 30
    )
    return msgspec.json.decode(outcome.stdout.splitlines()[-1], type=Load)
