"""Replies to A2A calls: read them, rewrite them, and check that they answer the call."""

import hashlib
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any

import msgspec

from placet.relay.a2a.call import A2ACall
from placet.relay.a2a.dialects import (
    ROLES,
    RPC_NAMES,
    STATES,
    TERMINAL,
    Dialect,
    Operation,
    TaskState,
    parse_state,
)
from placet.relay.a2a.document import A2ADocument, lazy_property
from placet.relay.a2a.errors import A2AError, RpcId
from placet.relay.a2a.json_format import (
    ARTIFACT_UPDATE,
    CONTEXT_ID,
    MESSAGE_ID,
    STATUS_UPDATE,
    TASK_ID,
    Json,
    get_object,
    get_role,
    get_state,
    get_text,
)
from placet.relay.a2a.text_extraction import (
    MAX_DEPTH,
    TextCollector,
    build_plain_json,
    is_routine_value,
)

CALL_FIELDS = frozenset({*TASK_ID, *CONTEXT_ID})
"""The fields that the relay or the agent may set in a message. A digest does not cover them."""
MAX_EXACT_FLOAT = 2.0**53
PART_KINDS = frozenset({"text", "data", "file"})
NAMES = {
    "message_id": "messageId",
    "content": "parts",
    "reference_task_ids": "referenceTaskIds",
    "bytes": "raw",
    "fileWithBytes": "raw",
    "file_with_bytes": "raw",
    "uri": "url",
    "fileWithUri": "url",
    "file_with_uri": "url",
    "name": "filename",
    "mimeType": "mediaType",
    "mime_type": "mediaType",
    "media_type": "mediaType",
}
"""The names that a dialect has for a field of another dialect."""

_encode = msgspec.json.Encoder(order="deterministic").encode

WRONG_ID = "The agent's response has another id than the request."
NOT_JSON = "The agent's response is not valid JSON."
PUSH_OPERATIONS: frozenset[Operation] = frozenset({"push_create", "push_get", "push_list", "push_delete"})
MESSAGE_OPERATIONS: frozenset[Operation] = frozenset({"send", "stream", "subscribe"})
STATUS_FIELDS = ("state", "timestamp")
TASK_FIELDS = frozenset({"id", "status", "artifacts", "history", "metadata"})
RPC_RESPONSE_FIELDS = frozenset({"jsonrpc", "id", "result", "error"})
"""The fields of a JSON-RPC response."""
UPDATE_FIELDS = ("status", "artifact", "metadata")


def digest_message(message: Json) -> str:
    """Return the digest of a message's content. It is the same in every dialect.

    It covers everything except the role and `CALL_FIELDS`.
    """
    content: Json = {}
    for name, value in message.items():
        if name in CALL_FIELDS or _is_constant(name, value, "message"):
            continue
        has_parts = name in ("parts", "content") and isinstance(value, list)
        _add(content, name, [_normalize_part(part) for part in value] if has_parts else value)
    return hashlib.sha256(_encode(content)).hexdigest()


def list_user_messages(task: Json) -> frozenset[str]:
    """Return the digests of the messages in a task's history that claim to be the user's."""
    history = task.get("history")
    messages = history if isinstance(history, list) else []
    return frozenset(
        digest_message(message)
        for message in messages
        if isinstance(message, dict) and get_role(message) == "user"
    )


def _normalize_part(part: Any) -> Any:
    """Return a part with the field names of A2A 1.0 and without wrappers."""
    if not isinstance(part, dict):
        return part
    content: Json = {}
    for name, value in part.items():
        if name == "kind" and isinstance(value, str) and value in PART_KINDS:
            continue
        if name == "file" and isinstance(value, dict) and not set(value) & set(part):
            for inner, item in value.items():
                _add(content, inner, item)
        elif name == "data" and isinstance(value, dict) and set(value) == {"data"}:
            _add(content, name, value["data"])
        else:
            _add(content, name, value)
    return content


def _add(content: Json, name: str, value: Any) -> None:
    """Add a field under the name of A2A 1.0, unless it is empty. No field replaces another."""
    if value is None or value == "" or value == [] or value == {}:
        return
    new_name = NAMES.get(name, name)
    content[name if new_name in content else new_name] = _normalize_value(value, MAX_DEPTH)


