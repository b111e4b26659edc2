"""The command line as its users have it: each command in a process of its own."""

import os
import re
import signal
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from placet.agent.delivery_mode import DISPLAY_VARIABLES
from tests.cli.forked_command import INSTALLED, forked_command
from tests.waiting import PATIENCE_S, eventually

COMMAND = (
    INSTALLED  # what its users start; most tests use the forked command, which does the same in less time
)


def environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """This process's environment without settings of Placet, desktop and SSH session, and with these."""
    inherited = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PLACET_", "SSH_")) and name not in DISPLAY_VARIABLES
    }
    return {**inherited, **(extra or {})}


def placet(
    folder: Path, *arguments: str, env: Mapping[str, str] | None = None, stdin: str = ""
) -> subprocess.CompletedProcess[str]:
    """Run a command in this folder to its end."""
    return subprocess.run(
        [forked_command(), *arguments],
        cwd=folder,
        env=environment(env),
        input=stdin,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S * 2,
        check=False,
    )


class ServerProcess:
    """`placet serve` or `placet demo`, started in a folder; its output goes to files there."""

    def __init__(
        self,
        folder: Path,
        *arguments: str,
        env: Mapping[str, str] | None = None,
        program: str | None = None,
    ) -> None:
        number = len(list(folder.glob("stdout-*")))
        self._stdout = folder / f"stdout-{number}"
        self._stderr = folder / f"stderr-{number}"
        with self._stdout.open("wb") as out, self._stderr.open("wb") as err:
            self.process = subprocess.Popen(
                [program or forked_command(), *arguments],
                cwd=folder,
                env=environment(env),
                stdout=out,
                stderr=err,
            )

    @property
    def stdout(self) -> str:
        return self._stdout.read_text()

    @property
    def stderr(self) -> str:
        return self._stderr.read_text()

    @property
    def admin_key(self) -> str:
        """The key in the file whose path a first start prints."""
        return Path(self.stdout.strip()).read_text().strip()

    def url(self) -> str:
        """Where it serves, once it does."""
        started = re.compile(r"(?:server_started url=|running at )(http://\S+)")
        found = eventually(lambda: started.search(self._said()))
        return found[1]

    def _said(self) -> str:
        text = self.stderr + self.stdout
        assert self.process.poll() is None, f"the server ended with {self.process.returncode}: {text}"
        return text

    def client(self, credential: str | None = None, **options: Any) -> httpx.Client:
        """A client that presents this credential, or none."""
        headers = {"Authorization": f"Bearer {credential}"} if credential else {}
        return httpx.Client(base_url=self.url(), headers=headers, timeout=PATIENCE_S, **options)

    def stop(self, how: signal.Signals = signal.SIGTERM) -> int:
        """Ask it to end; returns its exit code."""
        self.process.send_signal(how)
        return self.process.wait(PATIENCE_S)


@contextmanager
def serving(
    folder: Path,
    *arguments: str,
    command: str = "serve",
    env: Mapping[str, str] | None = None,
    program: str | None = None,
    port: str | None = "0",
) -> Iterator[ServerProcess]:
    """A server with its database in this folder; killed at the end if it still runs.

    It listens on a free port, or with `port=None` on that of the environment.
    """
    server = ServerProcess(
        folder,
        command,
        *(() if port is None else ("--port", port)),
        "--db",
        "cases.db",
        *arguments,
        env=env,
        program=program,
    )
    try:
        yield server
    finally:
        server.process.kill()
        server.process.wait(PATIENCE_S)
