"""Calls of A2A: parse them in every dialect, read them and rewrite them."""

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl, quote, unquote_plus

import msgspec

from placet.relay.a2a.dialects import (
    EXTENDED_CARD_PATHS,
    REST_0_3,
    REST_1_0,
    REST_ROUTES,
    RPC_0_3,
    RPC_1_0,
    RPC_METHODS,
    STREAMED,
    Dialect,
    Operation,
    Version,
)
from placet.relay.a2a.document import A2ADocument, lazy_property
from placet.relay.a2a.errors import A2AError, RpcId
from placet.relay.a2a.json_format import (
    CONTEXT_ID,
    MESSAGE,
    MESSAGE_ID,
    REFERENCES,
    TASK_ID,
    Json,
    get_object,
    get_single,
    get_text,
)
from placet.relay.a2a.text_extraction import (
    FIELD_NAMES,
    FILE_FIELDS,
    TextCollector,
    build_plain_json,
    is_routine_value,
)

OPERATIONS_BY_TASK_ID: frozenset[Operation] = frozenset({"get", "cancel", "subscribe"})
PUSH_OPERATIONS_BY_ID: frozenset[Operation] = frozenset({"push_get", "push_list", "push_delete"})
SEND_OPERATIONS: frozenset[Operation] = frozenset({"send", "stream"})
TASK_ID_FIELDS = frozenset({*TASK_ID, *REFERENCES, "name", "parent", "config"})
"""The fields that may name a task. Most messages have none of them."""
RARE_IN_PARAMS = TASK_ID_FIELDS | {*CONTEXT_ID, *MESSAGE[1:]}
RARE_IN_MESSAGE = TASK_ID_FIELDS | {*CONTEXT_ID, *MESSAGE_ID[1:]}
PUSH_CONFIG_FIELDS = (
    "pushNotificationConfig",
    "push_notification_config",
    "taskPushNotificationConfig",
    "task_push_notification_config",
    "pushNotification",
    "push_notification",
)

_PUSH_CONFIG_FIELD_SET = frozenset(PUSH_CONFIG_FIELDS)
RPC_REQUEST_FIELDS = frozenset({"jsonrpc", "id", "method", "params"})
"""The fields of a JSON-RPC request."""
PUSH_TARGET_FIELDS = ("url", "token", "authentication")
"""The fields of a push config that the relay replaces with values for its own webhook."""
IDENTIFIER_PARAMS = frozenset({"id", "name", "parent", "tenant", "pageToken", "page_token"})
_PAGING_QUERY = re.compile(
    r"(?:(?:historyLength|history_length|pageSize|page_size)=\d{0,4}(?:&|\Z))*", re.ASCII
)
_TRACEPARENT = re.compile(r"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}")
ROUTINE_HEADER_VALUES = frozenset(
    {"application/json", "application/a2a+json", "text/event-stream", "*/*", "*", "en"}
)
ROUTINE_HEADER_VALUES |= {"application/json, text/event-stream", "1.0", "0.3", "1.0.0", "0.3.0"}
INSPECTED_HEADERS = frozenset(
    {"accept", "accept-language", "content-type", "last-event-id", "x-correlation-id"}
)
INSPECTED_HEADERS |= {"a2a-extensions", "x-a2a-extensions", "traceparent", "tracestate"}

KNOWN_FIELDS = FIELD_NAMES | {
    "blocking",
    "returnImmediately",
    "return_immediately",
    "historyLength",
    "history_length",
}
PART_FIELDS = frozenset({"parts", "content"})
OBJECT_FIELDS = frozenset(
    {"params", *MESSAGE, "configuration", "config", *PUSH_CONFIG_FIELDS, "authentication", "file"}
)
"""The objects in which an agent reads protected fields, apart from parts."""
MAX_DEPTH = 8
_PROTECTED_FIELDS = frozenset(
    {*OBJECT_FIELDS, *PART_FIELDS, *FILE_FIELDS, *RPC_REQUEST_FIELDS, *TASK_ID, *CONTEXT_ID, *REFERENCES}
    | {"name", "parent", "tenant", "url", "token", "text", "data"}
    | {"pushNotificationConfigId", "push_notification_config_id"}
)
_ALLOWED_FIELDS = _PROTECTED_FIELDS | KNOWN_FIELDS
_PROTECTED_FOLDED = frozenset(name.casefold() for name in _PROTECTED_FIELDS)
JSON_TYPES = ("application/json", "application/a2a+json")
MAX_ID_LENGTH = 512
DOT_SEGMENTS = frozenset({".", ".."})
_VERSION = re.compile(r"(\d{1,4})\.(\d{1,4})(?:\.\d{1,4})?")


