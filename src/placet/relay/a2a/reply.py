"""A parsed reply, whole or one event of a stream: a view over the raw JSON."""

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Struct

from placet.relay.a2a.dialects import STATES, TERMINAL, Dialect, Operation, State, parse_state
from placet.relay.a2a.errors import A2AError
from placet.relay.a2a.json_fields import (
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
from placet.relay.a2a.lazy_property import lazy_property
from placet.relay.a2a.text_extraction import (
    TextCollector,
    TextPiece,
    UnreadableContent,
    is_plain_json,
    is_routine_value,
    replace_texts,
)

_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode


class A2AReply(Struct, frozen=True, kw_only=True, dict=True):
    """What an agent answered to an operation."""

    dialect: Dialect
    operation: Operation
    document: Json
    """The whole body, or the data of one event."""

    @property
    def error(self) -> Any:
        """What the agent says went wrong; None if nothing did."""
        return self.document.get("error")

    @lazy_property
    def result(self) -> Json:
        """What was asked for: the result of JSON-RPC, the body of HTTP+JSON."""
        found = self.document.get("result") if self.dialect.rpc else self.document
        return found if isinstance(found, dict) else {}

    @lazy_property
    def task(self) -> Json | None:
        """The task, where the answer is one."""
        result = self.result
        inner = get_object(result, ("task",))
        if inner is not None:
            return inner
        bare = result.get("kind") == "task" or ("id" in result and "status" in result)
        return result if bare and self.operation not in PUSH_OPERATIONS else None

    @property
    def tasks(self) -> list[Json]:
        """Every task of the answer: one, or a page of them."""
        if self.operation == "list":
            listed = self.result.get("tasks")
            return [one for one in listed if isinstance(one, dict)] if isinstance(listed, list) else []
        return [self.task] if self.task is not None else []

    @lazy_property
    def message(self) -> Json | None:
        """The message, where the answer is one."""
        result = self.result
        if result.get("kind") == "message":
            return result
        return get_object(result, ("message", "msg")) if self.operation in MESSAGE_OPERATIONS else None

    @lazy_property
    def status_update(self) -> Json | None:
        """The change of state, where the event is one."""
        result = self.result
        return result if result.get("kind") == "status-update" else get_object(result, STATUS_UPDATE)

    @lazy_property
    def artifact_update(self) -> Json | None:
        """The piece of work, where the event is one."""
        result = self.result
        return result if result.get("kind") == "artifact-update" else get_object(result, ARTIFACT_UPDATE)

    @lazy_property
    def task_id(self) -> str | None:
        """The task this is about."""
        if self.task is not None:
            return get_text(self.task, ("id",))
        about = self.status_update or self.artifact_update or self.message
        return get_text(about, TASK_ID)

    @lazy_property
    def context_id(self) -> str | None:
        """The conversation this is about."""
        return get_text(self.task or self.status_update or self.artifact_update or self.message, CONTEXT_ID)

    @property
    def message_id(self) -> str | None:
        """The id of the message, where the answer is one."""
        return get_text(self.message, MESSAGE_ID)

    @lazy_property
    def state(self) -> State | None:
        """Where the task stands, as far as the answer says."""
        about = self.task or self.status_update
        return None if about is None else get_state(about.get("status"))

    @property
    def final(self) -> bool:
        """Whether the task has ended."""
        return self.state in TERMINAL

    @lazy_property
    def _texts(self) -> TextCollector:
        found, document, result = TextCollector(), self.document, self.result
        if len(result) == 1 and self.operation != "list" and isinstance(result.get("task"), dict):
            _collect_task(found, result["task"], "")  # the short way: there is nothing else
            if self.dialect.rpc:
                _collect_envelope(found, document)
            return found
        seen = {"error"}
        for about, names in (
            (self.message, ("message", "msg")),
            (self.status_update, STATUS_UPDATE),
            (self.artifact_update, ARTIFACT_UPDATE),
        ):
            if about is not None and about is not result:
                seen.update(names)
        if self.message is not None:
            found.collect({"message": self.message}, "message", "message")
        for about, inner in ((self.status_update, "status"), (self.artifact_update, "artifact")):
            if about is not None:
                found.collect(about, inner, inner, except_for=STATUS_FIELDS)
                found.collect(about, "metadata", "metadata")
                found.collect_other_members(about, "update", except_for=UPDATE_FIELDS)
        for index, task in enumerate(self.tasks):
            _collect_task(found, task, f"tasks[{index}]." if self.operation == "list" else "")
        seen.update(self._collect_listed_items(found))
        if not any(
            result is one for one in (*self.tasks, self.message, self.status_update, self.artifact_update)
        ):
            found.collect_other_members(result, "result", except_for=seen)
        if self.dialect.rpc:
            _collect_envelope(found, document)
        if self.error is not None:
            found.collect(document, "error", "error")
        return found

    def _collect_listed_items(self, found: TextCollector) -> Sequence[str]:
        """Under which names the tasks stand; what stands among them and is none is looked at."""
        if self.operation != "list":
            return () if self.task is None or self.task is self.result else ("task",)
        listed = self.result.get("tasks")
        if not isinstance(listed, list):
            return ()
        for index, one in enumerate(listed):
            if not isinstance(one, dict):
                found.collect_item(listed, index, f"tasks[{index}]")
        return ("tasks",)

    @property
    def plain(self) -> bytes | None:
        """The whole document as JSON if it can be scanned in one piece (see `is_plain_json`), else None."""
        return self.json_bytes if len(self.result) == 1 and is_plain_json(self.json_bytes) else None

    def pieces(self) -> list[TextPiece]:
        """Every text the agent wrote, with its path; what `history` has of the caller's is left out."""
        return [location.piece for location in self._texts.locations]

    def opaque(self) -> list[str]:
        """Where the agent's answer carries content that is no text."""
        return [one.path for one in self._texts.unreadable]

    def unreadable(self) -> list[UnreadableContent]:
        """The same with the content itself."""
        return self._texts.unreadable

    def with_texts(self, texts: Sequence[str]) -> Json:
        """The whole document with other texts, one for each piece and in their order."""
        return replace_texts(self.document, self._texts.locations, texts)

    def copy(self) -> "A2AReply":
        """The same answer as another object, with all that was found out about it."""
        twin = A2AReply(dialect=self.dialect, operation=self.operation, document=self.document)
        twin.__dict__.update(self.__dict__)
        return twin

    @lazy_property
    def json_bytes(self) -> bytes:
        """The document as bytes."""
        return _encode(self.document)

    def body(self) -> bytes:
        """The same, to send on."""
        return self.json_bytes


PUSH_OPERATIONS: frozenset[Operation] = frozenset({"push_create", "push_get", "push_list", "push_delete"})
MESSAGE_OPERATIONS: frozenset[Operation] = frozenset({"send", "stream", "subscribe"})


STATUS_FIELDS = ("state", "timestamp")
TASK_FIELDS = frozenset({"id", "status", "artifacts", "history", "metadata"})
RPC_RESPONSE_FIELDS = frozenset({"jsonrpc", "id", "result", "error"})
"""All that JSON-RPC has around what it carries."""
UPDATE_FIELDS = ("status", "artifact", "metadata")


def _collect_envelope(found: TextCollector, document: Json) -> None:
    """What stands around the result of JSON-RPC, which should be nothing but an id."""
    for name in ("jsonrpc", "id"):
        if not is_routine_value(document.get(name)):
            found.collect_identifier(document, name, name)
    if not RPC_RESPONSE_FIELDS.issuperset(document):
        found.collect_other_members(document, "answer", except_for=RPC_RESPONSE_FIELDS)
    if not isinstance(document.get("result", {}), dict):
        found.collect(document, "result", "result")


def _collect_task(found: TextCollector, task: Json, path: str) -> None:
    if not is_routine_value(task.get("id")):
        found.collect_identifier(task, "id", f"{path}id")
    found.collect(task, "status", f"{path}status", except_for=STATUS_FIELDS)
    found.collect(task, "artifacts", f"{path}artifacts")
    found.collect(task, "metadata", f"{path}metadata")
    if not TASK_FIELDS.issuperset(task):
        found.collect_other_members(task, f"{path}task", except_for=TASK_FIELDS)
    listed = task.get("history")
    history: list[Any] = listed if isinstance(listed, list) else []
    if listed is not history:
        found.collect(task, "history", f"{path}history")
    for index, message in enumerate(history):
        # A message that does not say who wrote it may be anyone's.
        if not isinstance(message, dict) or get_role(message) != "user":
            found.collect_item(history, index, f"{path}history[{index}]")


def parse_reply(dialect: Dialect, operation: Operation, body: bytes) -> A2AReply:
    """The answer in a body or an event's data; raises A2AError for what is no JSON object."""
    try:
        document = _decode(body)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        raise A2AError("agent_response", "The agent's answer is not valid JSON.") from None
    return check_reply(dialect, operation, document)


def check_reply(dialect: Dialect, operation: Operation, document: Any) -> A2AReply:
    """The answer in a document; raises A2AError for what is none."""
    if not isinstance(document, dict):
        raise A2AError("agent_response", "The agent's answer is not a JSON object.")
    # The result of a deletion is null, which some agents leave out.
    said = "result" in document or (operation == "push_delete" and "error" not in document)
    if dialect.rpc and said == ("error" in document):
        raise A2AError("agent_response", "The agent's answer is neither a result nor an error.")
    reply = A2AReply(dialect=dialect, operation=operation, document=document)
    _precompute_fields(reply, document.get("result") if dialect.rpc else document)
    return reply


def _precompute_fields(reply: A2AReply, result: Any) -> None:
    """Work out at once what will be asked of a usual answer, a task: bit by bit takes four times as long."""
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
