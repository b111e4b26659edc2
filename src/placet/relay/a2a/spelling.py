"""Names that are the protocol's but for small and capital letters: some agents read them, and others do not.

Readers written in Go, and those in C# with the usual settings, take `TaskID` for `taskId`. Such a name would
lead past whoever looks at tasks, conversations, addresses and files by their right names.
"""

from placet.relay.a2a.call import ENVELOPE, KNOWN, PUSH_IN_SEND
from placet.relay.a2a.problems import A2AProblem
from placet.relay.a2a.reading import CONTEXT_ID, MESSAGE, REFERENCES, TASK_ID, Json
from placet.relay.a2a.texts import OPAQUE

PARTS = frozenset({"parts", "content"})
HOLDERS = frozenset({"params", *MESSAGE, "configuration", "config", *PUSH_IN_SEND, "authentication", "file"})
"""In which objects an agent looks for the names that count, beside parts."""
DEEPEST = 8
_COUNTED = frozenset(
    {*HOLDERS, *PARTS, *OPAQUE, *ENVELOPE, *TASK_ID, *CONTEXT_ID, *REFERENCES}
    | {"name", "parent", "tenant", "url", "token", "text", "data"}
    | {"pushNotificationConfigId", "push_notification_config_id"}
)
_ORDINARY = _COUNTED | KNOWN
_FOLDED = frozenset(name.casefold() for name in _COUNTED)


def refuse_lookalikes(holder: Json, depth: int = 0) -> None:
    """Raise A2AProblem for a name of which agents disagree whether it is one of those that count."""
    if not _ORDINARY.issuperset(holder):
        for name in holder:
            if name not in _ORDINARY and name.casefold() in _FOLDED:
                raise A2AProblem("params", f"{name.casefold()} must be spelled as A2A spells it.")
    for name, value in holder.items():
        if type(value) is dict and name in HOLDERS and depth < DEEPEST:
            refuse_lookalikes(value, depth + 1)
        elif type(value) is list and name in PARTS:
            for part in value:
                if type(part) is dict:
                    refuse_lookalikes(part, depth + 1)
