"""What the reviewer entered for each call, and the resulting decisions."""

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from placet.protocol.json_schema import UnusableSchema
from placet.reviews.answer_limits import MAX_TEXT_LENGTH
from placet.reviews.page_form import Pairs, get_all_values, read_grouping
from placet.reviews.tool_calls.fields import MAX_FIELDS, ArgumentForm, build_form
from placet.reviews.tool_calls.requested_calls import CallGroup
from placet.reviews.tool_calls.schema_violations import SchemaViolation, find_violations
from placet.reviews.tool_calls.verdicts import WHOLE, CallVerdict
from placet.text.characters import normalize_newlines
from placet.text.wording import Amount, Message, message

MAX_BOXES, MAX_GRANT_BOXES = 1_000, 300
"""Limits for a whole page: a form with too many fields is refused when it is sent."""

EDIT_ALONE, RESPOND_ALONE = "x-edit", "x-respond"
BUTTONS_OF_ONE_CALL = {
    "approve": "approve",
    "reject": "reject",
    EDIT_ALONE: "edit",
    RESPOND_ALONE: "respond",
}
"""The decision of each button on a page with one call."""

UNDECIDED = message("Decide about this call.")
CHOSE_OTHERWISE = message(
    "You chose something else here. Choose the same, or send your decisions one by one."
)
CHANGED = message("You changed its arguments. Choose to approve it with changes, or undo them.")
UNCHANGED = message("You changed nothing. Approve it as it is, or change something.")
NO_ANSWER = message("Write what the agent should hear in the tool’s place.")


class SheetEntry(Struct, frozen=True, kw_only=True):
    """One call of the page with its form and what was entered; `typed` holds only changed texts."""

    group: CallGroup
    form: ArgumentForm | None
    decision: str | None = None
    reason: str = ""
    answer: str = ""
    typed: dict[str, str] = {}
    grant: dict[str, str] = {}
    grouping: str | None = None
    """The thousands separator of its page, if it is a point."""

    @property
    def key(self) -> str:
        """The key for problems with this call."""
        return f"call-{self.group.number}"

    def box(self, name: str) -> str:
        """Return the key for problems with one of its form fields."""
        names = [field.name for field in self.form.fields] if self.form else []
        return f"{self.key}-edit-{names.index(name) + 1}"

    def values(self) -> dict[str, Any]:
        """Return the values to save while the page is being filled in."""
        parts = {
            "decision": self.decision,
            "reason": self.reason,
            "answer": self.answer,
            "typed": self.typed,
            "grant": self.grant if self.grant.get("on") else None,
        }
        return {name: part for name, part in parts.items() if part}


def build_blank_sheet(groups: Sequence[CallGroup]) -> list[SheetEntry]:
    """Return an empty entry for every call."""
    room, sheet = MAX_BOXES, []
    for group in groups:
        call = group.call
        form = None
        if "edit" in call.allowed_decisions:
            form = build_form(call.schema, call.arguments, min(MAX_FIELDS, room))
        room = max(0, room - len(form.fields)) if form else room
        sheet.append(SheetEntry(group=group, form=form))
    return sheet


def load_sheet(groups: Sequence[CallGroup], values: Mapping[str, Any]) -> list[SheetEntry]:
    """Return all entries with the saved values."""
    kept = _read_object(values.get("calls"))
    return [
        _fill_entry(entry, _read_object(kept.get(str(entry.group.number))))
        for entry in build_blank_sheet(groups)
    ]


def read_posted_sheet(
    groups: Sequence[CallGroup], pairs: Pairs, saved: Mapping[str, Any]
) -> list[SheetEntry]:
    """Return all entries with the submitted values; a saved secret stays if its field is left empty."""
    known, kept = (
        _read_object(saved.get("calls")),
        set(get_all_values(pairs, "saved")) - set(get_all_values(pairs, "emptied")),
    )
    sent = _group_by_call(pairs)
    sheet = []
    for entry in build_blank_sheet(groups):
        number = str(entry.group.number)
        boxes = sent.get(number, {})
        before = _read_object(_read_object(known.get(number)).get("typed"))
        entered = {word: boxes.get(word, {}).get("", "") for word in ("decision", "reason", "answer")}
        typed = _restore_secrets(entry, boxes.get("edit", {}), before, kept)
        filled = _fill_entry(entry, {**entered, "typed": typed, "grant": boxes.get("grant", {})})
        sheet.append(replace(filled, grouping=read_grouping(pairs)))
    return sheet


def decide_call(
    entry: SheetEntry, move: str, *, is_alone: bool = False
) -> tuple[CallVerdict, dict[str, str]]:
    """Return the decision about a call when this button is pressed, and its problems.

    The page of one call has a button for each decision. With several calls, each has a choice of its own.
    """
    word = entry.decision
    if is_alone and move in BUTTONS_OF_ONE_CALL:
        word = BUTTONS_OF_ONE_CALL[move]
        if word == "approve" and entry.typed:
            return {}, {entry.key: CHANGED}
    elif move in WHOLE:
        if word not in (None, move):
            return {}, {entry.key: CHOSE_OTHERWISE}
        if word is None and entry.typed:
            return {}, {entry.key: CHANGED}
        if word is None and move == "approve" and entry.grant.get("on"):
            # The page shows the terms of the grant only after the call has its own decision.
            return {}, {entry.key: UNDECIDED}
        word = move
    if word not in entry.group.call.allowed_decisions:
        return {}, {entry.key: UNDECIDED}
    return _DECIDERS[word](entry)