def _normalize_value(value: Any, levels: int) -> Any:
    """Return the value with whole numbers as integers, because protocol buffers have only floats."""
    if isinstance(value, float) and abs(value) <= MAX_EXACT_FLOAT and value.is_integer():
        return int(value)
    if levels and isinstance(value, list):
        return [_normalize_value(item, levels - 1) for item in value]
    if levels and isinstance(value, dict):
        return {name: _normalize_value(item, levels - 1) for name, item in value.items()}
    return value


def _is_constant(name: str, value: Any, kind: str) -> bool:
    return isinstance(value, str) and (
        (name == "role" and value in ROLES) or (name == "kind" and value == kind)
    )


_decode = msgspec.json.Decoder().decode


class _ResponseHead(msgspec.Struct):
    """What says to which request a response belongs. The decoder skips everything else."""

    id: Any = None
    error: msgspec.Raw = msgspec.Raw()


_decode_head = msgspec.json.Decoder(_ResponseHead).decode


class A2AReply(A2ADocument, frozen=True, kw_only=True, dict=True):
    """One reply of an agent to an operation."""

    document: Json
    """The parsed body, or the parsed data of one event."""
    forwarded: Mapping[str, AbstractSet[str]] = {}
    """The digests (`digest_message`) of the messages that the relay forwarded, by the id of their task.

    An agent may repeat these messages in `history`. They are not inspected again.
    """

    @property
    def error(self) -> Any:
        """The error that the agent returned, or None."""
        return self.document.get("error")

    @lazy_property
    def result(self) -> Json:
        """The result of JSON-RPC, or the body of HTTP+JSON."""
        result = self.document.get("result") if self.dialect.rpc else self.document
        return result if isinstance(result, dict) else {}

    @lazy_property
    def task(self) -> Json | None:
        """The task, or None if the reply is not a task."""
        result = self.result
        inner = get_object(result, ("task",))
        if inner is not None:
            return inner
        is_task = result.get("kind") == "task" or ("id" in result and "status" in result)
        return result if is_task and self.operation not in PUSH_OPERATIONS else None

    @property
    def tasks(self) -> list[Json]:
        """Every task of the reply: one task, or a page of tasks."""
        if self.operation == "list":
            tasks = self.result.get("tasks")
            return [task for task in tasks if isinstance(task, dict)] if isinstance(tasks, list) else []
        return [self.task] if self.task is not None else []

    @lazy_property
    def message(self) -> Json | None:
        """The message, or None if the reply is not a message."""
        result = self.result
        if result.get("kind") == "message":
            return result
        return get_object(result, ("message", "msg")) if self.operation in MESSAGE_OPERATIONS else None

    @lazy_property
    def status_update(self) -> Json | None:
        """The status update, or None if the event is not one."""
        result = self.result
        return result if result.get("kind") == "status-update" else get_object(result, STATUS_UPDATE)

    @lazy_property
    def artifact_update(self) -> Json | None:
        """The artifact update, or None if the event is not one."""
        result = self.result
        return result if result.get("kind") == "artifact-update" else get_object(result, ARTIFACT_UPDATE)

    @lazy_property
    def task_id(self) -> str | None:
        """The id of the task that the reply belongs to, or None."""
        if self.task is not None:
            return get_text(self.task, ("id",))
        return get_text(self.status_update or self.artifact_update or self.message, TASK_ID)

    @lazy_property
    def context_id(self) -> str | None:
        """The id of the context that the reply belongs to, or None."""
        return get_text(self.task or self.status_update or self.artifact_update or self.message, CONTEXT_ID)

    @property
    def message_id(self) -> str | None:
        """The id of the message, or None if the reply is not a message."""
        return get_text(self.message, MESSAGE_ID)

    @lazy_property
    def state(self) -> TaskState | None:
        """The state of the task, or None if the reply does not contain one."""
        source = self.task or self.status_update
        return None if source is None else get_state(source.get("status"))

    @property
    def final(self) -> bool:
        """Whether the task is in a terminal state."""
        return self.state in TERMINAL

    def _collect_texts(self) -> TextCollector:
        """Collect the texts of the agent, without the messages in `history` that the relay forwarded."""
        collector, document, result = TextCollector(), self.document, self.result
        if len(result) == 1 and self.operation != "list" and isinstance(result.get("task"), dict):
            # Fast path for the most common reply: one task and nothing else.
            _collect_task(collector, result["task"], "", self.forwarded)
            if self.dialect.rpc:
                _collect_envelope(collector, document)
            return collector
        collected = {"error"}
        for member, names in (
            (self.message, ("message", "msg")),
            (self.status_update, STATUS_UPDATE),
            (self.artifact_update, ARTIFACT_UPDATE),
        ):
            if member is not None and member is not result:
                collected.update(names)
        if self.message is not None:
            collector.collect({"message": self.message}, "message", "message")
        for update, name in ((self.status_update, "status"), (self.artifact_update, "artifact")):
            if update is not None:
                collector.collect(update, name, name, except_for=STATUS_FIELDS)
                collector.collect(update, "metadata", "metadata")
                collector.collect_other_members(update, "update", except_for=UPDATE_FIELDS)
        for index, task in enumerate(self.tasks):
            path = f"tasks[{index}]." if self.operation == "list" else ""
            _collect_task(collector, task, path, self.forwarded)
        collected.update(self._collect_invalid_tasks(collector))
        members = (*self.tasks, self.message, self.status_update, self.artifact_update)
        if not any(result is member for member in members):
            collector.collect_other_members(result, "result", except_for=collected)
        if self.dialect.rpc:
            _collect_envelope(collector, document)
        if self.error is not None:
            collector.collect(document, "error", "error")
        return collector

    def _collect_invalid_tasks(self, collector: TextCollector) -> Sequence[str]:
        """Collect the items of a task list that are not tasks. Return the fields that hold tasks."""
        if self.operation != "list":
            return () if self.task is None or self.task is self.result else ("task",)
        items = self.result.get("tasks")
        if not isinstance(items, list):
            return ()
        for index, item in enumerate(items):
            if not isinstance(item, dict):
                collector.collect_item(items, index, f"tasks[{index}]")
        return ("tasks",)

    @lazy_property
    def plain(self) -> bytes | None:
        """Bytes that can be scanned instead of each text (see `build_plain_json`), or None."""
        return build_plain_json(self.json_bytes) if len(self.result) == 1 else None

    def copy(self) -> "A2AReply":
        """Return a shallow copy with the values that are already computed."""
        copied = A2AReply(
            dialect=self.dialect,
            operation=self.operation,
            document=self.document,
            forwarded=self.forwarded,
        )
        copied.__dict__.update(self.__dict__)
        return copied


