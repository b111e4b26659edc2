"""The relay's part of the API's description: sound, complete, and true of what the server sends."""

import re
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
import schemathesis
from jsonschema import Draft202012Validator
from starlette.routing import Route

from placet.relay.settings import RelaySettings
from placet.relay.transports.route_table import A2A_ROUTES, RELAY_TAGS
from tests.server.running import RunningServer, running

Operation = tuple[str, str, dict[str, Any]]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with running(tmp_path_factory.mktemp("described"), relay=RelaySettings(enabled=True)) as found:
        yield found


@pytest.fixture(scope="module")
def document(server: RunningServer) -> dict[str, Any]:
    with server.client() as client:
        found: dict[str, Any] = client.get("/openapi.json").json()
        return found


@pytest.fixture(scope="module")
def operations(document: dict[str, Any]) -> list[Operation]:
    return [
        (method, path, operation)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
        if path.startswith(("/relay/", "/audit/"))
    ]


def test_the_document_is_openapi_and_every_schema_is_json_schema(document: dict[str, Any]) -> None:
    schemathesis.openapi.from_dict(document).validate()
    for schema in document["components"]["schemas"].values():
        Draft202012Validator.check_schema(schema)


def test_every_reference_resolves(document: dict[str, Any]) -> None:
    for pointer in set(re.findall(r'"\$ref":"#/([^"]+)"', msgspec.json.encode(document).decode())):
        place = document
        for step in pointer.split("/"):
            place = place[step]


def test_every_address_is_described_and_every_described_one_is_served(
    server: RunningServer, operations: list[Operation]
) -> None:
    relay = server.parts.relay
    assert relay is not None
    a2a = {(one.method.lower(), one.path) for one in A2A_ROUTES}
    served = {(one.method.lower(), one.path) for one in relay.routes} - a2a
    assert served | a2a == {(method, path) for method, path, _ in operations}
    routed = {
        (method.lower(), route.path)
        for route in server.parts.router.routes
        if isinstance(route, Route) and route.path.startswith(("/relay/", "/audit/"))
        for method in route.methods or ()
        if method != "HEAD"
    }
    assert routed == served


def test_every_operation_has_unique_id_summary_and_description(operations: list[Operation]) -> None:
    names = [operation["operationId"] for _, _, operation in operations]
    assert len(names) == len(set(names))
    for _, path, operation in operations:
        assert set(operation["tags"]) <= set(RELAY_TAGS), path
        assert operation["summary"], path
        for parameter in operation["parameters"]:
            assert parameter["description"], (path, parameter["name"])


def test_unknown_fields_of_requests_are_refused_by_the_schemas_too(
    document: dict[str, Any], operations: list[Operation]
) -> None:
    for _, path, operation in operations:
        if "requestBody" in operation and operation["tags"] != ["Relaying"]:
            schema = operation["requestBody"]["content"]["application/json"]["schema"]
            named = document["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
            assert named["additionalProperties"] is False, path


def test_description_is_shown_as_html(server: RunningServer) -> None:
    with server.client() as client:
        page = client.get("/docs")
    assert page.status_code == 200
    assert "/relay/v1/registry/agents/{agentId}" in page.text
    assert "/audit/v1/events" in page.text
