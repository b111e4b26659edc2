"""Agents follow the cases of Flask and WSGI services, which have Placet beside them."""

import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, make_server

import httpx
import pytest
from flask import Flask, request
from joserfc.jwk import OKPKey

from examples.stage import answer
from placet import PlacetClient
from placet.agent import Agent, Decided, Notice, RequestSigner
from placet.errors import CredentialsRefused, PlacetError, SettingsError
from placet.http.agent_requests import read_agent_request
from tests.server.running import RunningServer, running
from tests.waiting import PATIENCE_S

KEY = {"Authorization": "Bearer key-of-the-agent"}
DRAFT: dict[str, Any] = {"type": "confirmation", "prompt": "Go?", "inline_actions": ["confirm", "cancel"]}


class QuietHandler(WSGIRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with running(tmp_path_factory.mktemp("services"), present=True) as server:
        yield server


def build_flask_service(client: PlacetClient) -> Any:
    app = Flask(__name__)

    @app.post("/orders")
    def order() -> Any:
        return client.open(**DRAFT, agent_request=request), 202

    return app.wsgi_app


def build_wsgi_service(client: PlacetClient) -> Any:
    def app(environ: dict[str, Any], start_response: Callable[..., Any]) -> list[bytes]:
        body = json.dumps(client.open(**DRAFT, agent_request=environ)).encode()
        start_response("202 Accepted", [("Content-Type", "application/json")])
        return [body]

    return app


@pytest.fixture(scope="module", params=[build_flask_service, build_wsgi_service], ids=["flask", "wsgi"])
def service(request: pytest.FixtureRequest, server: RunningServer) -> Iterator[str]:
    build: Callable[[PlacetClient], Any] = request.param
    with PlacetClient(server.url, server.api_key) as client:
        http = make_server("127.0.0.1", 0, build(client), handler_class=QuietHandler)
        thread = threading.Thread(target=http.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{http.server_port}"
        http.shutdown()
        thread.join(PATIENCE_S)
        http.server_close()


@pytest.mark.parametrize("credential", [KEY, {"X-API-Key": "key-of-the-agent"}], ids=["bearer", "api key"])
@pytest.mark.parametrize("streams", [True, False], ids=["stream", "poll"])
def test_the_agent_follows_the_case_with_its_credential_at_the_service(
    server: RunningServer, service: str, credential: dict[str, str], streams: bool
) -> None:
    def tell(notice: Notice) -> None:
        if notice.name == "requested":
            case = notice.case
            server.press({"submit_url": case.submit_url, "submit_token": case.submit_token}, "confirm")

    with Agent(tell=tell, trusted=[server.url], streams=streams, interval_s=0.05) as agent:
        outcome = agent.request("POST", f"{service}/orders", json={}, headers=credential)
    assert isinstance(outcome, Decided)
    assert outcome.action == "confirm"


def test_an_agent_without_a_credential_is_told_that_it_needs_one(server: RunningServer, service: str) -> None:
    with (
        Agent(tell=lambda notice: None, trusted=[server.url], interval_s=0.05) as agent,
        pytest.raises(CredentialsRefused),
    ):
        agent.request("POST", f"{service}/orders", json={})


def test_an_agent_that_signs_its_requests_follows_the_case(server: RunningServer) -> None:
    """The service has verified the agent's signature, and passes its public key on."""
    signer = RequestSigner(OKPKey.generate_key("Ed25519").as_dict(private=True), clock=server.clock)
    with PlacetClient(server.url, server.api_key) as client:
        asked = client.open(**DRAFT, agent_key=signer.public_key)

        def tell(notice: Notice) -> None:
            if notice.name == "requested":
                server.press(asked["hitl"], "confirm")

        def serve(request: httpx.Request) -> httpx.Response:
            is_signed = "Signature" in request.headers
            return httpx.Response(202, json=asked) if is_signed else httpx.Response(401)

        mounts = {"https://shop.example": httpx.MockTransport(serve)}
        with httpx.Client(auth=signer, mounts=mounts) as http:
            agent = Agent(tell=tell, http=http, trusted=[server.url], interval_s=0.05)
            outcome = agent.request("POST", "https://shop.example/orders", json={})
    assert isinstance(outcome, Decided)
    assert outcome.action == "confirm"


def test_placet_request_follows_the_case(server: RunningServer, service: str, tmp_path: Path) -> None:
    sent = ["-H", f"Authorization: {KEY['Authorization']}", "--trust", server.url, "--json", "-d", "{}"]
    command = [
        sys.executable,
        "-c",
        "from placet.cli import main; main()",
        "request",
        "POST",
        f"{service}/orders",
        *sent,
    ]
    options: Any = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    state = {**os.environ, "XDG_STATE_HOME": str(tmp_path)}
    with subprocess.Popen(command, env=state, **options) as process:
        assert process.stderr is not None
        link = next(found for line in process.stderr if (found := re.search(r"http\S+/review/\S+", line)))
        answer(link.group(), "confirm")
        out, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, err
    assert json.loads(out)["action"] == "confirm"


@pytest.mark.parametrize(
    ("sent", "arrived"),
    [
        ({"json": {"order": 7}}, {"order": 7, "hitl_callback_url": "https://agent.example/hitl"}),
        (
            {"json": {"hitl_callback_url": "https://own.example"}},
            {"hitl_callback_url": "https://own.example"},
        ),
        ({"json": [1, 2]}, [1, 2]),
        ({"content": b'{"raw":true}'}, {"raw": True}),
    ],
    ids=["object", "own address", "list", "bytes"],
)
def test_an_agent_that_takes_callbacks_says_so_in_json_objects(sent: Any, arrived: Any) -> None:
    bodies: list[Any] = []

    def serve(request: httpx.Request) -> httpx.Response:
        bodies.append(json.loads(request.content))
        return httpx.Response(204)

    address = "https://agent.example/hitl"
    with httpx.Client(transport=httpx.MockTransport(serve)) as http:
        Agent(tell=print, http=http, callback_url=address).request("POST", "https://shop.example", **sent)
    assert bodies == [arrived]


@pytest.mark.parametrize("address", ["agent.example/hitl", "ftp://agent.example", "", 7])
def test_a_callback_address_that_is_none_is_refused_when_the_agent_is_built(address: Any) -> None:
    with pytest.raises(SettingsError, match="callback_url"):
        Agent(tell=print, callback_url=address)


class DjangoLike:
    """As much of Django's request as is read."""

    def __init__(self, body: bytes, **headers: str) -> None:
        self.headers = headers
        self.body = body


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"7",
        b"{" * 100_000,
        b'{"hitl_callback_url": 7}',
        b"\xff",
        b'{"a": 1}',
    ],
    ids=lambda body: repr(body[:12]),
)
def test_a_body_without_a_callback_address_asks_for_none(body: bytes) -> None:
    assert read_agent_request(DjangoLike(body)) == {}


def test_the_callback_address_of_a_json_body_is_passed_on() -> None:
    body = b'{"hitl_callback_url": "https://agent.example/hitl"}'
    assert read_agent_request(DjangoLike(body)) == {"hitl_callback_url": "https://agent.example/hitl"}
    with Flask(__name__).test_request_context(json=json.loads(body), method="POST"):
        assert read_agent_request(request) == {"hitl_callback_url": "https://agent.example/hitl"}
    long = json.dumps({"hitl_callback_url": "https://agent.example/" + "x" * 5000}).encode()
    assert read_agent_request(DjangoLike(long)) == {}


@pytest.mark.parametrize("credential", ["Basic dTpw", "Bearer ", "Bearer", "", "Digest x"])
def test_a_request_without_a_bearer_credential_names_no_reader(credential: str) -> None:
    assert read_agent_request(DjangoLike(b"", Authorization=credential)) == {}


@pytest.mark.parametrize("wrong", ["request", 7, None, [("Authorization", "Bearer x")]], ids=repr)
def test_something_else_than_a_request_is_refused(wrong: Any) -> None:
    with pytest.raises(PlacetError, match="agent_request"):
        read_agent_request(wrong)
