"""One task under two names: its id put into every place of a document that names it, and into no other."""

from typing import Any

from placet.relay.a2a.reading import CONTEXT_ID, REFERENCES, TASK_ID, Json

# Content belongs to whoever wrote it: an id in a text is a text.
CONTENT = frozenset({"parts", "content", "metadata", "data", "artifact", "artifacts"})
RESOURCES = ("name", "parent")
INNER = (
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


def rename_task(document: Any, old: str, new: str) -> Any:
    """The document with the task `old` called `new`; the document itself is left alone."""
    if isinstance(document, list):
        return [rename_task(item, old, new) for item in document]
    if not isinstance(document, dict):
        return document
    return {name: _renamed(name, value, document, old, new) for name, value in document.items()}


def _renamed(name: str, value: Any, holder: Json, old: str, new: str) -> Any:
    if name in TASK_ID or (name == "id" and _names_a_task(holder)):
        return new if value == old else value
    if name in REFERENCES and isinstance(value, list):
        return [new if one == old else one for one in value]
    if name in RESOURCES and isinstance(value, str):
        head, _, tail = value.partition("/")
        task, slash, rest = tail.partition("/")
        return f"tasks/{new}{slash}{rest}" if head == "tasks" and task == old else value
    return rename_task(value, old, new) if name in INNER and name not in CONTENT else value


def _names_a_task(holder: Json) -> bool:
    """Whether `id` is a task's here, not that of an envelope or of a push config, which has an address."""
    if "jsonrpc" in holder or "url" in holder:
        return False
    return not any(name in holder for name in TASK_ID) or any(name in holder for name in CONTEXT_ID)
