"""The official SDK's client meets one agent directly and through the relay, and notices no difference."""

import asyncio
import re
import ssl
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from a2a.client import A2ACardResolver, Client, ClientConfig, ClientFactory
from a2a.helpers.proto_helpers import new_text_message
from a2a.types.a2a_pb2 import (
    AgentCard,
    CancelTaskRequest,
    GetExtendedAgentCardRequest,
    GetTaskPushNotificationConfigRequest,
    GetTaskRequest,
    Role,
    SendMessageConfiguration,
    SendMessageRequest,
    SubscribeToTaskRequest,
    TaskPushNotificationConfig,
)
from google.protobuf.json_format import MessageToDict  # type: ignore[import-untyped]

from placet.relay.settings import AgentSettings, CallerSettings, RelaySettings
from tests.relay.a2a.sdk_agent import SECRET, SdkAgent
from tests.server.running import RunningServer, running

BINDINGS = [("JSONRPC", "1.0"), ("JSONRPC", "0.3"), ("HTTP+JSON", "1.0"), ("HTTP+JSON", "0.3")]
TLS = ssl.create_default_context()  # once: each client would read all the certificates again
UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
TIMESTAMP = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+Z")


@pytest.fixture(scope="module")
def server(agent: SdkAgent, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ERRANDS_CREDENTIAL", SECRET)
        relay = RelaySettings(
            agents={
                "errands": AgentSettings(
                    url=agent.url,
                    credentials={"Authorization": "ERRANDS_CREDENTIAL"},
                    input_required="pass",
                )
            },
            callers={
                "acme": CallerSettings(agents=("errands",)),
                "other": CallerSettings(agents=("errands",)),
            },
        )
        with running(tmp_path_factory.mktemp("relay"), relay=relay) as found:
            yield found


def keep_interface(card: AgentCard, binding: str, version: str) -> AgentCard:
    """The card with one interface."""
    found = AgentCard()
    found.CopyFrom(card)
    del found.supported_interfaces[:]
    found.supported_interfaces.extend(
        one
        for one in card.supported_interfaces
        if (one.protocol_binding, one.protocol_version) == (binding, version)
    )
    return found


class SdkCaller:
    """One client of one agent, direct or not."""

    def __init__(self, url: str, key: str | None, binding: str, version: str) -> None:
        self.url = url
        self.binding = binding
        self.version = version
        self.headers = {"Authorization": f"Bearer {key}"} if key else {}

    async def __aenter__(self) -> "SdkCaller":
        self.http = httpx.AsyncClient(headers=self.headers, timeout=60, verify=TLS)
        self.card = await A2ACardResolver(self.http, self.url).get_agent_card()
        self.streaming = self.client(streaming=True)
        self.unary = self.client(streaming=False)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.http.aclose()

    def client(self, *, streaming: bool) -> Client:
        config = ClientConfig(
            streaming=streaming,
            httpx_client=self.http,
            supported_protocol_bindings=["JSONRPC", "HTTP+JSON"],
        )
        return ClientFactory(config).create(keep_interface(self.card, self.binding, self.version))

    async def send(self, text: str, *, stream: bool = False, **fields: Any) -> list[Any]:
        configuration = SendMessageConfiguration(return_immediately=fields.pop("return_immediately", False))
        message = new_text_message(text, role=Role.ROLE_USER, **fields)
        request = SendMessageRequest(message=message, configuration=configuration)
        client = self.streaming if stream else self.unary
        return [event async for event in client.send_message(request)]

    async def send_as(self, text: str, message_id: str) -> list[Any]:
        message = new_text_message(text, role=Role.ROLE_USER)
        message.message_id = message_id
        return [event async for event in self.unary.send_message(SendMessageRequest(message=message))]


async def send_echo(caller: SdkCaller) -> Any:
    return await caller.send("echo")


async def send_chat(caller: SdkCaller) -> Any:
    return await caller.send("chat")


async def stream_echo(caller: SdkCaller) -> Any:
    return await caller.send("echo", stream=True)


async def get_sent_task(caller: SdkCaller) -> Any:
    [sent] = await caller.send("echo")
    return [await caller.unary.get_task(GetTaskRequest(id=sent.task.id, history_length=1))]


async def get_missing_task(caller: SdkCaller) -> Any:
    try:
        await caller.unary.get_task(GetTaskRequest(id="nobody's"))
    except Exception as error:
        return [type(error).__name__]


async def answer_question(caller: SdkCaller) -> Any:
    [asked] = await caller.send("ask")
    task = asked.task
    return [asked, *await caller.send("echo", task_id=task.id, context_id=task.context_id)]


async def cancel_sent_task(caller: SdkCaller) -> Any:
    [sent] = await caller.send("wait", return_immediately=True)
    canceled = await caller.unary.cancel_task(CancelTaskRequest(id=sent.task.id))
    return [canceled.status.state, await get_state(caller, sent.task.id)]


async def get_state(caller: SdkCaller, task_id: str) -> Any:
    return (await caller.unary.get_task(GetTaskRequest(id=task_id))).status.state


async def resubscribe(caller: SdkCaller) -> Any:
    [sent] = await caller.send("wait", return_immediately=True)

    async def events() -> list[str]:
        subscription = caller.streaming.subscribe(SubscribeToTaskRequest(id=sent.task.id))
        found = []
        async for event in subscription:
            found.append(event.WhichOneof("payload"))
            if len(found) == 1:
                await caller.unary.cancel_task(CancelTaskRequest(id=sent.task.id))
        return found

    return await asyncio.wait_for(events(), 60)


async def create_push_config(caller: SdkCaller) -> Any:
    [sent] = await caller.send("ask")
    config = TaskPushNotificationConfig(
        task_id=sent.task.id, id="mine", url="http://127.0.0.1:9/told", token="t"
    )
    made = await caller.unary.create_task_push_notification_config(config)
    request = GetTaskPushNotificationConfigRequest(task_id=sent.task.id, id=made.id)
    return [made, await caller.unary.get_task_push_notification_config(request)]


async def get_extended_card(caller: SdkCaller) -> Any:
    card = await caller.unary.get_extended_agent_card(GetExtendedAgentCardRequest())
    return [[skill.id for skill in card.skills]]


OPERATIONS = [
    send_echo,
    send_chat,
    stream_echo,
    get_sent_task,
    get_missing_task,
    answer_question,
    cancel_sent_task,
    resubscribe,
    create_push_config,
    get_extended_card,
]

# The SDK's agent tells clients of 0.3 over HTTP what is wrong in the words of 1.0, which they cannot read.
BETTER = {("HTTP+JSON", "0.3", get_missing_task): "['TaskNotFoundError']"}


def remove_variable_parts(outcome: list[Any]) -> str:
    """An outcome without what differs each time: ids become their order of appearance."""
    plain = [MessageToDict(one) if hasattr(one, "DESCRIPTOR") else one for one in outcome]
    names: dict[str, str] = {}
    text = TIMESTAMP.sub("then", repr(plain))
    return UUID.sub(lambda match: names.setdefault(match[0], f"id-{len(names)}"), text)


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.__name__)
@pytest.mark.parametrize(("binding", "version"), BINDINGS)
def test_sdk_client_gets_the_same_result_through_the_relay(
    agent: SdkAgent, server: RunningServer, binding: str, version: str, operation: Any
) -> None:
    async def run(url: str, key: str | None) -> str:
        async with SdkCaller(url, key, binding, version) as made:
            return remove_variable_parts(await operation(made))

    direct = asyncio.run(run(agent.url, None))
    relayed = asyncio.run(run(f"{server.url}/relay/v1/agents/errands", server.api_key))
    assert relayed == BETTER.get((binding, version, operation), direct)
    assert direct not in ("[]", "None")
