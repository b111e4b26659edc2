"""A server without agents knows nothing of the relay; with the first one it does."""

import subprocess
import sys
from pathlib import Path

from click.testing import CliRunner

from placet.cli.main import cli

PROGRAM = """
import asyncio, sys
from placet.bootstrap.server import build
from placet.settings import load

async def main():
    parts = await build(load(environ={}, file=None, flags={"db": sys.argv[1]}).settings)
    await parts.start()
    await parts.stop()
    return parts.relay is not None

relays = asyncio.run(main())
read = sorted(name for name in sys.modules if name.startswith("placet.relay."))
print(relays, *read)
"""
LIGHT = {"route_addresses", "settings", "tenants"}
"""What the settings are made of, and the paths that the server leaves to the relay."""


def start_and_list_modules(folder: Path) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(folder / "placet.db")],
        check=True,
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
    )
    return done.stdout.split()


def test_server_without_agents_does_not_import_the_relay(tmp_path: Path) -> None:
    relays, *read = start_and_list_modules(tmp_path)
    assert relays == "False"
    named = [name.removeprefix("placet.relay.") for name in read]
    assert [name for name in named if name not in LIGHT] == []


def test_agent_in_the_store_starts_the_relay(tmp_path: Path) -> None:
    words = ["relay", "agent", "add", "a", "https://a.example", "--db", str(tmp_path / "placet.db")]
    assert CliRunner().invoke(cli, words).exit_code == 0
    assert start_and_list_modules(tmp_path)[0] == "True"
