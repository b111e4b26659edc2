"""What a command that waits for a person prints, and the exit codes that scripts branch on."""

import codecs
import sys
from collections.abc import Callable
from typing import Any

import msgspec

from placet.agent import Cancelled, Decided, Expired, FollowedCase, Notice, Outcome
from placet.errors import PlacetError
from placet.text.characters import escape_hidden_in_json, mark_hidden

DECIDED, FAILED, AGAINST, EXPIRED, CANCELLED = 0, 1, 10, 11, 12
INTERRUPTED, TERMINATED = 130, 143
_STANDING = {"opened": "opened", "in_progress": "in_progress"}


def outcome_view(outcome: Outcome) -> dict[str, Any]:
    """How a case ended; every member is always there."""
    decided = outcome if isinstance(outcome, Decided) else None
    return {
        "status": outcome.status,
        "case_id": outcome.case_id,
        "action": decided.action if decided else None,
        "data": decided.data if decided else None,
        "verified": decided.verified if decided else None,
        "responded_by": decided.responded_by if decided else None,
        "default_action": outcome.default_action if isinstance(outcome, Expired) else None,
        "reason": outcome.reason if isinstance(outcome, Cancelled) else None,
        "previous_case_id": decided.previous_case_id if decided else None,
        "next_case_id": outcome.raw.get("next_case_id"),
    }


def open_view(case: FollowedCase, last: Notice | None) -> dict[str, Any]:
    """A case that has not ended: the link is still good."""
    return {
        "status": _STANDING.get(last.name, "pending") if last is not None else "pending",
        "case_id": case.case_id,
        "type": case.type,
        "prompt": case.prompt,
        "review_url": case.review_url,
        "expires_at": case.expires_at,
    }


def error_view(error: PlacetError) -> dict[str, Any]:
    """What went wrong."""
    return {"status": "error", **error.body()}


def exit_code(outcome: Outcome) -> int:
    """What a script branches on; a result whose signature does not hold is no decision."""
    if isinstance(outcome, Expired):
        return EXPIRED
    if isinstance(outcome, Cancelled):
        return CANCELLED
    if outcome.verified is False:
        return FAILED
    return AGAINST if outcome.against else DECIDED


def print_result(view: dict[str, Any] | list[dict[str, Any]]) -> None:
    """One JSON document, in one line unless someone looks at it."""
    encoded = msgspec.json.encode(view)
    if sys.stdout.isatty():
        encoded = msgspec.json.format(encoded, indent=2)
    print_bytes(escape_hidden_in_json(encoded.decode()).encode() + b"\n")


def print_bytes(content: bytes) -> None:
    """Bytes as they are."""
    sys.stdout.flush()
    sys.stdout.buffer.write(content)
    sys.stdout.buffer.flush()


def body_printer() -> Callable[[bytes], None]:
    """What prints a service's answer piece by piece: as it is for a program, harmless for whoever looks."""
    if not sys.stdout.isatty():
        return print_bytes
    decode = codecs.getincrementaldecoder("utf-8")("replace").decode
    return lambda piece: print_bytes(mark_hidden(decode(piece)).encode())


def end_line() -> None:
    """Whoever looks gets a line end; a program gets nothing that was not sent."""
    if sys.stdout.isatty():
        print_bytes(b"\n")
