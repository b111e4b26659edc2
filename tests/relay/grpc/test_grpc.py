"""The official SDK's gRPC client calls an agent through the relay, and finds what a JSON-RPC client finds."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import httpx
import pytest
from a2a.client import A2ACardResolver, Client, ClientConfig, ClientFactory
from a2a.client.client import ClientCallContext
from a2a.client.interceptors import BeforeArgs, ClientCallInterceptor
from a2a.helpers.proto_helpers import new_text_message
from a2a.types.a2a_pb2 import CancelTaskRequest, GetTaskRequest, ListTasksRequest, Role, SendMessageRequest
from a2a.types.a2a_pb2_grpc import A2AServiceStub
from google.protobuf.json_format import MessageToDict  # type: ignore[import-untyped]

from placet.errors import SettingsError
from placet.http.listening import bind
from placet.ports.audit_store import AuditFilter
from placet.relay.settings import (
    AgentSettings,
    CallerSettings,
    GrpcSettings,
    RelaySettings,
    parse_grpc_listen,
)
from tests.certificates import make_tls_contexts
from tests.relay.a2a.sdk_agent import SdkAgent, build_card, serve_app
from tests.relay.holds.holding_server import (
    DONE,
    decide,
    read_metadata,
    run_holding_server,
    wait_until_settled,
)
from tests.relay.traffic.test_pass_through import (
    OPERATIONS,
    TLS,
    SdkCaller,
    keep_interface,
    remove_variable_parts,
)
from tests.server.running import RunningServer, running
from tests.waiting import eventually


@pytest.fixture(scope="module")
def server(agent: SdkAgent, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    known = AgentSettings(url=agent.url, input_required="pass")
    relay = RelaySettings(
        agents={"errands": known},
        callers={"acme": CallerSettings(agents=("errands",)), "other": CallerSettings(agents=("errands",))},
        grpc=GrpcSettings(listen="127.0.0.1:0"),
    )
    with running(tmp_path_factory.mktemp("grpc"), relay=relay) as found:
        yield found


class GrpcCaller(SdkCaller):
    """The SDK's client over gRPC, as the relay's card says."""

    async def __aenter__(self) -> "GrpcCaller":
        self.channels: list[Any] = []
        self.http = httpx.AsyncClient(headers=self.headers, timeout=60, verify=TLS)
        self.card = await A2ACardResolver(self.http, self.url).get_agent_card()
        self.streaming = self.client(streaming=True)
        self.unary = self.client(streaming=False)
        return self

    async def __aexit__(self, *_: object) -> None:
        for channel in self.channels:
            await channel.close()
        await self.http.aclose()

    def client(self, *, streaming: bool) -> Client:
        config = ClientConfig(
            streaming=streaming,
            httpx_client=self.http,
            grpc_channel_factory=self.channel,
            supported_protocol_bindings=["GRPC"],
        )
        return ClientFactory(config).create(
            keep_interface(self.card, "GRPC", "1.0"), interceptors=[KeyInterceptor(self.headers)]
        )

    def channel(self, url: str) -> Any:
        self.channels.append(grpc.aio.insecure_channel(url))
        return self.channels[-1]


class KeyInterceptor(ClientCallInterceptor):
    """Sends the caller's key with every call."""

    def __init__(self, headers: dict[str, str]) -> None:
        self._headers = headers

    async def before(self, args: BeforeArgs) -> None:
        args.context = args.context or ClientCallContext()
        args.context.service_parameters = {
            **(args.context.service_parameters or {}),
            **{name.lower(): value for name, value in self._headers.items()},
        }

    async def after(self, args: Any) -> None:
        return None


def open_grpc_caller(server: RunningServer) -> GrpcCaller:
    return GrpcCaller(f"{server.url}/relay/v1/agents/errands", server.api_key, "GRPC", "1.0")


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.__name__)
def test_the_sdk_client_over_grpc_finds_what_it_finds_directly(
    agent: SdkAgent, server: RunningServer, operation: Any
) -> None:
    async def run(made: SdkCaller) -> str:
        async with made:
            return remove_variable_parts(await operation(made))

    direct = asyncio.run(run(SdkCaller(agent.url, None, "JSONRPC", "1.0")))
    relayed = asyncio.run(run(open_grpc_caller(server)))
    assert relayed == direct


