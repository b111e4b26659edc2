"""A held message as the context of its case describes it."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from placet.errors import ValidationFailed
from placet.protocol.conversion import convert_input

FIELD = "held_message"

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
    files: tuple[str, ...] = ()
    digest: str
    task_id: str
    correlation_id: str
    texts: tuple[HeldText, ...] = ()
    texts_left_out: Count = 0
    data: tuple[Any, ...] = ()
    data_left_out: Count = 0


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