class A2ACall(A2ADocument, frozen=True, kw_only=True, dict=True):
    """One call to an agent: its dialect, operation and body."""

    method: str = "POST"
    """The HTTP method."""
    document: Json | None = None
    """The whole parsed body, with unknown fields. None if the request has no body."""
    rpc_id: RpcId = None
    path_task: str | None = None
    path_push: str | None = None
    tenant: str | None = None
    query: str = ""
    headers: Mapping[str, str] = {}
    """The caller's headers that are forwarded to the agent."""

    @lazy_property
    def params(self) -> Json:
        """The params of JSON-RPC, or the body of HTTP+JSON."""
        document = self.document or {}
        params = document.get("params") if self.dialect.rpc else document
        return params if isinstance(params, dict) else {}

    @property
    def streamed(self) -> bool:
        """Whether the response is a stream of events."""
        return self.operation in STREAMED

    @lazy_property
    def message(self) -> Json | None:
        """The message of a send or stream operation, or None."""
        return get_object(self.params, MESSAGE) if self.operation in SEND_OPERATIONS else None

    @lazy_property
    def message_id(self) -> str | None:
        """The id of the message, as the caller set it."""
        return get_text(self.message, MESSAGE_ID)

    @lazy_property
    def context_id(self) -> str | None:
        """The context that the call belongs to, or None."""
        return get_text(self.message, CONTEXT_ID) or get_text(self.params, CONTEXT_ID)

    @property
    def task_id(self) -> str | None:
        """The first task that the call names, or None."""
        return next(iter(self.task_ids), None)

    @property
    def target_task_id(self) -> str | None:
        """The id of the task that the call is about. Tasks that a message only refers to do not count."""
        if self.message is None:
            return self.task_id
        return get_text(self.message, TASK_ID) or self.path_task or get_text(self.params, TASK_ID)

    @lazy_property
    def task_ids(self) -> list[str]:
        """Every task id in any field that an agent may read, without duplicates."""
        params, message = self.params, self.message
        body_names_none = TASK_ID_FIELDS.isdisjoint(params) and (
            message is None or TASK_ID_FIELDS.isdisjoint(message)
        )
        is_send = self.operation in SEND_OPERATIONS
        if body_names_none and self.path_task is None and is_send and not self.query:
            return []
        named = [
            self.path_task,
            get_text(params, TASK_ID),
            get_text(message, TASK_ID),
            *self._list_query_tasks(),
        ]
        if self.operation in OPERATIONS_BY_TASK_ID or (
            self.dialect.legacy and self.operation in PUSH_OPERATIONS_BY_ID
        ):
            named.append(get_text(params, ("id",)))
        named += [_parse_resource_task(params, name) for name in ("name", "parent")]
        named.append(_parse_resource_task(get_object(params, ("config",)), "name"))
        references = get_single(message, REFERENCES)
        if references is not None:
            if not isinstance(references, list) or not all(isinstance(item, str) for item in references):
                raise A2AError("params", "referenceTaskIds must be a list of strings.")
            named += references
        return list(dict.fromkeys(task_id for task_id in named if task_id))

    def _list_query_tasks(self) -> list[str]:
        """Return the task ids in the query, which an agent may read as well."""
        if not self.query:
            return []
        names = {*TASK_ID, "id"} if self.operation in OPERATIONS_BY_TASK_ID | SEND_OPERATIONS else {*TASK_ID}
        folded = {name.casefold() for name in names}  # some agents ignore the case of parameter names
        pairs = [(name.casefold(), value) for name, value in parse_qsl(self.query)]
        resources = [
            _parse_resource_task({name: value}, name) for name, value in pairs if name in ("name", "parent")
        ]
        return [value for name, value in pairs if name in folded] + [task for task in resources if task]

    def _collect_texts(self) -> TextCollector:
        """Collect the texts of the body, path, query and headers."""
        collector, params = TextCollector(), self.params
        message_field = None
        if self.operation in SEND_OPERATIONS:
            message_field = next((name for name in MESSAGE if name in params), None)
            if message_field is not None:
                collector.collect(params, message_field, "message")
            collector.collect(params, "metadata", "params.metadata")
            self._collect_configuration(collector)
        collected: set[str] = {message_field, "metadata", "configuration"} if message_field else set()
        self._collect_params(collector, collected)
        if self.dialect.rpc and self.document is not None:
            collector.collect_identifier(self.document, "id", "id")
            if not RPC_REQUEST_FIELDS.issuperset(self.document):
                collector.collect_other_members(self.document, "call", except_for=RPC_REQUEST_FIELDS)
        for segment in (self.tenant, self.path_task, self.path_push):
            if segment is not None:
                collector.collect_extra(segment, "path")
        if self.query and not _PAGING_QUERY.fullmatch(self.query):
            collector.collect_extra(unquote_plus(self.query), "query")
        for name, value in self.headers.items():
            if (
                name in INSPECTED_HEADERS
                and value not in ROUTINE_HEADER_VALUES
                and not _TRACEPARENT.fullmatch(value)
            ):
                collector.collect_extra(value, f"headers.{name}")
        return collector

    def _collect_params(self, collector: TextCollector, collected: set[str]) -> None:
        """Collect the texts of all params except the `collected` ones."""
        params = self.params
        if collected.issuperset(params):
            return
        configs = {name for name in (*PUSH_CONFIG_FIELDS, "config") if isinstance(params.get(name), dict)}
        for name in configs - collected:
            _collect_push_config(collector, params, name, f"params.{name}")
        identifiers = set()
        for name in params:
            if name in IDENTIFIER_PARAMS or (name in KNOWN_FIELDS and is_routine_value(params[name])):
                identifiers.add(name)
                collector.collect_identifier(params, name, f"params.{name}")
        replaced = PUSH_TARGET_FIELDS if self.operation == "push_create" and params.get("url") else ()
        collector.collect_other_members(
            params, "params", except_for={*collected, *configs, *identifiers, *replaced}
        )

    def _collect_configuration(self, collector: TextCollector) -> None:
        configuration = self.params.get("configuration")
        if not isinstance(configuration, dict):
            collector.collect(self.params, "configuration", "params.configuration")
            return
        path = "params.configuration"
        configs = {
            name
            for name in configuration
            if name in _PUSH_CONFIG_FIELD_SET and isinstance(configuration[name], dict)
        }
        for name in configs:
            _collect_push_config(collector, configuration, name, f"{path}.{name}")
        routine = {
            name for name in configuration if name in KNOWN_FIELDS and is_routine_value(configuration[name])
        }
        collector.collect_other_members(configuration, path, except_for=configs | routine)

    @lazy_property
    def plain(self) -> bytes | None:
        """Bytes that can be scanned instead of each text (see `build_plain_json`), or None."""
        has_extra_text = self.headers or self.query or self.tenant or self.path_task or self.path_push
        return None if has_extra_text else build_plain_json(self.json_bytes)

    @property
    def path(self) -> str:
        """The path below the agent's interface, without a query."""
        if self.dialect.rpc:
            return ""
        if self.operation == "extended_card":
            path = EXTENDED_CARD_PATHS[self.dialect.version]
        else:
            path = REST_ROUTES[self.operation][1].format(
                task=_quote(self.path_task), push=_quote(self.path_push)
            )
        if self.dialect.legacy:
            return f"/v1{path}"
        return f"/{_quote(self.tenant)}{path}" if self.tenant else path