class BareStub:
    """The bare service, for what the SDK's client would not send."""

    def __init__(self, server: RunningServer, key: str | None) -> None:
        assert server.parts.relay is not None
        assert server.parts.relay.grpc is not None
        self._address = server.parts.relay.grpc.address
        self._metadata = [("authorization", f"Bearer {key}")] if key else []

    def refusal(self, method: str, request: Any, *more: tuple[str, str]) -> tuple[str, str]:
        """Code and words of the refusal that a call ends with."""

        async def run() -> tuple[str, str]:
            async with grpc.aio.insecure_channel(self._address) as channel:
                call = getattr(A2AServiceStub(channel), method)
                with pytest.raises(grpc.aio.AioRpcError) as refused:
                    await call(request, metadata=[*self._metadata, *more], timeout=60)
                return refused.value.code().name, refused.value.details()

        return asyncio.run(run())


def build_get_request(tenant: str = "errands", task_id: str = "t") -> GetTaskRequest:
    return GetTaskRequest(tenant=tenant, id=task_id)


def test_nobody_calls_without_a_key(server: RunningServer) -> None:
    for key in (None, "wrong"):
        assert BareStub(server, key).refusal("GetTask", build_get_request())[0] == "UNAUTHENTICATED"


@pytest.mark.parametrize("tenant", ["", "nobody", "../agents", "a" * 100, "errands\n"])
def test_agent_without_subscription_is_not_found(server: RunningServer, tenant: str) -> None:
    code, _ = BareStub(server, server.api_key).refusal("GetTask", build_get_request(tenant))
    assert code == ("NOT_FOUND" if tenant == "nobody" else "INVALID_ARGUMENT")
    stranger = server.create_key("stranger")
    assert BareStub(server, stranger).refusal("GetTask", build_get_request("errands"))[0] == "NOT_FOUND"


def test_callers_are_kept_from_each_others_tasks(server: RunningServer) -> None:
    async def ask() -> str:
        async with open_grpc_caller(server) as made:
            [sent] = await made.send("echo")
            return str(sent.task.id)

    task_id = asyncio.run(ask())
    other = BareStub(server, server.create_key("other"))
    assert other.refusal("GetTask", build_get_request(task_id=task_id)) == ("NOT_FOUND", "Task not found")
    assert other.refusal("CancelTask", CancelTaskRequest(tenant="errands", id=task_id))[0] == "NOT_FOUND"


def test_a_task_can_be_found_by_a_json_client_too(server: RunningServer) -> None:
    async def run() -> tuple[Any, Any]:
        url = f"{server.url}/relay/v1/agents/errands"
        async with (
            open_grpc_caller(server) as made,
            SdkCaller(url, server.api_key, "HTTP+JSON", "1.0") as json_made,
        ):
            [sent] = await made.send("echo")
            listed = await made.unary.list_tasks(ListTasksRequest())
            assert sent.task.id in [one.id for one in listed.tasks]
            return sent.task, await json_made.unary.get_task(GetTaskRequest(id=sent.task.id))

    mine, same = asyncio.run(run())
    assert mine == same


def test_a_message_too_large_is_refused(server: RunningServer) -> None:
    text = "x" * (5 * 1024 * 1024)
    request = SendMessageRequest(tenant="errands", message=new_text_message(text, role=Role.ROLE_USER))
    assert BareStub(server, server.api_key).refusal("SendMessage", request)[0] == "RESOURCE_EXHAUSTED"


def test_an_older_version_is_refused(server: RunningServer) -> None:
    code, words = BareStub(server, server.api_key).refusal(
        "GetTask", build_get_request(), ("a2a-version", "2.0")
    )
    assert (code, words) == (
        "FAILED_PRECONDITION",
        "A2A-Version: this version is not supported. Use 1.0 or 0.3.",
    )


def test_a_caller_that_leaves_a_stream_ends_it(server: RunningServer) -> None:
    async def run() -> None:
        async with open_grpc_caller(server) as made:
            message = new_text_message("wait", role=Role.ROLE_USER)
            async for _ in made.streaming.send_message(SendMessageRequest(message=message)):
                break

    relay = server.parts.relay
    assert relay is not None
    asyncio.run(run())
    eventually(lambda: len(relay.app.streams) == 0)


