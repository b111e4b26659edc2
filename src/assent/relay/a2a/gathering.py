"""The events of a stream put together: the one task, message or error that they come to."""

from collections.abc import Iterable
from typing import Any

from assent.relay.a2a.building import task_reply
from assent.relay.a2a.problems import RpcId
from assent.relay.a2a.reading import Json
from assent.relay.a2a.reply import A2AReply

ARTIFACT_ID = ("artifactId", "artifact_id")


def gathered(replies: Iterable[A2AReply], rpc_id: RpcId = None) -> A2AReply | None:
    """The last word of a stream as one whole answer; None if nothing was said."""
    task: Json | None = None
    last: A2AReply | None = None
    for reply in replies:
        last = reply
        if reply.error is not None or reply.message is not None:
            return reply
        task = _with_event(task, reply)
    if task is None or last is None:
        return last
    document = task_reply(task, "send", last.dialect, rpc_id)
    return A2AReply(dialect=last.dialect, operation="send", document=document)


def _with_event(task: Json | None, reply: A2AReply) -> Json | None:
    if reply.task is not None:
        return reply.task
    update = reply.status_update or reply.artifact_update
    if update is None or reply.task_id is None:
        return task
    if task is None:
        task = {"id": reply.task_id, "contextId": reply.context_id or reply.task_id, "status": {}}
        if not reply.dialect.proto:
            task = {"kind": "task", **task}
    if reply.status_update is not None:
        told = task | {"status": reply.status_update.get("status", {})}
        return _with_metadata(told, reply.status_update.get("metadata"))
    return task | {"artifacts": _with_artifact(task.get("artifacts"), update)}


def _with_metadata(task: Json, metadata: Any) -> Json:
    if not isinstance(metadata, dict) or not metadata:
        return task
    known = task.get("metadata")
    return task | {"metadata": (known if isinstance(known, dict) else {}) | metadata}


def _with_artifact(known: Any, update: Json) -> list[Any]:
    artifacts = list(known) if isinstance(known, list) else []
    piece = update.get("artifact")
    if not isinstance(piece, dict):
        return artifacts
    for place, one in enumerate(artifacts):
        if isinstance(one, dict) and _id(one) == _id(piece):
            artifacts[place] = _longer(one, piece) if update.get("append") is True else piece
            return artifacts
    return [*artifacts, piece]


def _longer(artifact: Json, piece: Json) -> Json:
    """The artifact with the parts of another piece behind its own."""
    parts, more = artifact.get("parts"), piece.get("parts")
    joined = [*(parts if isinstance(parts, list) else []), *(more if isinstance(more, list) else [])]
    return artifact | piece | {"parts": joined}


def _id(artifact: Json) -> Any:
    return next((artifact[name] for name in ARTIFACT_ID if name in artifact), None)
