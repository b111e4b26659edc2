"""Parse an HTTP request into a call: binding, version and operation."""

import re
from typing import Any

import msgspec

from placet.relay.a2a.call import A2ACall, check_rpc_id, precompute_fields
from placet.relay.a2a.dialects import (
    EXTENDED_CARD_PATHS,
    REST_0_3,
    REST_1_0,
    REST_ROUTES,
    RPC_0_3,
    RPC_1_0,
    RPC_METHODS,
    Dialect,
    Operation,
    Version,
)
from placet.relay.a2a.errors import A2AError, RpcId
from placet.relay.a2a.field_name_check import reject_lookalike_fields

JSON_TYPES = ("application/json", "application/a2a+json")
MAX_ID_LENGTH = 512
DOT_SEGMENTS = frozenset({".", ".."})
_decode = msgspec.json.Decoder().decode
_VERSION = re.compile(r"(\d{1,4})\.(\d{1,4})(?:\.\d{1,4})?")


class CallParseError(Exception):
    """A request is not a valid call. Carries the error and the dialect of the error response."""

    def __init__(self, problem: A2AError, dialect: Dialect, rpc_id: RpcId = None) -> None:
        super().__init__(problem.message)
        self.problem = problem
        self.dialect = dialect
        self.rpc_id = rpc_id


def parse_version(header: str | None) -> Version:
    """Return the A2A version in an A2A-Version header; 0.3 if the header is missing.

    Raises A2AError for a version that the relay does not support.
    """
    if header == "1.0":
        return "1.0"
    if not header or not header.strip():
        return "0.3"
    found = _VERSION.fullmatch(header.strip())
    if found is not None and found[1] == "1" and found[2] == "0":
        return "1.0"
    if found is not None and found[1] == "0" and found[2] == "3":
        return "0.3"
    raise A2AError("version", "A2A-Version: this version is not supported. Use 1.0 or 0.3.")


def parse_call(
    *, method: str, path: str, query: str, version: str | None, content_type: str | None, body: bytes
) -> A2ACall:
    """Return the call in a request to `path` below an agent's URL.

    Raises CallParseError, in the dialect that the caller most likely uses, for an invalid request.
    """
    if path in ("", "/"):
        return _parse_rpc_call(method, version, content_type, body)
    return _parse_rest_call(method, path, query, version, content_type, body)


def _parse_rpc_call(method: str, version: str | None, content_type: str | None, body: bytes) -> A2ACall:
    dialect = RPC_0_3 if not version else RPC_1_0
    rpc_id: RpcId = None
    try:
        if method != "POST":
            raise A2AError("request", "JSON-RPC requests must use POST.")
        _check_content_type(content_type)
        document = _decode_body(body)
        rpc_id = check_rpc_id(document.get("id"))
        if document.get("jsonrpc") != "2.0":
            raise A2AError("request", "jsonrpc must be '2.0'.")
        name = document.get("method")
        if not isinstance(name, str) or not name:
            raise A2AError("request", "method is required.")
        if name not in RPC_METHODS:
            raise A2AError("method", "Method not found.")
        dialect, operation = RPC_METHODS[name]
        parse_version(version)
        if not isinstance(document.get("params", {}), dict | None):
            raise A2AError("params", "params must be an object.")
        call = A2ACall(dialect=dialect, operation=operation, document=document, rpc_id=rpc_id)
        precompute_fields(call)
        return _check_call(call)
    except A2AError as problem:
        raise CallParseError(problem, dialect, rpc_id) from problem


def _parse_rest_call(
    method: str, path: str, query: str, version: str | None, content_type: str | None, body: bytes
) -> A2ACall:
    dialect = REST_0_3 if path.startswith("/v1/") else REST_1_0
    try:
        requested = parse_version(version)
        if dialect.legacy and requested != "0.3":
            # One agent may read `v1` as a tenant, another as the 0.3 prefix. Neither is safe to assume.
            raise A2AError(
                "version", "Paths that start with /v1/ are A2A 0.3. Remove /v1 or send A2A-Version: 0.3."
            )
        operation, tenant, task, push = _match_route(method, path, dialect)
        document = None
        if body:
            _check_content_type(content_type)
            document = _decode_body(body)
        elif operation in ("send", "stream", "push_create"):
            raise A2AError("parse", "The body is empty. Send a JSON object.")
        call = A2ACall(
            dialect=dialect,
            operation=operation,
            method=method,
            document=document,
            path_task=task,
            path_push=push,
            tenant=tenant,
            query=query,
        )
        return _check_call(call)
    except A2AError as problem:
        raise CallParseError(problem, dialect) from problem


def _compile_routes(version: Version) -> list[tuple[re.Pattern[str], tuple[str, ...], Operation]]:
    prefix = "/v1" if version == "0.3" else "(?:/(?P<tenant>[^/]+))?"
    routes: list[tuple[tuple[str, ...], str, Any]] = [
        (("GET",), EXTENDED_CARD_PATHS[version], "extended_card"),
        *((methods, path, operation) for operation, (methods, path) in REST_ROUTES.items()),
    ]
    return [
        (
            re.compile(
                prefix
                + re.escape(path)
                .replace(r"\{task\}", "(?P<task>[^/:]+)")
                .replace(r"\{push\}", "(?P<push>[^/:]+)")
            ),
            methods,
            operation,
        )
        for methods, path, operation in routes
        if not (version == "0.3" and operation == "list")
    ]


_ROUTES = {version: _compile_routes(version) for version in ("1.0", "0.3")}


def _match_route(
    method: str, path: str, dialect: Dialect
) -> tuple[Operation, str | None, str | None, str | None]:
    path_exists = False
    for pattern, methods, operation in _ROUTES[dialect.version]:
        found = pattern.fullmatch(path)
        if found is None:
            continue
        if method in methods:
            named = found.groupdict()
            if not DOT_SEGMENTS.isdisjoint(named.values()):
                break  # a proxy before the agent would resolve it to another path
            return operation, named.get("tenant"), named.get("task"), named.get("push")
        path_exists = True
    if path_exists:
        raise A2AError("not_allowed", "This URL does not support the request method.")
    raise A2AError("method", "Method not found.")


def _check_content_type(content_type: str | None) -> None:
    if content_type in JSON_TYPES:
        return
    media_type = (content_type or "").partition(";")[0].strip().lower()
    if media_type not in JSON_TYPES:
        raise A2AError("content_type", "Content-Type must be application/json.")


def _decode_body(body: bytes) -> dict[str, Any]:
    try:
        document = _decode(body)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        raise A2AError("parse", "The body is not valid JSON.") from None
    if not isinstance(document, dict):
        raise A2AError("request", "The body must be one JSON object; batches are not supported.")
    return document


def _check_call(call: A2ACall) -> A2ACall:
    """Return the call if it is valid.

    Reads every lazy property, so that a field with two spellings is rejected here and not later.
    """
    if call.document is not None:
        reject_lookalike_fields(call.document)
    for identifier in (call.context_id, call.message_id, *call.task_ids):
        if identifier is not None and len(identifier) > MAX_ID_LENGTH:
            raise A2AError("params", f"An id must have at most {MAX_ID_LENGTH} characters.")
    if call.operation in ("send", "stream") and call.message is None:
        raise A2AError("params", "message is required.")
    if call.operation in ("get", "cancel", "subscribe") and call.task_id is None:
        raise A2AError("params", "A task id is required.")
    return call
