"""A parsed call: a view over the raw JSON, which stays unchanged."""

import re
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import parse_qsl, quote, unquote_plus

import msgspec
from msgspec import Struct

from placet.relay.a2a.dialects import (
    EXTENDED_CARD_PATHS,
    REST_ROUTES,
    STREAMED,
    Dialect,
    Operation,
)
from placet.relay.a2a.errors import A2AError, RpcId
from placet.relay.a2a.json_fields import (
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
from placet.relay.a2a.lazy_property import lazy_property
from placet.relay.a2a.text_extraction import (
    FIELD_NAMES,
    TextCollector,
    TextPiece,
    UnreadableContent,
    is_plain_json,
    is_routine_value,
    replace_texts,
)

OPERATIONS_BY_TASK_ID: frozenset[Operation] = frozenset({"get", "cancel", "subscribe"})
PUSH_OPERATIONS_BY_ID: frozenset[Operation] = frozenset({"push_get", "push_list", "push_delete"})
SEND_OPERATIONS: frozenset[Operation] = frozenset({"send", "stream"})
TASK_ID_FIELDS = frozenset({*TASK_ID, *REFERENCES, "name", "parent", "config"})
"""Where a message may name tasks; most name none."""
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

PUSHING = frozenset(PUSH_CONFIG_FIELDS)
RPC_REQUEST_FIELDS = frozenset({"jsonrpc", "id", "method", "params"})
"""All that JSON-RPC has around what it carries."""
PUSH_TARGET_FIELDS = ("url", "token", "authentication")
"""Of a push config the relay puts its own in place of these."""
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

_encode = msgspec.json.Encoder().encode


class A2ACall(Struct, frozen=True, kw_only=True, dict=True):
    """What is asked of an agent, and in which dialect."""

    dialect: Dialect
    operation: Operation
    method: str = "POST"
    """The HTTP method."""
    document: Json | None = None
    """The whole body as it was read, unknown fields and all; None if there was none."""
    rpc_id: RpcId = None
    path_task: str | None = None
    path_push: str | None = None
    tenant: str | None = None
    query: str = ""
    headers: Mapping[str, str] = {}
    """What its caller says in headers that the agent gets."""

    @lazy_property
    def params(self) -> Json:
        """What the operation is told: the params of JSON-RPC, the body of HTTP+JSON."""
        document = self.document or {}
        found = document.get("params") if self.dialect.rpc else document
        return found if isinstance(found, dict) else {}

    @property
    def streamed(self) -> bool:
        """Whether the answer is a stream of events."""
        return self.operation in STREAMED

    @lazy_property
    def message(self) -> Json | None:
        """The message that is sent, if one is."""
        return get_object(self.params, MESSAGE) if self.operation in SEND_OPERATIONS else None

    @lazy_property
    def message_id(self) -> str | None:
        """The id its sender gave the message."""
        return get_text(self.message, MESSAGE_ID)

    @lazy_property
    def context_id(self) -> str | None:
        """The conversation that is meant."""
        return get_text(self.message, CONTEXT_ID) or get_text(self.params, CONTEXT_ID)

    @property
    def task_id(self) -> str | None:
        """The task that is meant."""
        return next(iter(self.task_ids), None)

    @lazy_property
    def task_ids(self) -> list[str]:
        """Every task that is named in any place an agent may look at, each once."""
        params, message = self.params, self.message
        nowhere = TASK_ID_FIELDS.isdisjoint(params) and (
            message is None or TASK_ID_FIELDS.isdisjoint(message)
        )
        if nowhere and self.path_task is None and self.operation in SEND_OPERATIONS and not self.query:
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
            if not isinstance(references, list) or not all(isinstance(one, str) for one in references):
                raise A2AError("params", "referenceTaskIds must be a list of texts.")
            named += references
        return list(dict.fromkeys(one for one in named if one))

    def _list_query_tasks(self) -> list[str]:
        """The tasks that the query names, where an agent might look for them too."""
        if not self.query:
            return []
        names = {*TASK_ID, "id"} if self.operation in OPERATIONS_BY_TASK_ID | SEND_OPERATIONS else {*TASK_ID}
        folded = {name.casefold() for name in names}  # some agents read names in any letters
        asked = [(name.casefold(), value) for name, value in parse_qsl(self.query)]
        resources = [
            _parse_resource_task({name: value}, name) for name, value in asked if name in ("name", "parent")
        ]
        return [value for name, value in asked if name in folded] + [one for one in resources if one]

    @lazy_property
    def _texts(self) -> TextCollector:
        found, params = TextCollector(), self.params
        holder = None
        if self.operation in SEND_OPERATIONS:
            holder = next((name for name in MESSAGE if name in params), None)
            if holder is not None:
                found.collect(params, holder, "message")
            found.collect(params, "metadata", "params.metadata")
            self._collect_configuration(found)
        self._collect_params(found, {holder, "metadata", "configuration"} if holder else set())
        if self.dialect.rpc and self.document is not None:
            found.collect_identifier(self.document, "id", "id")
            if not RPC_REQUEST_FIELDS.issuperset(self.document):
                found.collect_other_members(self.document, "call", except_for=RPC_REQUEST_FIELDS)
        for told in (self.tenant, self.path_task, self.path_push):
            if told is not None:
                found.collect_extra(told, "path")
        if self.query and not _PAGING_QUERY.fullmatch(self.query):
            found.collect_extra(unquote_plus(self.query), "query")
        for name, value in self.headers.items():
            if (
                name in INSPECTED_HEADERS
                and value not in ROUTINE_HEADER_VALUES
                and not _TRACEPARENT.fullmatch(value)
            ):
                found.collect_extra(value, f"headers.{name}")
        return found

    def _collect_params(self, found: TextCollector, seen: set[str]) -> None:
        params = self.params
        if seen.issuperset(params):
            return
        configs = {name for name in (*PUSH_CONFIG_FIELDS, "config") if isinstance(params.get(name), dict)}
        for name in configs - seen:
            _collect_push_config(found, params, name, f"params.{name}")
        others = set()
        for name in params:
            if name in IDENTIFIER_PARAMS or (name in KNOWN_FIELDS and is_routine_value(params[name])):
                others.add(name)
                found.collect_identifier(params, name, f"params.{name}")
        addressed = PUSH_TARGET_FIELDS if self.operation == "push_create" and params.get("url") else ()
        found.collect_other_members(params, "params", except_for={*seen, *configs, *others, *addressed})

    def _collect_configuration(self, found: TextCollector) -> None:
        configuration = self.params.get("configuration")
        if not isinstance(configuration, dict):
            found.collect(self.params, "configuration", "params.configuration")
            return
        path = "params.configuration"
        configs = {
            name for name in configuration if name in PUSHING and isinstance(configuration[name], dict)
        }
        for name in configs:
            _collect_push_config(found, configuration, name, f"{path}.{name}")
        plain = {
            name for name in configuration if name in KNOWN_FIELDS and is_routine_value(configuration[name])
        }
        found.collect_other_members(configuration, path, except_for=configs | plain)

    @property
    def plain(self) -> bytes | None:
        """The whole document as JSON if it can be scanned in one piece (see `is_plain_json`), else None."""
        beside = self.headers or self.query or self.tenant or self.path_task or self.path_push
        return self.json_bytes if not beside and is_plain_json(self.json_bytes) else None

    def pieces(self) -> list[TextPiece]:
        """Every text of the message and of what is said beside it, with its path."""
        return [location.piece for location in self._texts.locations]

    def opaque(self) -> list[str]:
        """Where the message carries content that is no text."""
        return [one.path for one in self._texts.unreadable]

    def unreadable(self) -> list[UnreadableContent]:
        """The same with the content itself."""
        return self._texts.unreadable

    def with_texts(self, texts: Sequence[str]) -> Json:
        """The whole document with other texts, one for each piece and in their order."""
        return replace_texts(self.document or {}, self._texts.locations, texts)

    @property
    def path(self) -> str:
        """The path below the agent's interface, without a query."""
        if self.dialect.rpc:
            return ""
        if self.operation == "extended_card":
            below = EXTENDED_CARD_PATHS[self.dialect.version]
        else:
            below = REST_ROUTES[self.operation][1].format(
                task=_quote(self.path_task), push=_quote(self.path_push)
            )
        if self.dialect.legacy:
            return f"/v1{below}"
        return f"/{_quote(self.tenant)}{below}" if self.tenant else below

    @lazy_property
    def json_bytes(self) -> bytes:
        """The document as bytes; none if there is none."""
        return b"" if self.document is None else _encode(self.document)

    def body(self) -> bytes:
        """The body to send on: what was read, so that nothing travels that was not seen."""
        return self.json_bytes


def precompute_fields(call: A2ACall) -> None:
    """Work out at once what will be asked of a usual call, a message that names nothing but itself."""
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


KNOWN_FIELDS = FIELD_NAMES | {
    "blocking",
    "returnImmediately",
    "return_immediately",
    "historyLength",
    "history_length",
}
KNOWN_FIELDS |= {"acceptedOutputModes", "accepted_output_modes"}


def _collect_push_config(found: TextCollector, holder: Json, name: str, path: str) -> None:
    """All of a push config but the address, which is the relay's by then."""
    config = holder[name]
    addressed = PUSH_TARGET_FIELDS if config.get("url") else ()
    found.collect_identifier(config, "id", f"{path}.id")
    found.collect_other_members(config, path, except_for=("id", *addressed))


def _quote(text: str | None) -> str:
    return quote(text or "", safe="")


def _parse_resource_task(holder: Json | None, name: str) -> str | None:
    """The task in a resource name like `tasks/ID/pushNotificationConfigs/…`."""
    value = holder.get(name) if holder is not None else None
    if not isinstance(value, str) or not value.startswith("tasks/"):
        return None
    return value.split("/")[1]


def check_rpc_id(value: Any) -> RpcId:
    """A JSON-RPC id that can be given back; raises for any other kind of value."""
    if value is None or isinstance(value, str) or (isinstance(value, int) and not isinstance(value, bool)):
        return value
    raise A2AError("request", "The id must be text, a whole number or null.")
