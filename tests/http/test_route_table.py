"""One route table: whatever is served stands in it, and routing, description and client come from it."""

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.routing import Route as StarletteRoute

import placet
from placet.http.openapi import wire_codes
from placet.http.route import Route
from placet.relay.api.table import API_ROUTES, RELAY_ROUTES
from placet.relay.settings import RelaySettings
from placet.server.app import FIRST_STEPS
from tests.server.running import RunningServer, running

SOURCE = Path(placet.__file__).parent
OPERATION = re.compile(r"""(?:\.call|\.stream|call_all_pages|_call)\(\s*(?:\w+,\s*)?"(\w+)\"""")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with running(tmp_path_factory.mktemp("table"), relay=RelaySettings(enabled=True)) as found:
        yield found


@pytest.fixture(scope="module")
def table(server: RunningServer) -> tuple[Route, ...]:
    return tuple(server.parts.routes)


def test_no_route_and_no_operation_is_declared_twice(table: tuple[Route, ...]) -> None:
    places = Counter((route.method, route.path) for route in table)
    names = Counter(route.name for route in table)
    assert not [one for one, count in (*places.items(), *names.items()) if count > 1]


def test_the_router_serves_the_table_and_nothing_else(
    server: RunningServer, table: tuple[Route, ...]
) -> None:
    routed = {
        (method, route.path)
        for route in server.parts.router.routes
        if isinstance(route, StarletteRoute)
        for method in route.methods or ()
        if method != "HEAD"
    }
    assert len(server.parts.router.routes) == len({path for _, path in routed})
    declared = {(one.method, one.path) for one in table if one.handling in ("operation", "response")}
    assert routed == declared


def test_every_route_of_the_api_is_described_and_nothing_else(
    server: RunningServer, table: tuple[Route, ...]
) -> None:
    with server.client() as client:
        document: dict[str, Any] = client.get("/openapi.json").json()
    described = {
        (operation["operationId"], method.upper(), path)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    }
    assert described == {(one.name, one.method, one.path) for one in table if one.tag is not None}


def test_a_relay_serves_what_its_table_declares(table: tuple[Route, ...]) -> None:
    served = {(one.name, one.method, one.path) for one in table}
    assert {(one.name, one.method, one.path) for one in RELAY_ROUTES} <= served


def test_requests_to_every_route_are_counted_under_a_known_name(table: tuple[Route, ...]) -> None:
    assert {one.path.split("/")[1] for one in table} - {""} <= FIRST_STEPS


def test_routes_are_made_in_one_module_only() -> None:
    making = re.compile(r"from starlette\.routing import .*\b(Route|Mount|WebSocketRoute)\b")
    found = [path for path in SOURCE.rglob("*.py") if making.search(path.read_text("utf-8"))]
    assert [str(path.relative_to(SOURCE)) for path in found] == ["http/routing.py"]


def test_the_command_line_calls_operations_of_the_table_only() -> None:
    known = {route.name for route in API_ROUTES}
    called = {
        name for path in (SOURCE / "cli").glob("*.py") for name in OPERATION.findall(path.read_text("utf-8"))
    }
    assert len(called) > 10
    assert called <= known


def test_our_error_codes_are_lower_case_and_the_protocols_keep_their_spelling() -> None:
    assert {code for code in wire_codes() if code != code.lower()} == {
        "HITL_CHOICE_REQUIRED",
        "VALIDATION_ERROR",
    }
