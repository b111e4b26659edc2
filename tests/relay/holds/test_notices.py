"""Somebody is told that a message waits: by a signed callback that shows nothing of the message."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from placet.errors import SettingsError
from placet.protocol.callback import verify_callback
from placet.relay.settings import NoticeSettings, RelaySettings, check_relay
from tests.relay.a2a.sdk_agent import SdkAgent
from tests.relay.holds.holding_server import (
    DONE,
    build_policy_draft,
    decide,
    find_pending_hold,
    open_sdk_caller,
    read_metadata,
    run_holding_server,
    wait_until_done,
    wait_until_settled,
)
from tests.relay.push.receiver import Receiver
from tests.server.running import RunningServer
from tests.waiting import eventually


@pytest.fixture(scope="module")
def server(
    agent: SdkAgent, receiver: Receiver, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningServer]:
    notices = {"default": NoticeSettings(url=f"{receiver.url}/holds", key="acme")}
    folder = tmp_path_factory.mktemp("relay")
    with run_holding_server(folder, {"errands": agent.url}, notices=notices) as found:
        yield found


@pytest.mark.parametrize(("text", "hidden"), [("echo tulip", "echo tulip"), ("ask", "which one")])
def test_every_hold_sends_one_signed_notice(
    server: RunningServer, receiver: Receiver, text: str, hidden: str
) -> None:
    async def run() -> None:
        receiver.told.clear()
        async with open_sdk_caller(server) as made:
            [sent] = await made.send(text)
            assert read_metadata(sent.task)
            hold = find_pending_hold(server, sent.task.id)
            told = await asyncio.to_thread(eventually, lambda: next(iter(receiver.at("/holds")), None))
            assert told.body["type"] == "relay.held"
            assert (told.body["approvalId"], told.body["caseId"]) == (hold.id, hold.case_id)
            assert (told.body["source"], told.body["sinkAgentId"]) == ("acme", "errands")
            assert told.body["policyName"] == hold.policy_name
            assert told.body["inboxUrl"] == f"{server.url}/inbox"
            assert hidden not in repr(told.body)
            endpoint = await asyncio.to_thread(
                server.run, server.parts.store.get_endpoint("acme", f"{receiver.url}/holds")
            )
            assert endpoint is not None
            verify_callback(
                msgspec.json.encode(told.body),
                told.headers,
                secrets=[endpoint.secret],
                now=server.parts.desk.now(),
            )
            wait_until_settled(server, decide(server, sent.task.id))
            assert (await wait_until_done(made, sent.task.id)).status.state == DONE
            assert len(receiver.at("/holds")) == 1

    asyncio.run(run())


def test_unreachable_notice_receiver_delays_nothing(server: RunningServer, receiver: Receiver) -> None:
    async def run() -> None:
        receiver.statuses.append(503)
        async with open_sdk_caller(server) as made:
            [sent] = await made.send("echo tulip again")
            wait_until_settled(server, decide(server, sent.task.id))
            assert (await wait_until_done(made, sent.task.id)).status.state == DONE

    asyncio.run(run())


def test_observed_stream_sends_a_notice_without_content(
    agent: SdkAgent, receiver: Receiver, tmp_path: Path
) -> None:
    notices = {"default": NoticeSettings(url=f"{receiver.url}/observed", key="acme")}
    draft = build_policy_draft("Watch ferns", "fern", "responseFromSink", action="BLOCK")
    file = tmp_path / "observed.json"
    file.write_text(json.dumps({**draft, "streaming": "observe"}))

    async def run(server: RunningServer) -> None:
        async with open_sdk_caller(server) as made:
            events = await made.send("echo fern", stream=True)
            assert "echo fern 2" in repr(events)
            told = await asyncio.to_thread(eventually, lambda: next(iter(receiver.at("/observed")), None))
            assert (told.body["type"], told.body["policyNames"]) == ("relay.observed", ["Watch ferns"])
            assert (told.body["source"], told.body["sinkAgentId"]) == ("acme", "errands")
            assert "echo fern" not in repr(told.body)

    agents = {"errands": agent.url}
    with run_holding_server(tmp_path, agents, notices=notices, policies=str(file)) as server:
        asyncio.run(run(server))


@pytest.mark.parametrize(
    ("tenant", "url", "key", "words"),
    [
        ("default", "http://hooks.example/holds", "ops", "https"),
        ("default", "https://169.254.169.254/holds", "ops", "relay.notices.default"),
        ("No Tenant", "https://hooks.example/holds", "ops", "a tenant's name"),
        ("default", "https://hooks.example/holds", " ", "not the name of an API key"),
    ],
)
def test_forbidden_notice_receiver_is_refused_at_start(tenant: str, url: str, key: str, words: str) -> None:
    settings = RelaySettings(notices={tenant: NoticeSettings(url=url, key=key)})
    with pytest.raises(SettingsError, match=words):
        check_relay(settings, allow_loopback=False)
