"""A running command that waits for a person, and helpers that answer as that person."""

import os
import re
import signal
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import msgspec

from placet.agent import PendingCase, PendingCases
from tests.cli.forked_command import forked_command
from tests.cli.process import ServerProcess, environment
from tests.server.running import PRESSED, ReviewPage
from tests.waiting import PATIENCE_S, eventually


class WaitingCommand:
    """The command, running; its output goes to files."""

    def __init__(
        self, folder: Path, *arguments: str | bytes, env: Mapping[str, str], stdin: bytes = b""
    ) -> None:
        self._folder = folder
        number = len(list(folder.glob("asking-*.out")))
        self._out, self._err = folder / f"asking-{number}.out", folder / f"asking-{number}.err"
        with self._out.open("wb") as out, self._err.open("wb") as err:
            self.process = subprocess.Popen(
                [forked_command(), *arguments],
                cwd=folder,
                env=environment(env),
                stdin=subprocess.PIPE,
                stdout=out,
                stderr=err,
            )
        assert self.process.stdin is not None
        self.process.stdin.write(stdin)
        self.process.stdin.close()

    @property
    def stderr(self) -> str:
        return self._err.read_text()

    def link(self) -> str:
        """The link that the person was given."""
        return eventually(lambda: re.search(r"https?://\S+/review/\S+", self._read_stderr()))[0]

    def wait_for(self, words: str) -> None:
        """Until it has said something."""
        eventually(lambda: words in self._read_stderr())

    def end(self, code: int = 0) -> dict[str, Any]:
        """The one object that it prints, once it ends with this code."""
        printed = self.read_stdout(code)
        assert printed.count(b"\n") == 1
        found = msgspec.json.decode(printed)
        assert isinstance(found, dict)
        return found

    def read_stdout(self, code: int = 0) -> bytes:
        """Everything on standard output, once it ends with this code."""
        assert self.process.wait(PATIENCE_S) == code, self.stderr
        return self._out.read_bytes()

    def stop(self, how: signal.Signals) -> None:
        self.process.send_signal(how)

    def _read_stderr(self) -> str:
        code = self.process.poll()  # first: what it says in the end is there once it has ended
        said = self.stderr
        assert code is None or said, f"it ended with {code} and said nothing"
        return said


class Desk:
    """A folder in which commands run against one server, and a person who answers what they ask."""

    def __init__(self, folder: Path, server: ServerProcess) -> None:
        self.folder = folder
        self.url = server.url()
        self.key = server.admin_key
        self.state = folder / "state"
        self._started: list[WaitingCommand] = []
        self.env = {"PLACET_SERVER": self.url, "PLACET_KEY": self.key, "XDG_STATE_HOME": str(self.state)}

    def start(
        self, *arguments: str | bytes, env: Mapping[str, str] | None = None, stdin: bytes = b""
    ) -> WaitingCommand:
        asking = WaitingCommand(self.folder, *arguments, env={**self.env, **(env or {})}, stdin=stdin)
        self._started.append(asking)
        return asking

    def close(self) -> None:
        """End whatever a failed test left running."""
        for asking in self._started:
            asking.process.kill()
            asking.process.wait(PATIENCE_S)

    @contextmanager
    def api(self) -> Iterator[httpx.Client]:
        headers = {"Authorization": f"Bearer {self.key}"}
        with httpx.Client(base_url=self.url, headers=headers, timeout=PATIENCE_S) as client:
            yield client

    def open_page(self, link: str) -> None:
        """Open the page, and let its script say so."""
        with httpx.Client(timeout=PATIENCE_S, follow_redirects=True) as browser:
            opened = ReviewPage(browser, browser.get(link)).post("opened", {})
        assert opened.response.is_success

    def answer(self, link: str, action: str, **data: Any) -> None:
        """What a person does with the page."""
        sent = httpx.post(
            link.replace("?", "/respond?"), json={"action": action, "data": data}, timeout=PATIENCE_S
        )
        assert sent.status_code == 200, sent.text

    def press(self, action: str) -> None:
        """What a person does with a button of the only case that waits."""
        (pending,) = self.list_pending()
        case = pending.case
        assert case.submit_url is not None
        sent = httpx.post(
            case.submit_url,
            json={"action": action, **PRESSED},
            headers={"Authorization": f"Bearer {case.submit_token}"},
            timeout=PATIENCE_S,
        )
        assert sent.status_code == 200, sent.text

    def list_pending(self) -> list[PendingCase]:
        """What a later command would find."""
        path = self.state / "placet" / "agent.db"
        if not path.exists():
            return []
        cases = PendingCases(path)
        try:
            return cases.list_pending()
        finally:
            cases.close()


def stand_in_browser(folder: Path) -> tuple[str, Path]:
    """A browser that writes down what it is asked to open, and talks too much."""
    script, opened = folder / "browser", folder / "opened"
    script.write_text(f'#!/bin/sh\necho noise\nprintf %s "$1" > "{opened}"\n')
    os.chmod(script, 0o755)
    return f"{script} %s", opened
