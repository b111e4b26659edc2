"""Questions beside the examples of each kind: other shapes of content, few and many, plain and odd."""

from base64 import b64encode
from typing import Any

from bench import heavy as heaviest

# One green dot, a PNG.
DOT = b64encode(
    bytes.fromhex(
        "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c4890000000d49444154"
        "789c6360b0ad2d000002af0151a5f54b9c0000000049454e44ae426082"
    )
).decode()
IMAGE = f"data:image/png;base64,{DOT}"

MARKDOWN = """# Spring letter

Dear members,

the *rehearsals* begin on **3 March**. Please bring:

1. your folder
2. a pencil
   - soft, not hard

> Nobody sings well who did not sleep well.

| Day | Room |
| --- | --- |
| Monday | Hall |
| Friday | Crypt |

See [the plan](https://choir.example/plan), and `tune --a 440` before you come.

```python
def breathe(seconds):
    return [deeply] * seconds
```
"""
CODE = "def total(rows):\n    # Returns count too.\n    return sum(row.price for row in rows) - credit\n"
ROWS = [
    {"item": "Folding chair", "count": 40, "price": 12.5, "rented": True},
    {"item": "Table", "count": 8, "price": 30, "rented": False},
    {"item": "Stage light with a rather long name", "count": 2, "price": 219.99, "rented": True},
]
TREE = {
    "host": "print-2",
    "limits": {"memory_mb": 2048, "cores": 2, "paths": ["/var/spool", "/srv/print"]},
    "enabled": True,
    "owner": None,
    "schedule": [{"day": "Mon", "hours": [9, 17]}, {"day": "Sat", "hours": []}],
}


def approval(artifact: Any, **context: Any) -> dict[str, Any]:
    return {
        "type": "approval",
        "prompt": "May this be published?",
        "message": "A piece is ready and waits for your yes.",
        "service": "Letterpress",
        "agent": "Layout assistant",
        "context": {"artifact": artifact, **context},
    }


def other(type: str, prompt: str, context: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"type": type, "prompt": prompt, "service": "Letterpress", "context": context, **more}


def artifacts() -> dict[str, dict[str, Any]]:
    """An artifact of every format."""
    return {
        "approval-text": approval("Dear members,\n\nthe hall is closed on Friday.\n\nThe board"),
        "approval-markdown": approval(MARKDOWN, artifact_format="markdown", format="markdown"),
        "approval-code": approval(CODE, artifact_format="python", format="python"),
        "approval-html": approval("<p>Dear <b>members</b></p>", artifact_format="html", format="html"),
        "approval-json": approval(TREE),
        "approval-json-text": approval('{"a": [1, 2, {"b": null}]}', artifact_format="json", format="json"),
        "approval-table": approval(ROWS),
        "approval-csv": approval("item,count\nChair,40\nTable,8\n", artifact_format="csv", format="csv"),
        "approval-image": approval(IMAGE, alt="A green dot"),
        "approval-nothing": approval(""),
        "approval-bare": {"type": "approval", "prompt": "Go on?", "context": {}},
    }


def options(count: int, **more: Any) -> list[dict[str, Any]]:
    listed = heaviest.build_selection(count)["context"]["options"]
    return [{**one, **more} for one in listed]


def variants() -> dict[str, dict[str, Any]]:
    """By name, without the kinds' own examples."""
    dressed = options(3, image=IMAGE, badge="New", badges=["Step-free", "Quiet"], description="By the canal")
    hidden = "Transfer\u202e 001 \u202cEUR\u200b to \u0430pple.example"
    return {
        **artifacts(),
        "approval-hidden-characters": approval(
            {"note": hidden, "link": "https://xn--pple-43d.example/pay"}, see="https://paypa1.example/login"
        ),
        "selection-single": other(
            "selection", "Which cover?", {"options": dressed, "multiple": False}, agent="Layout assistant"
        ),
        "selection-plain": other("selection", "Which colour?", {"options": ["Red", "Green", "Blue"]}),
        "selection-many": other("selection", "Which rooms?", {"options": options(60), "max_selections": 5}),
        "selection-free": other("selection", "Which rooms?", {}),
        "input-free": other("input", "Where shall we meet?", {}),
        "input-one-step": other("input", "A few details, please", {"form": {"fields": every_field()}}),
        "confirmation-plain": other("confirmation", "Water the plants?", {}),
        "confirmation-items": other(
            "confirmation", "Send these?", {"items": ["To Ada", "To Grace"], "allow_partial": True}
        ),
        "escalation-bare": other("escalation", "It failed. What now?", {"error": "No answer in 20 seconds"}),
        "escalation-suggestions": other(
            "escalation",
            "The export failed. What now?",
            {
                "error": {"message": "Disk full", "code": "ENOSPC", "since": "2026-05-06T02:14:00Z"},
                "logs": ["02:14:00 ERROR disk full", "02:14:01 WARN stopping", "02:14:02 INFO stopped"],
                "params": {"target": "/srv/export", "compress": True, "level": 6},
                "suggestions": [
                    {"title": "Free some space", "action": "retry", "description": "Old exports take 40 GB."},
                    "Skip tonight's export",
                ],
            },
        ),
        "x-odd": other(
            "x-anything",
            "Is this all right?",
            {"deep": TREE, "rows": ROWS, "list": [1, [2, [3]]], "": "no name", "picture": IMAGE},
            actions=["all_right", "not_so"],
        ),
        "long-words": approval(
            {"key_" + "x" * 90: "y" * 400, "url": "https://long.example/" + "z" * 300},
            note="Donaudampfschifffahrtsgesellschaftskapitän" * 4,
        ),
    }


def every_field() -> list[dict[str, Any]]:
    """A form field of every type."""
    listed = [{"value": "a", "label": "First"}, {"value": "b", "label": "Second"}]
    simple = ("text", "textarea", "email", "url", "number", "date", "boolean")
    return [
        *({"key": type, "label": f"Some {type}", "type": type, "hint": "As you like"} for type in simple),
        {"key": "range", "label": "Some range", "type": "range", "validation": {"min": 1, "max": 9}},
        {"key": "select", "label": "One of two", "type": "select", "options": listed, "required": True},
        {"key": "multiselect", "label": "Any of two", "type": "multiselect", "options": listed},
        {"key": "secret", "label": "Password", "type": "text", "sensitive": True},
    ]


def heavy() -> dict[str, dict[str, Any]]:
    """The largest that may be asked."""
    return {name.removeprefix("page_"): large for name, (large, _) in heaviest.build_pairs().items()}
