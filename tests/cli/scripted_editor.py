"""An editor that speaks the Agent Client Protocol with an agent behind `placet acp`."""

import json
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.cli.forked_command import INSTALLED
from tests.cli.gated_host import GatedHost
from tests.cli.process import environment
from tests.waiting import PATIENCE_S, eventually

ROOT = Path(__file__).parents[2]
AGENT = (sys.executable, "-m", "tests.cli.acp_agent")


class JsonLines:
    """A program that speaks JSON-RPC, one message on each line."""

    def __init__(
        self, host: GatedHost, command: Sequence[str], env: Mapping[str, str], cwd: Path = ROOT
    ) -> None:
        self.cwd = cwd
        self.received: list[dict[str, Any]] = []
        self.process = subprocess.Popen(
            command,
            cwd=cwd,
            env=env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        host.close_later(self.process)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def close(self) -> int:
        """Close the agent's input, and return the exit code of the proxy."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        code = self.process.wait(PATIENCE_S)
        self._reader.join(PATIENCE_S)
        for stream in (self.process.stdout, self.process.stderr):
            assert stream is not None
            stream.close()
        return code

    def send(self, message: dict[str, Any]) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        self.process.stdin.flush()

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """The response to a request."""
        self.send({"id": method, "method": method, "params": params})
        return self.until(lambda one: one.get("id") == method and "method" not in one)

    def until(self, matches: Any, *, within: float = PATIENCE_S) -> dict[str, Any]:
        """The first message that matches."""
        return eventually(lambda: next((one for one in self.received if matches(one)), None), within=within)

    def until_method(self, method: str) -> dict[str, Any]:
        return self.until(lambda one: one.get("method") == method)

    def list_methods(self) -> list[str]:
        return [one["method"] for one in self.received if "method" in one]

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.received.append(json.loads(line))


class Editor(JsonLines):
    """An editor that has started an agent through the proxy, and has opened a session."""

    def __init__(
        self,
        host: GatedHost,
        *options: str,
        agent: tuple[str, ...] = AGENT,
        env: Mapping[str, str] | None = None,
        cwd: Path = ROOT,
    ) -> None:
        command = [INSTALLED, "acp", *options, "--", *agent]
        super().__init__(host, command, env or environment({**host.env, "PLACET_KEY": "secret"}), cwd)
        self.call("initialize", protocolVersion=1, clientCapabilities={})
        folder = str(host.home if cwd == ROOT else cwd)
        self.session = self.call("session/new", cwd=folder, mcpServers=[])["result"]["sessionId"]

    def prompt(self, **order: Any) -> None:
        """Start a turn of the scripted agent."""
        self.prompt_text(json.dumps(order))

    def prompt_text(self, text: str) -> None:
        """Start a turn of the agent."""
        params = {"sessionId": self.session, "prompt": [{"type": "text", "text": text}]}
        self.send({"id": "prompt", "method": "session/prompt", "params": params})

    def until_outcome(self) -> dict[str, Any]:
        """What the agent was told about its request."""
        update = self.until_method("session/update")["params"]["update"]
        found: dict[str, Any] = json.loads(update["content"]["text"])
        return found
