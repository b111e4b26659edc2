"""`placet relay approval` says of each held message who wrote it, and for whom."""

import asyncio
from typing import Any

import pytest
from click.testing import CliRunner

from placet.cli.main import cli
from placet.ports.hold_store import HoldRow
from tests.relay.a2a.sdk_agent import SdkAgent
from tests.relay.holds.holding_server import LEGS, find_pending_hold, open_sdk_caller
from tests.server.running import RunningServer

CALLED, ANSWERED = "acme errands", "errands acme"
ENDS = {
    "requestFromSource": CALLED,
    "requestToSink": CALLED,
    "responseFromSink": ANSWERED,
    "responseToSource": ANSWERED,
}


def held(server: RunningServer, text: str) -> HoldRow:
    async def run() -> Any:
        async with open_sdk_caller(server) as made:
            [sent] = await made.send(text)
            return sent.task.id

    return find_pending_hold(server, asyncio.run(run()))


def said(server: RunningServer, *words: str) -> list[str]:
    environ = {"PLACET_SERVER": server.url, "PLACET_KEY": server.create_key("rita")}
    done = CliRunner().invoke(cli, ["relay", "approval", *words], env=environ)
    assert done.exit_code == 0, done.output
    return done.stdout.splitlines()


@pytest.mark.parametrize(("leg", "ends"), ENDS.items())
def test_an_answer_is_from_the_agent_and_for_its_caller(
    server: RunningServer, agent: SdkAgent, leg: str, ends: str
) -> None:
    hold = held(server, f"echo {LEGS[leg]}")
    shown = dict(line.split(maxsplit=1) for line in said(server, "show", hold.id) if len(line.split()) == 2)
    assert f"{shown['from']} {shown['to']}" == ends
    [row] = [line for line in said(server, "list", "--size", "200") if line.startswith(hold.id)]
    assert ends in " ".join(row.split())


def test_a_question_is_from_the_agent_that_asks(server: RunningServer, agent: SdkAgent) -> None:
    hold = held(server, "ask")
    shown = said(server, "show", hold.id)
    assert "from         errands" in shown
    assert "to           acme" in shown