def add_metadata(reply: A2AReply, metadata: Json) -> A2AReply:
    """Return a reply or event with more metadata. An error is returned unchanged."""
    result = reply.result
    for name, member in [("", result), *result.items()]:
        if any(
            member is one for one in (reply.task, reply.status_update, reply.artifact_update, reply.message)
        ):
            known = member.get("metadata")
            marked = member | {"metadata": (known if isinstance(known, dict) else {}) | metadata}
            changed = result | {name: marked} if name else marked
            document = reply.document | {"result": changed} if reply.dialect.rpc else changed
            return A2AReply(dialect=reply.dialect, operation=reply.operation, document=document)
    return reply


def _collect_envelope(collector: TextCollector, document: Json) -> None:
    """Collect the texts of a JSON-RPC envelope, which normally has only an id and the result."""
    for name in ("jsonrpc", "id"):
        if not is_routine_value(document.get(name)):
            collector.collect_identifier(document, name, name)
    if not RPC_RESPONSE_FIELDS.issuperset(document):
        collector.collect_other_members(document, "answer", except_for=RPC_RESPONSE_FIELDS)
    if not isinstance(document.get("result", {}), dict):
        collector.collect(document, "result", "result")


def _collect_task(
    collector: TextCollector, task: Json, path: str, forwarded: Mapping[str, AbstractSet[str]]
) -> None:
    if not is_routine_value(task.get("id")):
        collector.collect_identifier(task, "id", f"{path}id")
    collector.collect(task, "status", f"{path}status", except_for=STATUS_FIELDS)
    collector.collect(task, "artifacts", f"{path}artifacts")
    collector.collect(task, "metadata", f"{path}metadata")
    if not TASK_FIELDS.issuperset(task):
        collector.collect_other_members(task, f"{path}task", except_for=TASK_FIELDS)
    value = task.get("history")
    history: list[Any] = value if isinstance(value, list) else []
    if value is not history:
        collector.collect(task, "history", f"{path}history")
    known = forwarded.get(get_text(task, ("id",)) or "", frozenset()) if history else frozenset()
    for index, message in enumerate(history):
        if known and isinstance(message, dict) and digest_message(message) in known:
            for name in CALL_FIELDS:
                collector.collect_identifier(message, name, f"{path}history[{index}].{name}")
        else:
            # An agent may call any message the user's, so the role does not matter.
            collector.collect_item(history, index, f"{path}history[{index}]")


