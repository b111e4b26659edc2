"""Build push payloads in the receiver's A2A version."""

from placet.relay.a2a.dialects import REST_1_0, RPC_0_3, Dialect
from placet.relay.a2a.json_fields import Json
from placet.relay.a2a.reply import A2AReply
from placet.relay.a2a.stream_merging import merge_events
from placet.relay.a2a.translation import translate_message, translate_task


def build_push_payload(reply: A2AReply, dialect: Dialect) -> Json:
    """Return the payload of a notification: an event in 1.0, a task in 0.3."""
    task = _build_task(reply)
    if dialect.legacy:
        return translate_task(task, REST_1_0, RPC_0_3)
    is_bare = any(reply.result is one for one in (reply.task, reply.status_update, reply.artifact_update))
    return {"task": translate_task(task, RPC_0_3, REST_1_0)} if is_bare else reply.result


def _build_task(reply: A2AReply) -> Json:
    """Return the notification as a task. Its state is working if the notification has none."""
    if reply.message is not None:
        message = translate_message(reply.message, REST_1_0)
        task: Json = {"id": reply.task_id, "contextId": reply.context_id, "history": [message]}
    else:
        merged = merge_events([reply])
        task = (merged.task if merged is not None else None) or {}
    return task if task.get("status") else task | {"status": {"state": "TASK_STATE_WORKING"}}
