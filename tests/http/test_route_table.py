"""One route table: whatever is served stands in it, and routing, description and client come from it."""

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.routing import Route as StarletteRoute

import placet
from placet.http import client_operations
from placet.http.openapi import list_wire_codes
from placet.http.route import OperationAddress, Route, get_first_step
from placet.mcp.http_transport import MCP_ROUTE
from placet.protocol import service_paths
from placet.relay.route_addresses import OPERATIONS
from placet.relay.settings import RelaySettings
from placet.relay.transports.route_table import API_ROUTES, RELAY_ROUTES
from placet.server.app import PlacetApp
from tests.server.running import RunningServer, running

SOURCE = Path(placet.__file__).parent
DECLARING = ("http/client_operations.py", "protocol/service_paths.py", "relay/route_addresses.py")
FOREIGN = {
    "channels/teams/request_verification.py": "paths of Microsoft's service",
    "relay/a2a/": "paths of A2A, below the address of an agent",
    "testing/": "URLs of services that do not exist",
}
"""Modules whose paths are not ours, and why."""
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


def test_requests_to_every_route_are_counted_under_a_known_name(
    server: RunningServer, table: tuple[Route, ...]
) -> None:
    app = server.parts.app
    assert isinstance(app, PlacetApp)
    assert {one.path for one in table if app.find_route_name(one.method, one.path) == "other"} <= {"/"}


def test_routes_are_made_in_one_module_only() -> None:
    making = re.compile(r"from starlette\.routing import .*\b(Route|Mount|WebSocketRoute)\b")
    found = [path for path in SOURCE.rglob("*.py") if making.search(path.read_text("utf-8"))]
    assert [str(path.relative_to(SOURCE)) for path in found] == ["http/routing.py"]


def test_the_command_line_calls_operations_of_the_table_only() -> None:
    assert {*OPERATIONS.values()} == {OperationAddress(one.method, one.path, one.name) for one in API_ROUTES}
    called = {
        name for path in (SOURCE / "cli").glob("*.py") for name in OPERATION.findall(path.read_text("utf-8"))
    }
    assert len(called) > 10
    assert called <= set(OPERATIONS)


def test_our_clients_call_operations_of_the_table_only(table: tuple[Route, ...]) -> None:
    addresses = [one for one in vars(client_operations).values() if isinstance(one, OperationAddress)]
    assert addresses
    assert {*addresses} <= {OperationAddress(one.method, one.path, one.name) for one in table}


def test_shared_paths_begin_paths_of_the_table(table: tuple[Route, ...]) -> None:
    shared = {name: path for name, path in vars(service_paths).items() if name.isupper()}
    assert shared
    assert not [path for path in shared.values() if not any(_is_below(one.path, path) for one in table)]


def test_no_path_of_ours_is_spelled_outside_its_declaration(table: tuple[Route, ...]) -> None:
    steps = {get_first_step(one.path) for one in (*table, MCP_ROUTE)} - {""}
    spelled = [
        f"{name}: {text}"
        for name, module in _read_modules()
        if not name.startswith((*DECLARING, *FOREIGN))
        for text in _undeclared_texts(module)
        if text.startswith("/") and get_first_step(re.split(r"[?\s]", text)[0]) in steps
    ]
    assert spelled == []


def _is_below(path: str, prefix: str) -> bool:
    return path == prefix or path.startswith(f"{prefix}/")


def _read_modules() -> Iterator[tuple[str, ast.Module]]:
    for path in sorted(SOURCE.rglob("*.py")):
        yield path.relative_to(SOURCE).as_posix(), ast.parse(path.read_text("utf-8"))


def _undeclared_texts(module: ast.Module) -> Iterator[str]:
    """Yield the texts of a module, without docstrings and declarations of routes."""
    nodes = list(ast.walk(module))
    declarations: list[ast.AST] = [
        node
        for node in nodes
        if isinstance(node, ast.Call) and getattr(node.func, "id", None) in ("Route", "OperationAddress")
    ]
    declarations += [
        decorator
        for node in nodes
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        for decorator in node.decorator_list
    ]
    within = [node for declaration in declarations for node in ast.walk(declaration)]
    names = {node.id for node in within if isinstance(node, ast.Name)}
    skipped = {*within}
    for node in nodes:
        is_used = isinstance(node, ast.Assign) and names & {getattr(one, "id", "") for one in node.targets}
        is_docstring = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if is_used or is_docstring:
            skipped.update(ast.walk(node))
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in skipped:
            yield node.value


def test_our_error_codes_are_lower_case_and_the_protocols_keep_their_spelling() -> None:
    assert {code for code in list_wire_codes() if code != code.lower()} == {
        "HITL_CHOICE_REQUIRED",
        "VALIDATION_ERROR",
    }