def _decide_approve(entry: SheetEntry) -> tuple[CallVerdict, dict[str, str]]:
    return {"decision": "approve"}, {}


def _decide_reject(entry: SheetEntry) -> tuple[CallVerdict, dict[str, str]]:
    if len(entry.reason) > MAX_TEXT_LENGTH:
        return {}, {f"{entry.key}-reason": _describe_too_long(entry.reason)}
    reason = {"reason": entry.reason} if entry.reason.strip() else {}
    return {"decision": "reject", **reason}, {}


def _decide_respond(entry: SheetEntry) -> tuple[CallVerdict, dict[str, str]]:
    if not entry.answer.strip():
        return {}, {f"{entry.key}-answer": NO_ANSWER}
    if len(entry.answer) > MAX_TEXT_LENGTH:
        return {}, {f"{entry.key}-answer": _describe_too_long(entry.answer)}
    return {"decision": "respond", "answer": entry.answer}, {}


def _decide_edit(entry: SheetEntry) -> tuple[CallVerdict, dict[str, str]]:
    call, form = entry.group.call, entry.form
    if form is None:
        return {}, {entry.key: message("Its arguments are too large to be changed here.")}
    arguments, unread = form.apply_edits(entry.typed, entry.grouping)
    if unread:
        return {}, {entry.box(name): words for name, words in unread.items()}
    if arguments == call.arguments:
        return {}, {entry.key: UNCHANGED}
    try:
        found = find_violations(call.schema, arguments)
    except UnusableSchema:  # checking these arguments would take too long
        return {}, {entry.key: message("Its arguments are too large to be changed here.")}
    return {"decision": "edit", "arguments": arguments}, _locate_violations(entry, form, found)


_DECIDERS = {
    "approve": _decide_approve,
    "edit": _decide_edit,
    "reject": _decide_reject,
    "respond": _decide_respond,
}


def _locate_violations(
    entry: SheetEntry, form: ArgumentForm, found: Sequence[SchemaViolation]
) -> dict[str, str]:
    """Return the first violation for each form field, or for the call if no field matches."""
    problems: dict[str, str] = {}
    for one in reversed(found):
        boxes = [field for field in form.fields if field.path == one.path[: len(field.path)]]
        near = [field for field in form.fields if field.path[: len(one.path)] == one.path]
        box = next(iter(boxes or near), None)
        words: Message = one.words
        if box is None or box.control == "kept" or (not boxes and len(near) > 1):
            problems[entry.key] = words
        else:
            problems[entry.box(box.name)] = words
    return problems


def _group_by_call(pairs: Pairs) -> dict[str, dict[str, dict[str, str]]]:
    """Return what was sent under WORD.NUMBER and WORD.NUMBER.REST, by number, word and rest."""
    sent: dict[str, dict[str, dict[str, str]]] = {}
    for name, value in pairs:
        word, _, place = name.partition(".")
        number, _, rest = place.partition(".")
        sent.setdefault(number, {}).setdefault(word, {})[rest] = normalize_newlines(value)
    return sent


def _fill_entry(entry: SheetEntry, given: Mapping[str, Any]) -> SheetEntry:
    word = given.get("decision")
    typed = _read_object(given.get("typed"))
    boxes = {field.name: field for field in entry.form.fields} if entry.form else {}
    return SheetEntry(
        group=entry.group,
        form=entry.form,
        decision=word if word in entry.group.call.allowed_decisions else None,
        reason=_read_text(given.get("reason")),
        answer=_read_text(given.get("answer")),
        typed={
            name: _read_text(typed[name])
            for name, field in boxes.items()
            if name in typed and _read_text(typed[name]) != field.original
        },
        grant={str(name): _read_text(text) for name, text in _read_object(given.get("grant")).items()},
    )


def _restore_secrets(
    entry: SheetEntry, typed: Mapping[str, str], before: Mapping[str, Any], kept: set[str]
) -> dict[str, Any]:
    secrets = {
        field.name: before[field.name]
        for field in (entry.form.fields if entry.form else ())
        if field.control == "secret"
        and field.name in before
        and not typed.get(field.name)
        and f"{entry.group.number}.{field.name}" in kept
    }
    return {**typed, **secrets}


def _describe_too_long(text: str) -> Message:
    return message(
        "Shorten this to {most} characters; it has {given}.",
        most=Amount(MAX_TEXT_LENGTH),
        given=Amount(len(text)),
    )


def _read_object(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _read_text(value: object) -> str:
    return value if isinstance(value, str) else ""