def parse_reply_to(call: A2ACall, body: bytes) -> A2AReply:
    """Return the reply to this call. Raises A2AError also if it is the response to another request.

    An agent, or a proxy before it, that mixes up two responses would give one caller the other's answer.
    """
    reply = parse_reply(call.dialect, call.operation, body)
    if call.dialect.rpc:
        _check_id(call.rpc_id, reply.document.get("id"), is_error=reply.document.get("error") is not None)
    return reply


def check_response_id(call: A2ACall, body: bytes) -> None:
    """Raise A2AError if a body that is not parsed otherwise is the response to another request."""
    if not call.dialect.rpc:
        return
    try:
        head = _decode_head(body)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        raise A2AError("agent_response", NOT_JSON) from None
    _check_id(call.rpc_id, head.id, is_error=bytes(head.error) not in (b"", b"null"))


def _check_id(sent: RpcId, found: Any, *, is_error: bool) -> None:
    """Check a response's id. An error may have none, if the request's id was not readable."""
    if found is None and (sent is None or is_error):
        return
    if type(found) is not type(sent) or found != sent:  # 1, 1.0, "1" and true are different ids
        raise A2AError("agent_response", WRONG_ID)


def parse_reply(dialect: Dialect, operation: Operation, body: bytes) -> A2AReply:
    """Return the reply in a body or in the data of an event. Raises A2AError if it is not valid."""
    try:
        document = _decode(body)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        raise A2AError("agent_response", NOT_JSON) from None
    return check_reply(dialect, operation, document)


def check_reply(dialect: Dialect, operation: Operation, document: Any) -> A2AReply:
    """Return the reply in a document. Raises A2AError if it is not valid."""
    if not isinstance(document, dict):
        raise A2AError("agent_response", "The agent's response is not a JSON object.")
    # The result of a deletion is null, and some agents omit it.
    has_result = "result" in document or (operation == "push_delete" and "error" not in document)
    if dialect.rpc and has_result == ("error" in document):
        raise A2AError("agent_response", "The agent's response must have either a result or an error.")
    reply = A2AReply(dialect=dialect, operation=operation, document=document)
    _precompute_fields(reply, document.get("result") if dialect.rpc else document)
    return reply


def _precompute_fields(reply: A2AReply, result: Any) -> None:
    """Set the lazy properties of a common reply: a task.

    One pass is four times as fast as computing each property when it is first read.
    """
    task = result.get("task") if type(result) is dict else None
    if type(task) is not dict or "context_id" in task:
        return
    task_id, context_id, status = task.get("id"), task.get("contextId"), task.get("status")
    word = status.get("state") if type(status) is dict else None
    if type(task_id) is str and type(context_id) is str and type(word) is str:
        reply.__dict__.update(
            result=result,
            task=task,
            task_id=task_id or None,
            context_id=context_id or None,
            state=STATES.get(word) or parse_state(word),
        )


def build_task_call(
    dialect: Dialect, operation: Operation, task_id: str, tenant: str | None = None
) -> A2ACall:
    """Return a call that contains only a task id."""
    if dialect.rpc:
        document: dict[str, Any] = {
            "jsonrpc": "2.0",
            "id": 1,
            "method": RPC_NAMES[dialect, operation],
            "params": {"id": task_id},
        }
        return A2ACall(dialect=dialect, operation=operation, document=document, rpc_id=1, tenant=tenant)
    if operation == "get":
        return A2ACall(dialect=dialect, operation=operation, method="GET", path_task=task_id, tenant=tenant)
    return A2ACall(dialect=dialect, operation=operation, path_task=task_id, document={}, tenant=tenant)


def build_get_reply(dialect: Dialect, task: Json) -> A2AReply:
    """Return the reply to a call of `build_task_call` that gets this task."""
    document = {"jsonrpc": "2.0", "id": 1, "result": task} if dialect.rpc else task
    return A2AReply(dialect=dialect, operation="get", document=document)
