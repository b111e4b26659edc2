"""A command asks in Slack, and a press over Socket Mode answers it."""

import asyncio
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.channels.slack.socket_server import socket_server
from tests.channels.slack.workspace import APP_TOKEN, PLACE, TEAM, TOKEN, SlackHarness
from tests.server.running import RunningServer, running

pytestmark = pytest.mark.anyio
PATIENCE_S = 60


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with running(tmp_path_factory.mktemp("server"), present=True) as server:
        yield server


def build_environment(harness: SlackHarness, server: RunningServer, folder: Path) -> dict[str, str]:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("PLACET_")}
    return {
        **inherited,
        "HOME": str(folder),
        "XDG_STATE_HOME": str(folder),
        "PLACET_KEY": server.api_key,
        "PLACET_SLACK_BOT_TOKEN": TOKEN,
        "PLACET_SLACK_APP_TOKEN": APP_TOKEN,
        "PLACET_SLACK_CHANNEL": PLACE,
        "PLACET_SLACK_ANSWERERS": f"{TEAM}:U7",
        "PLACET_SLACK_API_URL": f"{harness.server.url}/api",
    }


@pytest.mark.parametrize(
    ("label", "action", "code"), [("Confirm", "confirm", 0), ("Do not do it", "cancel", 10)]
)
async def test_press_ends_the_command_with_the_decision(
    harness: SlackHarness, server: RunningServer, tmp_path: Path, label: str, action: str, code: int
):
    async with socket_server() as sockets:
        harness.workspace.socket_url = sockets.url
        command = await asyncio.create_subprocess_exec(
            str(Path(sys.executable).with_name("placet")),
            *("ask", "confirmation", "Water the plants?", "--via", "slack", "--server", server.url),
            env=build_environment(harness, server, tmp_path),
            cwd=tmp_path,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        ending = asyncio.create_task(command.communicate())
        connecting = asyncio.create_task(sockets.connections.get())
        await asyncio.wait({ending, connecting}, timeout=PATIENCE_S, return_when=asyncio.FIRST_COMPLETED)
        assert not ending.done(), ending.result()
        connection = await connecting
        await connection.hello()
        await harness.server.wait_until(lambda: bool(harness.list_messages()), within=PATIENCE_S)
        (shown,) = harness.list_messages()
        assert shown.labels == ("Confirm", "Do not do it")
        reference = shown.references[shown.labels.index(label)]
        (stamp,) = harness.workspace.messages
        await connection.deliver("e1", harness.workspace.interaction(stamp, reference))
        printed, said = await asyncio.wait_for(ending, PATIENCE_S)
    assert command.returncode == code, said
    assert json.loads(printed)["action"] == action
    assert harness.list_messages()[0].references == ()
    assert list(harness.list_replies()) == ["Your answer was recorded."]
    assert not [secret for secret in harness.secrets if secret.encode() in printed + said]
