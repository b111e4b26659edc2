"""Output and exit codes of the commands that wait for a person."""

import codecs
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from placet.agent import Cancelled, Decided, Expired, FollowedCase, Notice, Outcome
from placet.errors import PlacetError
from placet.text.characters import escape_hidden_in_json, mark_hidden

DECIDED, FAILED, AGAINST, EXPIRED, CANCELLED, STILL_OPEN = 0, 1, 10, 11, 12, 13
INTERRUPTED, TERMINATED = 130, 143
MAX_DEADLINE = timedelta(days=2000)  # a later one stands for a case without a deadline
_STATUSES = {"opened": "opened", "in_progress": "in_progress"}


def build_outcome_view(outcome: Outcome) -> dict[str, Any]:
    """Return the outcome of a case as JSON. Every field is always present."""
    decided = outcome if isinstance(outcome, Decided) else None
    return {
        "status": outcome.status,
        "case_id": outcome.case_id,
        "action": decided.action if decided else None,
        "is_affirmative": decided.is_affirmative if decided else None,
        "data": decided.data if decided else None,
        "verified": decided.verified if decided else None,
        "responded_by": decided.responded_by if decided else None,
        "submission_context": outcome.raw.get("submission_context") if decided else None,
        "default_action": outcome.default_action if isinstance(outcome, Expired) else None,
        "reason": outcome.reason if isinstance(outcome, Cancelled) else None,
        "previous_case_id": decided.previous_case_id if decided else None,
        "next_case_id": outcome.raw.get("next_case_id"),
    }


def build_open_view(case: FollowedCase, last: Notice | None) -> dict[str, Any]:
    """Return a case that is still open as JSON. What a poll URL alone does not tell is null."""
    is_known = case.review_url != case.poll_url
    return {
        "status": _STATUSES.get(last.name, "pending") if last is not None else "pending",
        "case_id": case.case_id,
        "type": case.type if is_known else None,
        "prompt": case.prompt if is_known else None,
        "review_url": case.review_url if is_known else None,
        "expires_at": case.expires_at if case.expires_at - datetime.now(UTC) < MAX_DEADLINE else None,
    }


def build_error_view(error: PlacetError) -> dict[str, Any]:
    """Return an error as JSON."""
    return {"status": "error", **error.body()}


def get_exit_code(outcome: Outcome) -> int:
    """Return the exit code of an outcome: 0 only for an affirmative action without an invalid signature."""
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


def create_body_printer() -> Callable[[bytes], None]:
    """Return a function that prints a response in parts: escaped in a terminal, else unchanged."""
    if not sys.stdout.isatty():
        return print_bytes
    decode = codecs.getincrementaldecoder("utf-8")("replace").decode
    return lambda piece: print_bytes(mark_hidden(decode(piece)).encode())


def end_line() -> None:
    """Print a newline in a terminal. Elsewhere, print only what was received."""
    if sys.stdout.isatty():
        print_bytes(b"\n")
