"""Replace a task's id in every field of a document that names the task."""

from typing import Any

from placet.relay.a2a.json_fields import CONTEXT_ID, REFERENCES, TASK_ID, Json

# A task id inside content is text and stays unchanged.
CONTENT_FIELDS = frozenset({"parts", "content", "metadata", "data", "artifact", "artifacts"})
RESOURCE_FIELDS = ("name", "parent")
NESTED_FIELDS = (
    *(
        "result",
        "params",
        "task",
        "tasks",
        "message",
        "request",
        "msg",
        "status",
        "history",
        "config",
        "configs",
    ),
    *("statusUpdate", "status_update", "artifactUpdate", "artifact_update", "update"),
    *("pushNotificationConfig", "push_notification_config", "taskPushNotificationConfig"),
)


def replace_task_id(document: Any, old: str, new: str) -> Any:
    """Return a copy of the document in which task id `new` replaces `old`."""
    if isinstance(document, list):
        return [replace_task_id(item, old, new) for item in document]
    if not isinstance(document, dict):
        return document
    return {name: _replace_value(name, value, document, old, new) for name, value in document.items()}


def _replace_value(name: str, value: Any, holder: Json, old: str, new: str) -> Any:
    if name in TASK_ID or (name == "id" and _has_task_id(holder)):
        return new if value == old else value
    if name in REFERENCES and isinstance(value, list):
        return [new if item == old else item for item in value]
    if name in RESOURCE_FIELDS and isinstance(value, str):
        head, _, tail = value.partition("/")
        task, slash, rest = tail.partition("/")
        return f"tasks/{new}{slash}{rest}" if head == "tasks" and task == old else value
    return replace_task_id(value, old, new) if name in NESTED_FIELDS and name not in CONTENT_FIELDS else value


def _has_task_id(holder: Json) -> bool:
    """Whether the field `id` of an object is a task id, not the id of a JSON-RPC envelope or push config."""
    if "jsonrpc" in holder or "url" in holder:
        return False
    return not any(name in holder for name in TASK_ID) or any(name in holder for name in CONTEXT_ID)
