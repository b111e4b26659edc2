"""Draws the table of limits from the constants that enforce them."""

from collections.abc import Sequence
from datetime import timedelta

import msgspec

from placet.cases import grant, grant_terms
from placet.cases.tokens import TOKEN_LENGTH
from placet.cli.serve import serve
from placet.desk.case_limits import Limits
from placet.desk.delivery_retries import RETRY_SCHEDULE
from placet.desk.draft import CaseDraft
from placet.desk.idempotency import MAX_KEY_LENGTH
from placet.desk.review_desk import MAX_LINKS
from placet.desk.reviewer_notes import MAX_NOTE_LENGTH
from placet.http.paging import MAX_LIMIT
from placet.protocol import (
    argument_patterns,
    callback,
    duration,
    fields,
    form_rules,
    forms,
    hitl_object,
    improvement,
    patterns,
)
from placet.protocol.addresses import MAX_URL_LENGTH
from placet.reviews import answer_limits as answers
from placet.reviews.confirmation.review_type import MAX_WORD_LENGTH
from placet.reviews.entries import MAX_ID_LENGTH
from placet.reviews.input.review_type import MAX_ANSWERS
from placet.server import case_sessions, polling, prefill, streams
from placet.server.api_key_auth import CACHE_FOR
from placet.server.serving import STOP_WITHIN_S
from placet.server.single_write_protocol import (
    BODY_WITHIN_S,
    HEAD_WITHIN_S,
    MAX_HEAD_BYTES,
    MIN_BODY_BYTES_PER_S,
)
from placet.settings import Settings
from scripts.drawing import code, table

Row = tuple[str, object, str]


def draw() -> str:
    """The limits by topic."""
    topics = {
        "Opening a case": _opening(),
        "Forms": _forms(),
        "Answers": _answers(),
        "Following a case": _following(),
        "Callbacks": _callbacks(),
        "Quotas of a principal": _quotas(),
        "Server": _server(),
    }
    return "\n\n".join(f"## {topic}\n\n{_table(rows)}" for topic, rows in topics.items())


def _table(rows: Sequence[Row]) -> str:
    return table(("What", "Limit", "Change it with"), rows)


def _opening() -> list[Row]:
    limits = Limits()
    return [
        ("Request body", _size(limits.max_body_bytes), code("max_body_bytes")),
        ("`context`, as JSON", _size(limits.max_context_bytes), code("max_context_bytes")),
        ("Nesting of `context`", f"{limits.max_context_depth} levels", ""),
        ("`prompt`", f"{hitl_object.MAX_PROMPT_LENGTH} characters", ""),
        ("`message`", f"{_longest('message')} characters", ""),
        ("`service`, `agent`", f"{_longest('service')} characters each", ""),
        ("`timeout` unless you say", Settings().default_timeout, code("default_timeout")),
        ("`timeout` at most", Settings().max_timeout, code("max_timeout")),
        ("Any duration", f"{duration.MAX_DURATION.days} days", ""),
        ("`reminder_at`", f"{_most('reminder_at')} moments", ""),
        ("`actions`, `inline_actions`", f"{_most('actions')} each", ""),
        ("Options or items listed in `context`", f"{answers.MAX_IDS:,}", ""),
        ("Id of an option or item", f"{MAX_ID_LENGTH} characters", ""),
        ("`read_confirm_word`", f"{MAX_WORD_LENGTH} characters", ""),
        ("Any URL", f"{MAX_URL_LENGTH:,} characters", ""),
        ("`Idempotency-Key`", f"{MAX_KEY_LENGTH} printable characters", ""),
        ("An `Idempotency-Key` is remembered", f"{limits.replay_for.days} days, or until the deadline", ""),
        ("Links to one case, passed on included", MAX_LINKS, ""),
    ]


def _quotas() -> list[Row]:
    limits = Limits()
    return [
        ("Open cases", f"{limits.max_open_cases:,}", code("max_open_cases")),
        ("Stored content, until retention ends", _size(limits.max_stored_bytes), code("max_stored_bytes")),
        ("New cases per minute", f"{limits.max_cases_per_minute:,}", code("max_cases_per_minute")),
        (
            "New cases per minute, in bytes",
            _size(limits.max_case_bytes_per_minute),
            code("max_case_bytes_per_minute"),
        ),
        (
            "Drafts and answers per minute, in bytes",
            _size(limits.max_case_bytes_per_minute),
            code("max_case_bytes_per_minute"),
        ),
        ("Open event streams", f"{limits.max_streams:,}", code("max_streams")),
    ]