def precompute_fields(call: A2ACall) -> None:
    """Set the lazy properties of a common call: a message that names no task and no context.

    One pass is faster than computing each property when it is first read.
    """
    params = call.document.get("params") if call.document is not None and call.dialect.rpc else None
    if (
        call.operation not in SEND_OPERATIONS
        or type(params) is not dict
        or not RARE_IN_PARAMS.isdisjoint(params)
    ):
        return
    message = params.get("message")
    if type(message) is not dict or not RARE_IN_MESSAGE.isdisjoint(message):
        return
    message_id = message.get("messageId")
    if type(message_id) is str:
        call.__dict__.update(
            params=params, message=message, message_id=message_id or None, context_id=None, task_ids=[]
        )


KNOWN_FIELDS |= {"acceptedOutputModes", "accepted_output_modes"}


def _collect_push_config(collector: TextCollector, holder: Json, name: str, path: str) -> None:
    """Collect the texts of a push config, except the target fields that the relay replaces."""
    config = holder[name]
    replaced = PUSH_TARGET_FIELDS if config.get("url") else ()
    collector.collect_identifier(config, "id", f"{path}.id")
    collector.collect_other_members(config, path, except_for=("id", *replaced))


def _quote(text: str | None) -> str:
    return quote(text or "", safe="")


def _parse_resource_task(holder: Json | None, name: str) -> str | None:
    """Return the task id in a resource name like `tasks/ID/pushNotificationConfigs/…`, or None."""
    value = holder.get(name) if holder is not None else None
    if not isinstance(value, str) or not value.startswith("tasks/"):
        return None
    return value.split("/")[1]


def check_rpc_id(value: Any) -> RpcId:
    """Return a valid JSON-RPC id. Raises A2AError for any other value."""
    if value is None or isinstance(value, str) or (isinstance(value, int) and not isinstance(value, bool)):
        return value
    raise A2AError("request", "id must be a string, an integer or null.")


def reject_lookalike_fields(holder: Json, depth: int = 0) -> None:
    """Raise A2AError if a field differs from a protected field only in case."""
    if not _ALLOWED_FIELDS.issuperset(holder):
        for name in holder:
            if name not in _ALLOWED_FIELDS and name.casefold() in _PROTECTED_FOLDED:
                raise A2AError("params", f"{name.casefold()}: use the exact case of the A2A field name.")
    for name, value in holder.items():
        if type(value) is dict and name in OBJECT_FIELDS and depth < MAX_DEPTH:
            reject_lookalike_fields(value, depth + 1)
        elif type(value) is list and name in PART_FIELDS:
            for part in value:
                if type(part) is dict:
                    reject_lookalike_fields(part, depth + 1)


_decode = msgspec.json.Decoder().decode


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
