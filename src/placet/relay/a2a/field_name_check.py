"""Reject field names that differ from the protocol's names only in case.

JSON parsers in Go, and in C# with default settings, read `TaskID` as `taskId`. The relay would not recognise
the field, but the agent would, so the field would bypass the checks of tasks, contexts, URLs and files.
"""

from placet.relay.a2a.call import KNOWN_FIELDS, PUSH_CONFIG_FIELDS, RPC_REQUEST_FIELDS
from placet.relay.a2a.errors import A2AError
from placet.relay.a2a.json_fields import CONTEXT_ID, MESSAGE, REFERENCES, TASK_ID, Json
from placet.relay.a2a.text_extraction import FILE_FIELDS

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