def _forms() -> list[Row]:
    return [
        ("Fields of a form", forms.MAX_FIELDS, ""),
        ("Fields of a form with a `default_ref`", forms.MAX_REFERENCES, ""),
        ("Steps of a form", forms.MAX_STEPS, ""),
        ("Options of a field", fields.MAX_OPTIONS, ""),
        ("Label, title, option", f"{form_rules.MAX_LABEL_LENGTH} characters", ""),
        ("Hint, placeholder, description", f"{form_rules.MAX_HINT_LENGTH:,} characters", ""),
        ("Answer to a text field", f"{fields.MAX_TEXT_LENGTH:,} characters", "`validation.maxLength`"),
        ("`validation.maxLength`", f"{form_rules.MAX_MAX_LENGTH:,}", ""),
        ("Answer to a field with a pattern", f"{fields.MAX_PATTERNED_TEXT_LENGTH:,} characters", ""),
        ("`validation.pattern`", f"{patterns.MAX_PATTERN_LENGTH} characters of RE2", ""),
        ("Numbers", "±(2^53 - 1)", ""),
        ("`default_ref`: waiting for it", f"{prefill.FETCH_TIMEOUT.seconds} s", ""),
        ("`default_ref`: its size", _size(prefill.MAX_BODY_BYTES), ""),
    ]


def _answers() -> list[Row]:
    return [
        ("`data` of an answer, as JSON", _size(answers.MAX_BYTES), ""),
        ("Nesting of `data`", f"{answers.MAX_DEPTH} levels", ""),
        ("Feedback, note, reason in an answer", f"{answers.MAX_TEXT_LENGTH:,} characters", ""),
        ("Reason of a withdrawal, note on a passed-on link", f"{MAX_NOTE_LENGTH:,} characters", ""),
        ("Selected or confirmed ids", f"{answers.MAX_IDS:,}", ""),
        ("Answers to an input without a form", MAX_ANSWERS, ""),
        ("Session of a review page", _hours(case_sessions.SESSION_LIFETIME), ""),
        ("Grants in an answer", grant_terms.MAX_GRANTS, ""),
        ("Uses of a grant", f"1 to {grant.MAX_USES:,}", ""),
        ("A grant lasts", f"1 minute to {grant.MAX_DURATION.days} days", ""),
        ("Patterns of a grant, as JSON", _size(grant_terms.MAX_PATTERN_BYTES), ""),
        ("A glob", f"{argument_patterns.MAX_GLOB_LENGTH} characters", ""),
        ("Text that a glob is held against", f"{argument_patterns.MAX_TEXT_LENGTH:,} characters", ""),
        ("A retried use of a grant is not counted", f"within {grant.RETRY_WITHIN.seconds // 60} minutes", ""),
        ("Improvement cycles", improvement.MAX_CYCLES, ""),
    ]


def _following() -> list[Row]:
    pace = ", ".join(f"{seconds} s while {code(status)}" for status, seconds in polling.RETRY_AFTER.items())
    return [
        (
            "Polls of one open case by one principal",
            f"{Settings().polls_per_minute} a minute",
            code("polls_per_minute"),
        ),
        ("`Retry-After` of a poll", f"grows with the case's age from {polling.SOONEST} s to {pace}", ""),
        ("Cases or deliveries in one list", MAX_LIMIT, ""),
        ("Comment that keeps an idle stream alive", f"every {streams.HEARTBEAT_EVERY:.0f} s", ""),
    ]


def _callbacks() -> list[Row]:
    limits = Limits()
    return [
        ("Attempts", len(RETRY_SCHEDULE), ""),
        ("Old secret signs along after a rotation", _hours(limits.rotation_for), ""),
        ("Secret", f"{callback.MIN_SECRET_BYTES} to {callback.MAX_SECRET_BYTES} bytes; ours have 32", ""),
    ]


def _server() -> list[Row]:
    port = next(param for param in serve.params if param.name == "port")
    return [
        ("Content of a closed case is kept", Settings().retention, code("retention")),
        ("Review and submit tokens", f"{TOKEN_LENGTH} characters, 256 bits", ""),
        ("A revoked key may still work", f"{CACHE_FOR.seconds} s", ""),
        ("A stopping server waits for requests", f"{STOP_WITHIN_S} s", ""),
        ("Headers of a request, about", _size(MAX_HEAD_BYTES), ""),
        ("Time for the headers of a request", f"{HEAD_WITHIN_S:.0f} s", ""),
        (
            "Time for a whole request",
            f"{BODY_WITHIN_S:.0f} s, and 1 s for each {_size(MIN_BODY_BYTES_PER_S)}",
            "",
        ),
        ("Port", Settings().port, code(port.opts[0])),
    ]


def _longest(field: str) -> int:
    return _schema(field)["maxLength"]


def _most(field: str) -> int:
    return _schema(field)["maxItems"]


def _schema(field: str) -> dict[str, int]:
    found = msgspec.json.schema_components((CaseDraft,))[1]["CaseDraft"]["properties"][field]
    choices = found.get("anyOf", [found])
    return next(one for one in choices if "maxLength" in one or "maxItems" in one)


def _size(count: int) -> str:
    return f"{count // 1024} KiB" if count < 1024 * 1024 else f"{count // (1024 * 1024)} MiB"


def _hours(duration: timedelta) -> str:
    return f"{int(duration.total_seconds() // 3600)} hours"