def test_audit_names_grpc_as_the_transport(server: RunningServer) -> None:
    async def ask() -> str:
        async with open_grpc_caller(server) as made:
            [sent] = await made.send("echo")
            return str(sent.task.id)

    task_id = asyncio.run(ask())
    wanted = AuditFilter(task_id=task_id, types=("COMMUNICATION_AUDIT",))

    def look() -> Any:
        return server.run(server.parts.store.list_audit_events("default", wanted, page=0, size=9))[0]

    [event] = eventually(look)
    assert event.transport == "GRPC"


def test_agent_without_json_rpc_is_called_over_http_json(
    agent: SdkAgent, tmp_path_factory: pytest.TempPathFactory
) -> None:
    card = MessageToDict(keep_interface(build_card(agent.url), "HTTP+JSON", "1.0"))
    listener = bind("127.0.0.1", 0)
    url = f"http://127.0.0.1:{listener.getsockname()[1]}/card"

    async def cards(scope: Any, receive: Any, send: Any) -> None:
        headers = [(b"content-type", b"application/json")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": json.dumps(card).encode()})

    relay = RelaySettings(
        agents={"errands": AgentSettings(url=agent.url, card_url=url, input_required="pass")},
        callers={"acme": CallerSettings(agents=("errands",))},
        grpc=GrpcSettings(listen="127.0.0.1:0"),
    )

    async def run(made: SdkCaller, operation: Any) -> str:
        async with made:
            return remove_variable_parts(await operation(made))

    with serve_app(cards, listener), running(tmp_path_factory.mktemp("rest"), relay=relay) as server:
        for operation in OPERATIONS:
            direct = asyncio.run(run(SdkCaller(agent.url, None, "HTTP+JSON", "1.0"), operation))
            assert asyncio.run(run(open_grpc_caller(server), operation)) == direct


def test_held_message_looks_the_same_over_grpc(
    agent: SdkAgent, tmp_path_factory: pytest.TempPathFactory
) -> None:
    with run_holding_server(
        tmp_path_factory.mktemp("held"), {"errands": agent.url}, grpc=GrpcSettings(listen="127.0.0.1:0")
    ) as server:

        async def ask() -> Any:
            async with open_grpc_caller(server) as made:
                [held] = await made.send("echo a tulip")
                return held.task

        async def look(task_id: str) -> Any:
            async with open_grpc_caller(server) as made:
                return await made.unary.get_task(GetTaskRequest(id=task_id))

        held = asyncio.run(ask())
        assert read_metadata(held)["relay_reason"] == "HITL_HELD"
        wait_until_settled(server, decide(server, held.id))
        done = asyncio.run(look(held.id))
        assert (done.status.state, "relay_reason" in read_metadata(done)) == (DONE, False)


def test_grpc_outside_loopback_needs_a_certificate() -> None:
    for settings in (
        GrpcSettings(listen="0.0.0.0:50051"),
        GrpcSettings(listen="127.0.0.1"),
        GrpcSettings(listen="127.0.0.1:port"),
        GrpcSettings(listen="127.0.0.1:70000"),
        GrpcSettings(certificate="a.pem"),
    ):
        with pytest.raises(SettingsError):
            parse_grpc_listen(settings)
    assert parse_grpc_listen(GrpcSettings(listen="[::1]:50051")) == ("::1", 50051)
    assert parse_grpc_listen(GrpcSettings(listen="0.0.0.0:443", certificate="a", key="b")) == ("0.0.0.0", 443)


def test_a_certificate_is_shown(agent: SdkAgent, tmp_path: Path) -> None:
    make_tls_contexts("127.0.0.1", tmp_path)
    both = tmp_path / "server.pem"
    relay = RelaySettings(
        agents={"errands": AgentSettings(url=agent.url)},
        callers={"acme": CallerSettings(agents=("errands",))},
        grpc=GrpcSettings(listen="127.0.0.1:0", certificate=str(both), key=str(both)),
    )
    with running(tmp_path, relay=relay) as server:
        address = server.parts.relay.grpc.address  # type: ignore[union-attr]

        async def run() -> str:
            trusted = grpc.ssl_channel_credentials(both.read_bytes())
            async with grpc.aio.secure_channel(address, trusted) as channel:
                with pytest.raises(grpc.aio.AioRpcError) as refused:
                    await A2AServiceStub(channel).GetTask(build_get_request(), timeout=60)
                return str(refused.value.code().name)

        assert asyncio.run(run()) == "UNAUTHENTICATED"
