"""Merge the events of a stream into one task, message or error."""

from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from itertools import groupby
from typing import Any

from placet.relay.a2a.dialects import Dialect, Operation
from placet.relay.a2a.errors import RpcId
from placet.relay.a2a.json_format import Json, build_task_reply
from placet.relay.a2a.reply import A2AReply, check_reply

ARTIFACT_ID = ("artifactId", "artifact_id")
PLAIN_ARTIFACT_FIELDS = frozenset({*ARTIFACT_ID, "parts"})
"""The fields that most artifact chunks have."""
PLAIN_TEXT_FIELDS = frozenset({"kind", "text"})


def merge_events(replies: Iterable[A2AReply], rpc_id: RpcId = None) -> A2AReply | None:
    """Return the events of a stream as one reply, or None if there are none."""
    merger = _StreamMerger()
    for reply in replies:
        merger.add_event(reply)
        if merger.final_reply is not None:
            return merger.final_reply
    return merger.build_reply(rpc_id)


def merge_event_documents(
    documents: Iterable[Any], dialect: Dialect, operation: Operation, rpc_id: RpcId = None
) -> A2AReply | None:
    """Return the decoded events of a stream as one reply, or None if there are none.

    Raises A2AError for an event that is not a valid reply.
    """
    merger = _StreamMerger()
    for document in documents:
        if not merger.append_chunk(document, rpc=dialect.rpc):
            merger.add_event(check_reply(dialect, operation, document))
            if merger.final_reply is not None:
                return merger.final_reply
    return merger.build_reply(rpc_id)


class _StreamMerger:
    """Builds a task from its events. Does not change the events. The cost per event is constant."""

    def __init__(self) -> None:
        self.final_reply: A2AReply | None = None
        """A message or an error. It ends the stream, and later events are ignored."""
        self._last: A2AReply | None = None
        self._open_artifact: tuple[str, Any, list[Any]] | None = None
        """The artifact of the last event: task id, artifact id, and the copied list of its parts."""
        self._task: Json | None = None
        self._artifacts: list[Any] | None = None
        """The artifacts of the task, copied when the first artifact update arrives."""
        self._copied_parts: dict[int, list[Any]] = {}
        """The copied parts of each merged artifact, by its index in `_artifacts`. Only these may change."""
        self._forwarded: dict[str, AbstractSet[str]] = {}

    def append_chunk(self, document: Any, *, rpc: bool) -> bool:
        """Append another chunk of the open artifact. Return False if the event is anything else.

        This is the fast path for most events.
        """
        result = document.get("result") if rpc and type(document) is dict else document
        if self._open_artifact is None or type(result) is not dict:
            return False
        update = result.get("artifactUpdate") if len(result) == 1 else result
        if type(update) is not dict or update.get("append") is not True or "error" in document:
            return False
        if update is result and result.get("kind") != "artifact-update":
            return False
        chunk, (task_id, artifact_id, parts) = update.get("artifact"), self._open_artifact
        if (
            type(chunk) is not dict
            or chunk.get("artifactId") != artifact_id
            or not PLAIN_ARTIFACT_FIELDS.issuperset(chunk)
        ):
            return False
        more = chunk.get("parts")
        if type(more) is not list or update.get("taskId") != task_id:
            return False
        parts += more
        return True

    def add_event(self, reply: A2AReply) -> None:
        """Apply one event."""
        self._last, self._open_artifact = reply, None
        self._forwarded.update(reply.forwarded)
        if reply.error is not None or reply.message is not None:
            self.final_reply = reply
        elif reply.task is not None:
            self._task, self._artifacts, self._copied_parts = reply.task, None, {}
        else:
            self._apply_update(reply)

    def _apply_update(self, reply: A2AReply) -> None:
        update = reply.status_update or reply.artifact_update
        if update is None or reply.task_id is None:
            return
        task = self._task if self._task is not None else _start_task(reply)
        if reply.status_update is not None:
            task = task | {"status": update.get("status", {})}
            task = _add_metadata(task, update.get("metadata"))
        else:
            self._apply_artifact_update(task, update, reply.task_id)
        self._task = task

    def build_reply(self, rpc_id: RpcId) -> A2AReply | None:
        """Return the merged task as a reply, or the last event if there is no task."""
        task, last = self._task, self._last
        if task is None or last is None:
            return last
        if self._artifacts is not None:
            for parts in self._copied_parts.values():
                parts[:] = _join_text_parts(parts)
            task = task | {"artifacts": self._artifacts}
        document = build_task_reply(task, "send", last.dialect, rpc_id)
        return A2AReply(dialect=last.dialect, operation="send", document=document, forwarded=self._forwarded)

    def _apply_artifact_update(self, task: Json, update: Json, task_id: str) -> None:
        if self._artifacts is None:
            known = task.get("artifacts")
            self._artifacts = list(known) if isinstance(known, list) else []
        chunk = update.get("artifact")
        if not isinstance(chunk, dict):
            return
        index = _find_artifact(self._artifacts, _get_artifact_id(chunk))
        if index is None:
            self._artifacts.append(chunk)
        elif update.get("append") is True:
            parts = self._append_parts(self._artifacts, index, chunk)
            self._open_artifact = (task_id, _get_artifact_id(chunk), parts)
        else:
            self._artifacts[index] = chunk
            self._copied_parts.pop(index, None)

    def _append_parts(self, artifacts: list[Any], index: int, chunk: Json) -> list[Any]:
        """Append the parts of a chunk to an artifact. Return all parts of the artifact."""
        parts, more = self._copied_parts.get(index), chunk.get("parts")
        if parts is None:
            known = artifacts[index].get("parts")
            parts = self._copied_parts[index] = list(known) if isinstance(known, list) else []
            artifacts[index] = artifacts[index] | {"parts": parts}
        if not PLAIN_ARTIFACT_FIELDS.issuperset(chunk):
            artifacts[index] = artifacts[index] | chunk | {"parts": parts}
        if isinstance(more, list):
            parts += more
        return parts


def _join_text_parts(parts: list[Any]) -> list[Any]:
    """Return the parts with adjacent text parts as one, because an agent may send each word as a part."""
    joined: list[Any] = []
    for is_plain, group in groupby(parts, _is_plain_text):
        several = list(group)
        if is_plain and len(several) > 1:
            joined.append(several[0] | {"text": "".join(one["text"] for one in several)})
        else:
            joined += several
    return joined


def _is_plain_text(part: Any) -> bool:
    """Whether a part is a text and nothing else, so without metadata."""
    return isinstance(part, dict) and isinstance(part.get("text"), str) and PLAIN_TEXT_FIELDS.issuperset(part)


def _start_task(reply: A2AReply) -> Json:
    task: Json = {"id": reply.task_id, "contextId": reply.context_id or reply.task_id, "status": {}}
    return task if reply.dialect.proto else {"kind": "task", **task}


def _add_metadata(task: Json, metadata: Any) -> Json:
    if not isinstance(metadata, dict) or not metadata:
        return task
    known = task.get("metadata")
    return task | {"metadata": (known if isinstance(known, dict) else {}) | metadata}


def _find_artifact(artifacts: list[Any], artifact_id: Any) -> int | None:
    """Return the index of the artifact with this id, or None."""
    for index, artifact in enumerate(artifacts):
        if isinstance(artifact, dict) and _get_artifact_id(artifact) == artifact_id:
            return index
    return None


def _get_artifact_id(artifact: Json) -> Any:
    return artifact["artifactId"] if "artifactId" in artifact else artifact.get("artifact_id")
