"""Merge the events of a stream into one task, message or error."""

from collections.abc import Iterable
from typing import Any

from placet.relay.a2a.builders import build_task_reply
from placet.relay.a2a.dialects import Dialect, Operation
from placet.relay.a2a.errors import RpcId
from placet.relay.a2a.json_fields import Json
from placet.relay.a2a.reply import A2AReply, check_reply

ARTIFACT_ID = ("artifactId", "artifact_id")
PLAIN_ARTIFACT_FIELDS = frozenset({*ARTIFACT_ID, "parts"})
"""All that most pieces of an artifact have."""


def merge_events(replies: Iterable[A2AReply], rpc_id: RpcId = None) -> A2AReply | None:
    """The last word of a stream as one whole answer; None if nothing was said."""
    gathering = _StreamMerger()
    for reply in replies:
        gathering.take(reply)
        if gathering.last_word is not None:
            return gathering.last_word
    return gathering.answer(rpc_id)


def merge_event_documents(
    documents: Iterable[Any], dialect: Dialect, operation: Operation, rpc_id: RpcId = None
) -> A2AReply | None:
    """The same, of events that were only just read; raises A2AError for what is none."""
    gathering = _StreamMerger()
    for document in documents:
        if not gathering.grow(document, rpc=dialect.rpc):
            gathering.take(check_reply(dialect, operation, document))
            if gathering.last_word is not None:
                return gathering.last_word
    return gathering.answer(rpc_id)


class _StreamMerger:
    """A task as its events tell of it. What they hold is left alone; long streams cost no more per event."""

    def __init__(self) -> None:
        self.last_word: A2AReply | None = None
        """A message or an error, after which nothing counts."""
        self._last: A2AReply | None = None
        self._growing: tuple[str, Any, list[Any]] | None = None
        """What the last event was a piece of: the task, the artifact, and its parts, which are ours."""
        self._task: Json | None = None
        self._artifacts: list[Any] | None = None
        """Those of the task, once an event has told of one; objects in it may be changed if they are ours."""
        self._ours: dict[int, list[Any]] = {}
        """By its place: the parts of an artifact that was put together here."""

    def grow(self, document: Any, *, rpc: bool) -> bool:
        """The short way for most events, another piece of the same artifact; says if this was one."""
        result = document.get("result") if rpc and type(document) is dict else document
        if self._growing is None or type(result) is not dict:
            return False
        update = result.get("artifactUpdate") if len(result) == 1 else result
        if type(update) is not dict or update.get("append") is not True or "error" in document:
            return False
        if update is result and result.get("kind") != "artifact-update":
            return False
        piece, (task_id, artifact_id, parts) = update.get("artifact"), self._growing
        if (
            type(piece) is not dict
            or piece.get("artifactId") != artifact_id
            or not PLAIN_ARTIFACT_FIELDS.issuperset(piece)
        ):
            return False
        more = piece.get("parts")
        if type(more) is not list or update.get("taskId") != task_id:
            return False
        parts += more
        return True

    def take(self, reply: A2AReply) -> None:
        """One more event."""
        self._last, self._growing = reply, None
        if reply.error is not None or reply.message is not None:
            self.last_word = reply
        elif reply.task is not None:
            self._task, self._artifacts, self._ours = reply.task, None, {}
        else:
            self._update(reply)

    def _update(self, reply: A2AReply) -> None:
        update = reply.status_update or reply.artifact_update
        if update is None or reply.task_id is None:
            return
        task = self._task if self._task is not None else _start_task(reply)
        if reply.status_update is not None:
            task = task | {"status": update.get("status", {})}
            task = _add_metadata(task, update.get("metadata"))
        else:
            self._add(task, update, reply.task_id)
        self._task = task

    def answer(self, rpc_id: RpcId) -> A2AReply | None:
        """What it all comes to."""
        task, last = self._task, self._last
        if task is None or last is None:
            return last
        if self._artifacts is not None:
            task = task | {"artifacts": self._artifacts}
        document = build_task_reply(task, "send", last.dialect, rpc_id)
        return A2AReply(dialect=last.dialect, operation="send", document=document)

    def _add(self, task: Json, update: Json, task_id: str) -> None:
        if self._artifacts is None:
            known = task.get("artifacts")
            self._artifacts = list(known) if isinstance(known, list) else []
        piece = update.get("artifact")
        if not isinstance(piece, dict):
            return
        place = _find_artifact(self._artifacts, _get_artifact_id(piece))
        if place is None:
            self._artifacts.append(piece)
        elif update.get("append") is True:
            parts = self._append(self._artifacts, place, piece)
            self._growing = (task_id, _get_artifact_id(piece), parts)
        else:
            self._artifacts[place] = piece
            self._ours.pop(place, None)

    def _append(self, artifacts: list[Any], place: int, piece: Json) -> list[Any]:
        """Put the parts of another piece behind those of an artifact; returns all of them."""
        parts, more = self._ours.get(place), piece.get("parts")
        if parts is None:
            known = artifacts[place].get("parts")
            parts = self._ours[place] = list(known) if isinstance(known, list) else []
            artifacts[place] = artifacts[place] | {"parts": parts}
        if not PLAIN_ARTIFACT_FIELDS.issuperset(piece):
            artifacts[place] = artifacts[place] | piece | {"parts": parts}
        if isinstance(more, list):
            parts += more
        return parts


def _start_task(reply: A2AReply) -> Json:
    task: Json = {"id": reply.task_id, "contextId": reply.context_id or reply.task_id, "status": {}}
    return task if reply.dialect.proto else {"kind": "task", **task}


def _add_metadata(task: Json, metadata: Any) -> Json:
    if not isinstance(metadata, dict) or not metadata:
        return task
    known = task.get("metadata")
    return task | {"metadata": (known if isinstance(known, dict) else {}) | metadata}


def _find_artifact(artifacts: list[Any], id: Any) -> int | None:
    """Where the artifact of this id stands."""
    for place, one in enumerate(artifacts):
        if isinstance(one, dict) and _get_artifact_id(one) == id:
            return place
    return None


def _get_artifact_id(artifact: Json) -> Any:
    return artifact["artifactId"] if "artifactId" in artifact else artifact.get("artifact_id")
