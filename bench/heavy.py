"""The heaviest questions that may be asked, and almost empty ones of the same types beside them."""

from collections.abc import Iterator
from typing import Any

import msgspec

OPTIONS = 500
ARTIFACT_BYTES = 1_000_000  # what fits into a request of 1 MiB with its envelope
ROOM = 1024 * 1024  # for the context of a case; by default it takes a quarter of that
PROSE = (
    "the order left our warehouse this morning and should arrive on Thursday between ten and two; "
    "the delivery fee was taken off the bill, and nothing else about the agreement has changed"
)


def build_approval(artifact: Any, **context: Any) -> dict[str, Any]:
    """A case about this artifact."""
    return {"type": "approval", "prompt": "May this go out?", "context": {"artifact": artifact, **context}}


def build_selection(options: int) -> dict[str, Any]:
    """A case with so many options."""
    listed = [
        {
            "id": f"room-{number}",
            "title": f"Room {number}",
            "seats": 8 + number % 40,
            "price_per_day": f"{120 + number % 300} EUR",
            "note": build_sentence(number),
        }
        for number in range(1, options + 1)
    ]
    return {"type": "selection", "prompt": "Which rooms shall be held?", "context": {"options": listed}}


def build_sentence(number: int) -> str:
    """Some words, another beginning for each number."""
    words = PROSE.split()
    start = number * 7 % len(words)
    return " ".join((words * 2)[start : start + 12])


def build_text(size: int = ARTIFACT_BYTES) -> str:
    """Paragraphs of prose."""
    return _join_up_to(size, (f"{build_sentence(number)}.\n\n" for number in range(size)))


def build_markdown(size: int = ARTIFACT_BYTES) -> str:
    """Headings, lists, emphasis, code and tables."""
    return _join_up_to(size, map(_build_section, range(size)))


def build_json_tree(size: int = ARTIFACT_BYTES) -> dict[str, Any]:
    """Nested objects, lists and numbers."""
    one = len(msgspec.json.encode(_build_order(0)))
    return {"orders": [_build_order(number) for number in range(max(1, size // (one + 4)))]}


def build_pairs() -> dict[str, tuple[dict[str, Any], dict[str, Any]]]:
    """By the name of a row: the heaviest case and an almost empty one of the same type."""
    few = build_approval("Yes.")
    return {
        "page_options": (build_selection(OPTIONS), build_selection(1)),
        "page_text": (build_approval(build_text()), few),
        "page_markdown": (build_approval(build_markdown(), artifact_format="markdown"), few),
        "page_json": (build_approval(build_json_tree()), few),
    }


def _build_section(number: int) -> str:
    words = build_sentence(number)
    return (
        f"## Part {number}\n\nA *{words}* with **weight** and `code`.\n\n- {words}\n"
        f"- [a link](https://parts.example/{number})\n\n"
        f"| Part | Count |\n| --- | --- |\n| {number} | {number * 3} |\n\n"
    )


def _build_order(number: int) -> dict[str, Any]:
    lines = [{"part": f"P-{number}-{line}", "count": line + 1, "price": 9.5 * line} for line in range(4)]
    return {"number": number, "paid": number % 3 == 0, "note": build_sentence(number), "lines": lines}


def _join_up_to(size: int, pieces: Iterator[str]) -> str:
    taken, length = [], 0
    for piece in pieces:
        if length + len(piece) > size:
            break
        taken.append(piece)
        length += len(piece)
    return "".join(taken)
