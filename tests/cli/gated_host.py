"""A coding agent with the gate in its settings, and a person at the inbox."""

import json
import os
import signal
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any

from placet.hook.coding_agents.registry import load_coding_agent
from tests.cli.forked_command import INSTALLED
from tests.cli.process import ServerProcess, environment, placet, serving
from tests.hook.coding_agents.hook_input import build_input
from tests.server.inboxes import InboxPerson
from tests.server.running import ReviewPage
from tests.waiting import PATIENCE_S, eventually


@contextmanager
def serving_an_inbox(folder: Path) -> Iterator[tuple[ServerProcess, str]]:
    """A server, and the key of a person who may decide everything."""
    with serving(folder) as started:
        started.url()
        created = placet(folder, "key", "create", "ada", "--db", "cases.db", "--scope", "inbox:all")
        yield started, created.stdout.strip()


class GatedHost:
    """A coding agent with the gate in its settings, in its own home folder, and a person at the inbox."""

    def __init__(self, home: Path, server: ServerProcess, inbox_key: str) -> None:
        self.home = home
        self.server = server
        self.env = {"HOME": str(home), "XDG_CONFIG_HOME": "", "XDG_STATE_HOME": "", "CLAUDE_CONFIG_DIR": ""}
        self.env["CODEX_HOME"] = ""
        self.policy = home / ".config" / "placet" / "gate.toml"
        self.policy.parent.mkdir(parents=True)
        key_file = home / "key"
        key_file.write_text(f"{server.admin_key}\n")
        self._common = f'server = "{server.url()}"\nkey_file = "{key_file}"\n'
        self.policy.write_text(self._common)
        self._client = server.client(follow_redirects=True)
        self._person = InboxPerson(self._client)
        assert self._person.sign_in(inbox_key).status_code == 200
        self._started: list[subprocess.Popen[bytes]] = []

    def close(self) -> None:
        """End what a failed test left running."""
        self._client.close()
        for process in self._started:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait(PATIENCE_S)
            for stream in (process.stdin, process.stdout, process.stderr):
                if stream is not None:
                    stream.close()

    def close_later(self, process: "subprocess.Popen[bytes]") -> None:
        """End a process with everything that it started, at the end of the test."""
        self._started.append(process)

    def allow(self, rules: str) -> None:
        """Add rules to the policy."""
        self.policy.write_text(f"{self._common}\n{rules}")

    def install(self, wait: str = "9m", agent: str = "claude-code") -> dict[str, str]:
        """The commands in the host's settings, by event."""
        ended = subprocess.run(
            [INSTALLED, "gate", "install", agent, "--wait", wait, "--yes"],
            env=environment(self.env),
            capture_output=True,
            timeout=PATIENCE_S,
            check=False,
        )
        assert ended.returncode == 0, ended.stderr
        host = load_coding_agent(agent)
        path = Path(host.find_settings_file(PurePosixPath(self.home), {}))
        settings = host.parse_settings(path.read_text())
        return {hook.event: hook.command for hook in host.find_hooks(settings)}

    def start(
        self,
        event: str,
        tool: str,
        arguments: dict[str, Any],
        *,
        wait: str = "9m",
        agent: str = "claude-code",
        env: Mapping[str, str] | None = None,
        content: bytes | None = None,
        **others: Any,
    ) -> "subprocess.Popen[bytes]":
        """The hook, running as the host runs it; `content` stands for the input of Claude Code."""
        command = self.install(wait, agent)[event]
        process = subprocess.Popen(
            ["/bin/sh", "-c", command],
            env=environment({**self.env, **(env or {})}),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        self._started.append(process)
        assert process.stdin is not None
        if content is None:
            content = build_input(event, tool, arguments, **{"cwd": str(self.home), **others})
        process.stdin.write(content)
        process.stdin.close()
        process.stdin = None
        return process

    def serve_hooks(self, token: str) -> Any:
        """Start `placet gate serve`; return the settings that it prints for Claude Code."""
        process = subprocess.Popen(
            [INSTALLED, "gate", "serve", "--port", "0"],
            env=environment({**self.env, "PLACET_GATE_TOKEN": token}),
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        self.close_later(process)
        assert process.stdout is not None
        printed = b""
        while not printed.endswith(b"\n}\n"):
            line = process.stdout.readline()
            assert line, "the command has ended"
            printed += line
        return json.loads(printed)

    def ask(self, tool: str, arguments: dict[str, Any], **options: Any) -> "subprocess.Popen[bytes]":
        return self.start("PermissionRequest", tool, arguments, **options)

    def open_page(self) -> ReviewPage:
        """The page of the one case that waits, once it is there."""
        (case_id,) = eventually(self._person.list_cases)
        return self._person.page(case_id)

    def answer(self, **fields: Any) -> None:
        answered = self.open_page().post("respond", fields)
        assert answered.response.status_code == 200, answered.text

    def until_nothing_waits(self) -> None:
        """Wait until the inbox is empty."""
        eventually(lambda: not self._person.list_cases())

    def last_case(self) -> dict[str, Any]:
        """The status of the newest case."""
        with self.server.client(self.server.admin_key) as client:
            found: dict[str, Any] = client.get("/v1/reviews").json()["cases"][0]["poll"]
            return found

    def until_closed(self) -> dict[str, Any]:
        """The status of the newest case, once it has ended."""
        open_states = ("pending", "opened", "in_progress")
        return eventually(lambda: found if (found := self.last_case())["status"] not in open_states else None)
