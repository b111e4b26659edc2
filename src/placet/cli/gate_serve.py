"""`placet gate serve`: the hook of Claude Code for its settings of `type: "http"`."""

import asyncio
import json
import math
import os
import socket
from contextlib import suppress
from hmac import compare_digest
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import click

from placet.cli.gate_hook import FAILED, GateHook
from placet.cli.gate_options import (
    HOST_MARGIN_S,
    find_default_policy_file,
    load_policy,
    policy_option,
    wait_option,
)
from placet.cli.options import PORT
from placet.errors import SettingsError
from placet.hook.coding_agents.claude_code import CODING_AGENT
from placet.hook.coding_agents.host_calls import deny
from placet.protocol.duration import parse_duration

ADDRESS = "127.0.0.1"
TOKEN_VARIABLE = "PLACET_GATE_TOKEN"  # noqa: S105 - a name, not a secret
MAX_BODY_BYTES = 16 * 1024 * 1024
READ_WITHIN_S = 30
NO_CALL = "The gate got no call that it can read, so this was not done."
WRONG_TOKEN = f"The gate got another token than {TOKEN_VARIABLE}, so this was not done."


@click.command()
@click.option(
    "--port", type=PORT, default=8404, show_default=True, help="The port to listen on; 0 for a free one."
)
@wait_option
@policy_option
def serve(port: int, wait: str, config: Path | None) -> None:
    """Run the hook of Claude Code as a server on this computer, for hooks of `type: "http"`.

    Prints the settings for Claude Code. Set PLACET_GATE_TOKEN to the same secret here and for Claude Code.
    While this server does not run, Claude Code goes on as usual: prefer `placet gate install`.
    """
    token = os.environ.get(TOKEN_VARIABLE, "")
    if not token:
        raise SettingsError(f"{TOKEN_VARIABLE} is not set. Choose a secret: openssl rand -hex 32.")
    config = (config or find_default_policy_file(os.environ)).absolute()
    load_policy(config, os.environ)  # a mistake in the file is told at the start
    hook = GateHook(CODING_AGENT.name, config, wait)
    with HookServer(port, hook, token) as server:
        click.echo(json.dumps(_build_settings(server.server_port, wait), indent=2))
        click.echo(f"Listening on http://{ADDRESS}:{server.server_port}.", err=True)
        with suppress(KeyboardInterrupt):
            server.serve_forever()


def _build_settings(port: int, wait: str) -> dict[str, Any]:
    """Return the settings with which Claude Code calls this server."""
    timeout = math.ceil(parse_duration(wait, "--wait").total_seconds()) + HOST_MARGIN_S
    common = {
        "headers": {"Authorization": f"Bearer ${TOKEN_VARIABLE}"},
        "allowedEnvVars": [TOKEN_VARIABLE],
        "timeout": timeout,
    }
    return {
        "hooks": {
            event: [
                {
                    "matcher": "*",
                    "hooks": [
                        {
                            "type": "http",
                            "url": f"http://{ADDRESS}:{port}/{CODING_AGENT.name}/{event}",
                            **common,
                        }
                    ],
                }
            ]
            for event in CODING_AGENT.events
        }
    }


class HookServer(ThreadingHTTPServer):
    """Answers each hook in a thread of its own."""

    daemon_threads = True

    def __init__(self, port: int, hook: GateHook, token: str) -> None:
        super().__init__((ADDRESS, port), HookRequest)
        self._hook = hook
        self._token = token

    def find_denial(self, authorization: str | None) -> str:
        """Return why a request is denied without a look at its call; empty if it is not."""
        sent = (authorization or "").encode("utf-8", "replace")
        return "" if compare_digest(sent, f"Bearer {self._token}".encode()) else WRONG_TOKEN

    def run_hook(self, event: str, content: bytes, connection: socket.socket) -> bytes | None:
        """Return what the hook printed, or None if it failed or Claude Code has hung up."""
        return asyncio.run(_run_until_hung_up(self._hook, event, content, connection))


class HookRequest(BaseHTTPRequestHandler):
    """One call. Claude Code takes each status but 200 for no decision, so a failure is a denial with 200."""

    timeout = READ_WITHIN_S
    server: HookServer

    def do_POST(self) -> None:
        """Answer with a decision about the call."""
        event = self.path.removeprefix(f"/{CODING_AGENT.name}/")
        if event not in CODING_AGENT.events:
            self._reply(404, b"{}")
            return
        try:
            denial, output = self.server.find_denial(self.headers["Authorization"]), None
            content = self._read_content()
            if not denial:
                denial = NO_CALL if content is None else ""
            if not denial and content is not None:
                output = self.server.run_hook(event, content, self.connection)
        except Exception as error:  # whatever goes wrong is a denial
            denial, output = f"{FAILED} {error}", None
        if output is None:
            output = CODING_AGENT.format_decision(event, deny(denial or FAILED), None).encode()
        self._reply(200, output or b"{}")

    def _read_content(self) -> bytes | None:
        length = self.headers["Content-Length"] or ""
        if not length.isdecimal() or int(length) > MAX_BODY_BYTES:
            return None
        content = self.rfile.read(int(length))
        return content if len(content) == int(length) else None

    def _reply(self, status: int, content: bytes) -> None:
        with suppress(ConnectionError):
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing: the inbox shows what was asked."""


async def _run_until_hung_up(
    hook: GateHook, event: str, content: bytes, connection: socket.socket
) -> bytes | None:
    """Return what the hook printed. If Claude Code hangs up, the hook ends and closes its question."""
    running = asyncio.create_task(hook.read_output(event, content))
    loop = asyncio.get_running_loop()
    connection.setblocking(False)
    loop.add_reader(connection, running.cancel)
    try:
        return await running
    except asyncio.CancelledError:
        return None
    finally:
        loop.remove_reader(connection)
        connection.settimeout(READ_WITHIN_S)
