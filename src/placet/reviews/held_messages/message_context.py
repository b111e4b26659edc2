"""A held message as the context of its case describes it."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import replace

from placet.errors import ValidationFailed
from placet.protocol.conversion import convert_input
from placet.text.truncation import to_single_line

FIELD = "held_message"
FILES_PER_PAGE = 4
MAX_WORD_LENGTH = 200
MAX_NOTED_ENTITIES = 3
NOTED_CONTEXT = 40
"""How many characters around a finding a list shows."""
MASK_SIGN = "▮▮▮"
MIN_ENTRY_LENGTH = 80
"""What a short text or value counts on a page, with its heading."""

Count = Annotated[int, Meta(ge=0)]
LegName = Literal["requestFromSource", "requestToSink", "responseFromSink", "responseToSource"]


class Mark(Struct, frozen=True, kw_only=True):
    """Where in an excerpt a policy found something."""

    start: Count
    end: Count
    entity: str
    policy: str
    action: str


class Excerpt(Struct, frozen=True, kw_only=True):
    """A part of a text that starts at character `at`."""

    at: Count
    text: str
    marks: Annotated[tuple[Mark, ...], Meta(max_length=500)] = ()


class HeldText(Struct, frozen=True, kw_only=True):
    """One text of the message, whole or in excerpts."""

    path: str
    length: Count
    excerpts: tuple[Excerpt, ...]

    @property
    def left_out(self) -> int:
        """The number of characters that are not shown."""
        return max(0, self.length - sum(len(one.text) for one in self.excerpts))


class HeldFile(Struct, frozen=True, kw_only=True):
    """A file of the message that no policy can read."""

    path: str
    name: str | None = None
    declared_type: str | None = None
    """The media type that the sender gave."""
    type: str | None = None
    """The media type according to the first bytes."""
    size: Count
    sha256: str
    content: str | None = None
    """The content in base64; None if the file is too large for the page."""


class HeldPolicy(Struct, frozen=True, kw_only=True):
    """The policy that holds the message."""

    name: str
    version: str
    level: str


class HeldMessageContext(Struct, frozen=True, kw_only=True):
    """Everything that the reviewer sees about a held message."""

    matter: Literal["request", "response", "input"]
    leg: LegName
    sender: str
    receiver: str
    caller: str
    caller_kind: Literal["agent", "user"]
    agent: str
    policy: HeldPolicy | None = None
    reason: str = ""
    unchecked: tuple[str, ...] = ()
    files: tuple[HeldFile | str, ...] = ()
    """The files; only their paths in cases of earlier versions."""
    files_left_out: Count = 0
    digest: str
    task_id: str
    correlation_id: str
    texts: tuple[HeldText, ...] = ()
    texts_left_out: Count = 0
    data: tuple[Any, ...] = ()
    data_left_out: Count = 0
    request: tuple[str, ...] = ()
    """The messages that the agent got before it asked for input, the newest last. Long ones are cut."""


class TextSlice(Struct, frozen=True, kw_only=True):
    """A part of a text that fits on one page."""

    text: HeldText
    excerpt: Excerpt


class HeldMessagePage(Struct, frozen=True, kw_only=True):
    """A part of the message that fits on one page."""

    texts: tuple[TextSlice, ...]
    data: tuple[Any, ...]
    files: tuple[HeldFile | str, ...]


class Segment(Struct, frozen=True, kw_only=True):
    """A run of text with the same findings, or with none."""

    text: str
    found: tuple[str, ...] = ()


def read_held_message(context: Mapping[str, Any]) -> HeldMessageContext:
    """Return the held message in a context; raise ValidationFailed if it is not valid."""
    held = context.get(FIELD)
    if not isinstance(held, Mapping):
        raise ValidationFailed(f"context.{FIELD} must be an object.", path=f"context.{FIELD}")
    return convert_input(dict(held), HeldMessageContext, ValidationFailed, f"context.{FIELD}")


def split_into_pages(held: HeldMessageContext, size: int) -> list[HeldMessagePage]:
    """Return the whole message in pages of about `size` characters. There is at least one page."""
    pages: list[list[TextSlice | HeldFile | _Value]] = [[]]
    left = size
    for entry, length in _list_entries(held, size):
        if length > left and pages[-1]:
            pages.append([])
            left = size
        pages[-1].append(entry)
        left -= max(length, MIN_ENTRY_LENGTH)
    return [
        HeldMessagePage(
            texts=tuple(one for one in entries if isinstance(one, TextSlice)),
            data=tuple(one.value for one in entries if isinstance(one, _Value)),
            files=tuple(one for one in entries if isinstance(one, HeldFile)),
        )
        for entries in pages
    ]


class _Value(Struct, frozen=True):
    value: Any


def _list_entries(held: HeldMessageContext, size: int) -> Iterator[tuple[TextSlice | HeldFile | _Value, int]]:
    """Yield what the message consists of, each with its length. Texts are cut at `size` characters."""
    for text in held.texts:
        for excerpt in text.excerpts:
            start = 0
            while start < len(excerpt.text) or start == 0:
                part = _cut_excerpt(excerpt, start, _find_cut(excerpt.text, start + size))
                yield TextSlice(text=text, excerpt=part), len(part.text)
                start += max(len(part.text), 1)
    for value in held.data:
        yield _Value(value), len(msgspec.json.encode(value))
    for file in held.files:
        if isinstance(file, HeldFile):
            yield file, size // FILES_PER_PAGE


def _find_cut(text: str, end: int) -> int:
    """Return where to end a part that may be `end` characters long: behind a space, if one is near."""
    space = max(text.rfind(sign, end - MAX_WORD_LENGTH, end) for sign in " \n")
    return end if end >= len(text) or space < 0 else space + 1


def _cut_excerpt(excerpt: Excerpt, start: int, end: int) -> Excerpt:
    if start == 0 and end >= len(excerpt.text):
        return excerpt
    text = excerpt.text[start:end]
    marks = tuple(
        replace(one, start=max(one.start - start, 0), end=min(one.end - start, len(text)))
        for one in excerpt.marks
        if one.start < start + len(text) and one.end > start
    )
    return Excerpt(at=excerpt.at + start, text=text, marks=marks)


def build_note(held: HeldMessageContext) -> tuple[str, ...]:
    """Return what distinguishes the message in a list: the policy, what it found, and a masked excerpt."""
    names = [] if held.policy is None else [held.policy.name]
    found = [
        mark.entity
        for text in held.texts
        for excerpt in text.excerpts
        for mark in excerpt.marks
        if held.policy is None or mark.policy == held.policy.name
    ]
    excerpt = _build_masked_excerpt(held)
    return (*names, *list(dict.fromkeys(found))[:MAX_NOTED_ENTITIES], *([f"“{excerpt}”"] if excerpt else []))


def _build_masked_excerpt(held: HeldMessageContext) -> str:
    """Return the text around the first finding, or the beginning of the first text, without findings."""
    excerpts = [one for text in held.texts for one in text.excerpts if one.text.strip()]
    chosen = next((one for one in excerpts if one.marks), excerpts[0] if excerpts else None)
    if chosen is None:
        return ""
    marks = sorted(chosen.marks, key=lambda mark: (mark.start, mark.end))
    start = max(0, (marks[0].start if marks else 0) - NOTED_CONTEXT)
    parts, place = [], start
    for mark in marks:
        if mark.start > place:
            parts.append(chosen.text[place : mark.start])
        if mark.end > place:
            parts.append(MASK_SIGN)
            place = mark.end
        if place - start > 2 * NOTED_CONTEXT:
            break
    end = max(place, start + 3 * NOTED_CONTEXT)
    parts.append(chosen.text[place:end])
    before = "…" if start or chosen.at else ""
    after = "…" if end < len(chosen.text) else ""
    return f"{before}{to_single_line(''.join(parts)).strip()}{after}"


def split_at_marks(excerpt: Excerpt, policy: HeldPolicy | None) -> list[Segment]:
    """Split the excerpt where marks begin and end; findings of `policy` are shown without its name."""
    return list(_split(excerpt.text, excerpt.marks, None if policy is None else policy.name))


def _split(text: str, marks: Sequence[Mark], known: str | None) -> Iterator[Segment]:
    places = {0, len(text), *(min(place, len(text)) for one in marks for place in (one.start, one.end))}
    edges = sorted(places)
    for start, end in pairwise(edges):
        covering = [one for one in marks if one.start <= start and end <= one.end]
        found = dict.fromkeys(
            one.entity if one.policy == known else f"{one.entity} · {one.policy}" for one in covering
        )
        yield Segment(text=text[start:end], found=tuple(found))
