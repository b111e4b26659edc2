"""Deciding stopped calls in a terminal."""

import json
import sys
import threading
from collections.abc import Callable
from typing import TextIO

from placet.errors import InvalidFeedback
from placet.hook.feedback import FeedbackResult, ToolFeedback
from placet.hook.interruption import InterruptionMetadata
from placet.hook.turn import check_answer
from placet.text.characters import CLOSE, OPEN, mark_hidden

_WORDS = {
    FeedbackResult.APPROVED: "approve",
    FeedbackResult.EDITED: "edit the arguments",
    FeedbackResult.REJECTED: "reject",
    FeedbackResult.RESPONDED: "answer in its place",
}
_KEYS = {
    FeedbackResult.APPROVED: "a",
    FeedbackResult.EDITED: "e",
    FeedbackResult.REJECTED: "r",
    FeedbackResult.RESPONDED: "p",
}

_terminal_lock = threading.Lock()


def ask_in_terminal(
    interruption: InterruptionMetadata,
    *,
    read: Callable[[str], str] = input,
    out: TextIO | None = None,
) -> InterruptionMetadata:
    """Ask about each undecided call until it is decided. Raises EOFError at the end of the input.

    Only one interruption is shown at a time, so an answer never counts for another question.
    """
    with _terminal_lock:
        return _ask_each(interruption, read, out or sys.stderr)


def _ask_each(
    interruption: InterruptionMetadata, read: Callable[[str], str], out: TextIO
) -> InterruptionMetadata:
    answered = interruption
    waiting = interruption.undecided
    for number, call in enumerate(waiting, 1):
        print(f"\n{_format_call(call, number, len(waiting))}", file=out)
        decided = None
        while decided is None:
            decided = _read_decision(interruption, call, read, out)
        answered = answered.with_feedback(decided)
    return answered


def _read_decision(
    interruption: InterruptionMetadata, call: ToolFeedback, read: Callable[[str], str], out: TextIO
) -> ToolFeedback | None:
    choices = ", ".join(f"{_KEYS[word]} to {_WORDS[word]}" for word in call.allowed_decisions)
    said = read(f"{choices}: ").strip().lower()
    word = next((word for word in call.allowed_decisions if said in (_KEYS[word], word.value)), None)
    if word is None:
        return None
    try:
        decided = _read_details(call, word, read)
        check_answer(interruption, decided)
    except InvalidFeedback as error:
        print(_mark_hidden(error.message), file=out)
        return None
    return decided


def _read_details(call: ToolFeedback, word: FeedbackResult, read: Callable[[str], str]) -> ToolFeedback:
    if word is FeedbackResult.EDITED:
        return call.edit(read("New arguments as JSON: "))
    if word is FeedbackResult.REJECTED:
        return call.reject(read("Why (the agent reads this; may be empty): ").strip() or None)
    if word is FeedbackResult.RESPONDED:
        return call.respond(read("The answer: "))
    return call.approve()


def _format_call(call: ToolFeedback, number: int, total: int) -> str:
    lines = [f"Call {number} of {total}: {_mark_hidden(call.name)}"]
    if call.path:
        lines.append(f"  requested by {_mark_hidden(' > '.join(call.path))}")
    if call.high_risk:
        lines.append("  HIGH RISK")
    if call.description:
        lines.append(f"  {_mark_hidden(call.description)}")
    lines += [
        f"  {_mark_hidden(name)}: {_mark_hidden(_format_value(value))}"
        for name, value in call.arguments.items()
    ]
    return "\n".join(lines)


def _format_value(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def _mark_hidden(text: str) -> str:
    """Return what an agent sent in one line, with characters marked that hide text or move the cursor."""
    return mark_hidden(text, numbered=len(text)).replace("\n", f"{OPEN}U+000A{CLOSE}")
