"""Output and exit codes of the commands that wait for a person."""

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
    """The outcome of a case. Every field is always present."""
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
    """A case that is still open."""
    return {
        "status": _STANDING.get(last.name, "pending") if last is not None else "pending",
        "case_id": case.case_id,
        "type": case.type,
        "prompt": case.prompt,
        "review_url": case.review_url,
        "expires_at": case.expires_at,
    }


def error_view(error: PlacetError) -> dict[str, Any]:
    """An error."""
    return {"status": "error", **error.body()}


def exit_code(outcome: Outcome) -> int:
    """Return the exit code of an outcome. A result with an invalid signature is not a decision."""
    if isinstance(outcome, Expired):
        return EXPIRED
    if isinstance(outcome, Cancelled):
        return CANCELLED
    if outcome.verified is False:
        return FAILED
    return AGAINST if outcome.against else DECIDED


def print_result(view: dict[str, Any] | list[dict[str, Any]]) -> None:
    """Print one JSON document: indented in a terminal, else on one line."""
    encoded = msgspec.json.encode(view)
    if sys.stdout.isatty():
        encoded = msgspec.json.format(encoded, indent=2)
    print_bytes(escape_hidden_in_json(encoded.decode()).encode() + b"\n")


def print_bytes(content: bytes) -> None:
    """Write bytes to standard output."""
    sys.stdout.flush()
    sys.stdout.buffer.write(content)
    sys.stdout.buffer.flush()


def body_printer() -> Callable[[bytes], None]:
    """Return a function that prints a response in parts: escaped in a terminal, else unchanged."""
    if not sys.stdout.isatty():
        return print_bytes
    decode = codecs.getincrementaldecoder("utf-8")("replace").decode
    return lambda piece: print_bytes(mark_hidden(decode(piece)).encode())


def end_line() -> None:
    """End the line in a terminal. Otherwise, print nothing that was not sent."""
    if sys.stdout.isatty():
        print_bytes(b"\n")
