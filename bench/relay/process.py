"""Starts and stops the processes of the bench: the agent, and the server between it and its callers."""

import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path

import msgspec

from bench.process import Server, stop, wait_for
from bench.relay.target import ADMIN, StartReport


class Relay(Server):
    """A running server with a relay, and a key for each of its agents."""

    def __init__(self, url: str, keys: Mapping[str, str]) -> None:
        super().__init__(url)
        self.keys = keys

    def count_held(self) -> int:
        """How many messages wait for a person."""
        headers = {"Authorization": f"Bearer {self.keys[ADMIN]}"}
        found = self.get("/relay/v1/approvals", params={"size": 1}, headers=headers)
        return int(found.raise_for_status().json()["totalElements"])


@contextmanager
def run_agent() -> Iterator[str]:
    """The address of an agent, which is ended at the end."""
    process = subprocess.Popen([sys.executable, "-m", "bench.relay.agent"], stdout=subprocess.PIPE, text=True)
    try:
        yield f"http://127.0.0.1:{int(_read_first_line(process))}"
    finally:
        stop(process)


@contextmanager
def run_relay(folder: Path, agent: str, *, profile_to: Path | None = None) -> Iterator[Relay]:
    """The server with its database in this folder, before this agent, stopped at the end."""
    folder.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "bench.relay.target", str(folder), agent]
    if profile_to is not None:
        command += ["--profile-to", str(profile_to)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        told = msgspec.json.decode(_read_first_line(process), type=StartReport)
        wait_for(told.port)
        with closing(Relay(f"http://127.0.0.1:{told.port}", told.keys)) as relay:
            yield relay
    finally:
        stop(process)


def _read_first_line(process: "subprocess.Popen[str]") -> str:
    assert process.stdout is not None
    line = process.stdout.readline().strip()
    if not line:
        raise RuntimeError("The process did not start; see above for why.")
    return line
