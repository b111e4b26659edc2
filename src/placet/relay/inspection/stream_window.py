"""Decide which events of a stream may leave before its end.

The window is a state that takes events in and gives events out. Texts that continue over several events, such
as the chunks of an artifact, are joined. The last characters of a joined text are undecided, because a match
may begin there and end in a later event. An event may leave when all its texts are inspected and none of its
characters is undecided. So no event with a part of a match leaves before the match is known, however the
agent splits its text.

Events of one lane leave in their order. An event whose text is undecided does not hold up other lanes: the
end of a status message does not hold up the artifact that the agent writes next.
"""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from itertools import chain, count
from typing import Protocol

from msgspec import Struct, field
from msgspec.structs import replace

from placet.ports.detector import Scannable
from placet.relay.a2a.stable_text import count_readable, find_last_cut, find_undecided
from placet.relay.policy.finding import Finding, cut_finding
from placet.relay.policy.policy import PolicyAction

MAX_UNDECIDED = 32_768
"""A longer text that cannot be decided, such as a file in base64, is inspected with the whole stream."""
CONTEXT_MARGIN = 64
MAX_STEP_FREE = 1_024
"""A longer text that cannot be decided is only inspected again after it has grown by a quarter."""
MAX_KNOWN_TEXTS, MAX_KNOWN_LENGTH = 1_000, 200
NUMBER_SEPARATOR = ";"
ALL_LANES = "all lanes"
"""Stands for an event that keeps its place before and after all others."""


class MatchFinder(Protocol):
    """Knows how far matches reach."""

    @property
    def width(self) -> int:
        """The number of characters that decide a match."""
        ...

    def find(self, text: str) -> int:
        """Return the first position at which a match may begin that goes on after the text."""
        ...


class EventText(Struct, frozen=True):
    """A text of an event, and the joined texts that it continues."""

    text: str
    continues: tuple[Hashable, ...] = ()
    is_complete: bool = True
    """Whether the text is inspected by itself."""
    is_number: bool = False
    """Whether the text is a number, which does not continue another number."""
    can_be_masked: bool = True
    path: str = ""
    boundary: int | None = None
    """If set, only matches over this position count, because the rest is inspected elsewhere."""


class StreamEvent(Struct, frozen=True):
    """The texts of an event in their order, and the lanes in which it keeps its place; None for all lanes."""

    texts: Sequence[EventText]
    lanes: frozenset[Hashable] | None = None


class ReleasedEvent(Struct, frozen=True):
    """An event that may leave, by its number, and the findings to mask by the index of their text."""

    number: int
    findings: Mapping[int, Sequence[Finding]]


class WindowStep(Struct, frozen=True, kw_only=True):
    """The events that may leave now, and whether anything else may leave before the end of the stream."""

    released: Sequence[ReleasedEvent] = ()
    is_blocked: bool = False
    """Whether a policy blocks the stream, so that it need not be read to its end."""


class _Part(Struct):
    """A text of an event that continues others: its index, what it continues, and its place in them."""

    index: int
    keys: tuple[Hashable, ...]
    begin: int
    end: int


class _PendingEvent(Struct):
    number: int
    lanes: frozenset[Hashable] | None
    parts: list[_Part]
    masks: dict[int, list[Finding]] = field(default_factory=dict)
    is_stopped: bool = False
    """Whether a text of the event has a finding that is not for a mask."""

    def stop(self) -> None:
        self.is_stopped = True


class _SingleText(Struct):
    """A text that is inspected by itself."""

    event: _PendingEvent
    index: int
    text: EventText

    def is_elsewhere(self, finding: Finding) -> bool:
        """Whether a finding is also in another text that is inspected."""
        boundary = self.text.boundary
        if boundary is None or finding.start == finding.end:
            return False
        return not finding.start < boundary < finding.end


class _JoinedText(Struct):
    """A joined text without the beginning that nothing needs. All positions are in the whole text."""

    path: str
    begin: int = 0
    text: str = ""
    added: list[str] = field(default_factory=list)
    """What is to be appended to `text`."""
    end: int = 0
    inspected: int = 0
    """The end of the text when it was last inspected."""
    cut: int = 0
    """The last position at which the text may be cut."""
    inspected_cut: int = 0
    decided: int = 0
    """Every match that begins before this position is known."""
    reported: int = 0
    """The value of `decided` before the last inspection."""
    ends_with_number: bool = False
    masks: list[Finding] = field(default_factory=list)
    """Known findings, with their positions in the whole text."""

    def copy(self) -> "_JoinedText":
        return replace(self, added=[*self.added], masks=[*self.masks])

    def append(self, text: EventText) -> tuple[int, int]:
        """Append a text, and return its place. Two numbers in a row are not one long number."""
        if self.ends_with_number and text.is_number:
            self.added.append(NUMBER_SEPARATOR)
            self.end += len(NUMBER_SEPARATOR)
        self.ends_with_number = text.is_number
        begin, self.end = self.end, self.end + len(text.text)
        self.added.append(text.text)
        return begin, self.end

    def update(self) -> None:
        """Join what was appended, and find the last cut."""
        if self.added:
            searched = len(self.text)
            self.text, self.added = "".join((self.text, *self.added)), []
            cut = find_last_cut(self.text, searched, len(self.text))
            if cut is not None:
                self.cut = self.begin + cut

    def is_due(self, step: int) -> bool:
        """Whether an inspection may decide more of the text."""
        undecided = self.inspected - self.decided
        if undecided > MAX_STEP_FREE:
            step = max(step, undecided // 4)
        return self.cut > self.inspected_cut and self.end - self.inspected >= step

    def mark_inspected(self) -> None:
        self.inspected, self.inspected_cut = self.end, self.cut

    def stop(self, position: int) -> None:
        """Let nothing leave from this position on."""
        self.decided = position

    def drop_masks(self, first: int) -> None:
        """Forget the findings before this position."""
        self.masks = [one for one in self.masks if one.end > min(first, self.decided)]

    def decide(self, finder: MatchFinder) -> None:
        """Move `decided` forward, after the text was inspected."""
        self.reported = self.decided
        stable = self.text[: max(self.cut - self.begin, 0)]
        self.decided = max(self.decided, self.begin + find_undecided(stable, finder.find))

    def forget(self, width: int) -> None:
        """Drop the beginning of the text, except for what a match at `decided` may look back at."""
        before = self.decided - self.begin - 2 * width - CONTEXT_MARGIN
        if before < 2 * CONTEXT_MARGIN:
            return
        cut = find_last_cut(self.text, before - CONTEXT_MARGIN, before)
        if cut is not None and count_readable(self.text[cut : self.decided - self.begin]) > width + 1:
            self.text = self.text[cut:]
            self.begin += cut


class StreamWindow:
    """The events of one stream that may not leave yet."""

    def __init__(self) -> None:
        self._numbers = count()
        self._pending: list[_PendingEvent] = []
        self._added: list[_PendingEvent] = []
        """The pending events that were added after the last call of `advance`."""
        self._occupied: set[Hashable] = set()
        """The lanes of the other pending events."""
        self._joined: dict[Hashable, _JoinedText] = {}
        """The joined texts by their keys. Keys whose texts are the same so far share one."""
        self._selected: dict[tuple[Hashable, ...], list[tuple[_JoinedText, tuple[Hashable, ...]]]] = {}
        """The joined texts that a text continues, as long as none is copied."""
        self._singles: list[_SingleText] = []
        self._sources: list[list[_SingleText | _JoinedText]] = []
        """Where each text of `list_texts` comes from. Equal texts are inspected once."""
        self._known: set[str] = set()
        """Ids and the like in which nothing was found."""
        self.is_frozen = False
        """Whether no further event may leave before the whole stream is inspected."""

    def freeze(self) -> None:
        """Let no further event leave."""
        self.is_frozen = True
        self._selected = {}
        self._pending, self._added, self._joined, self._singles, self._sources = [], [], {}, [], []

    def add(self, event: StreamEvent) -> None:
        """Add the next event of the stream."""
        pending = _PendingEvent(number=next(self._numbers), lanes=event.lanes, parts=[])
        if self.is_frozen:
            return
        self._added.append(pending)
        for index, text in enumerate(event.texts):
            if text.is_complete and (text.continues or text.text not in self._known):
                self._singles.append(_SingleText(pending, index, text))
            for joined, keys in self._select_joined(text):
                begin, end = joined.append(text)
                pending.parts.append(_Part(index, keys, begin, end))

    def _select_joined(self, text: EventText) -> list[tuple[_JoinedText, tuple[Hashable, ...]]]:
        """Return the joined texts that a text continues, with their keys.

        If a text does not belong to all keys of a joined text, that is copied for those to which it belongs.
        """
        known = self._selected.get(text.continues)
        if known is not None:
            return known
        self._selected.clear()  # a joined text may be copied
        found: dict[int, tuple[_JoinedText | None, list[Hashable]]] = {}
        for key in text.continues:
            joined = self._joined.get(key)
            found.setdefault(id(joined), (joined, []))[1].append(key)
        selected: list[tuple[_JoinedText, tuple[Hashable, ...]]] = []
        for shared, keys in found.values():
            joined = _JoinedText(text.path) if shared is None else shared
            if shared is not None and sum(one is shared for one in self._joined.values()) > len(keys):
                joined = shared.copy()
            for key in keys:
                self._joined[key] = joined
            selected.append((joined, tuple(keys)))
        self._selected[text.continues] = selected
        return selected

    def _list_joined(self) -> list[_JoinedText]:
        return list({id(joined): joined for joined in self._joined.values()}.values())

    def list_texts(self, step: int = 0) -> list[Scannable]:
        """Return the texts to inspect before anything more may leave.

        A joined text is inspected again after it has grown by at least `step` characters.
        """
        by_text: dict[str, list[_SingleText | _JoinedText]] = {}
        paths: dict[str, str] = {}
        for single in self._singles:
            by_text.setdefault(single.text.text, []).append(single)
            paths.setdefault(single.text.text, single.text.path)
        for joined in self._list_joined():
            joined.update()
            if joined.is_due(step):
                joined.mark_inspected()
                by_text.setdefault(joined.text, []).append(joined)
                paths.setdefault(joined.text, joined.path)
        self._sources, self._singles = list(by_text.values()), []
        return [Scannable(paths[text], text) for text in by_text]

    def advance(self, findings: Iterable[Finding], finder: MatchFinder) -> WindowStep:
        """Return what may leave after the texts of `list_texts` were inspected, with these findings.

        The findings are those of policies that mask, hold or block. The field `piece` is the index of the
        text. A finding that is not for a mask freezes the window.
        """
        for source in chain.from_iterable(self._sources):
            if isinstance(source, _JoinedText):
                source.decide(finder)
        stopping: list[Finding] = []
        found: set[int] = set()
        for finding in findings:
            found.add(finding.piece)
            for source in self._sources[finding.piece]:
                if not self._apply(finding, source):
                    stopping.append(finding)
        self._remember_clean(found)
        joined_texts = self._list_joined()
        is_undecidable = any(joined.end - joined.decided > MAX_UNDECIDED for joined in joined_texts)
        has_progress = any(joined.decided != joined.reported for joined in joined_texts)
        released = self._release(has_progress=has_progress)
        if stopping or is_undecidable:
            self.freeze()
        self._drop_masks()
        for joined in joined_texts:
            joined.forget(finder.width)
        is_blocked = any(finding.action is PolicyAction.BLOCK for finding in stopping)
        return WindowStep(released=released, is_blocked=is_blocked)

    def _remember_clean(self, found: "set[int]") -> None:
        """Remember the texts without findings that are not contents, because most events repeat them."""
        for index, sources in enumerate(self._sources):
            first = sources[0]
            if (
                index not in found
                and isinstance(first, _SingleText)
                and len(first.text.text) <= MAX_KNOWN_LENGTH
                and len(self._known) < MAX_KNOWN_TEXTS
            ):
                self._known.add(first.text.text)

    def _apply(self, finding: Finding, source: "_SingleText | _JoinedText") -> bool:
        """Remember a finding for masking. Return False if it stops the stream before its first character."""
        is_masked = finding.action is PolicyAction.MASK
        if isinstance(source, _SingleText):
            if source.is_elsewhere(finding):
                return True
            if is_masked and source.text.can_be_masked:
                source.event.masks.setdefault(source.index, []).append(replace(finding, piece=0))
                return True
            source.event.stop()
            return False
        if finding.start == finding.end:  # it has no known position
            source.stop(0)
            return False
        start, end = source.begin + finding.start, source.begin + finding.end
        if start >= source.decided or end <= source.reported:
            return True  # it will be found again, or it was found before
        if is_masked:
            source.masks.append(replace(finding, start=start, end=end, piece=0))
            return True
        source.stop(start)
        return False

    def _release(self, *, has_progress: bool) -> list[ReleasedEvent]:
        """Return the events that may leave. Without progress, only events without a part of a text may."""
        if has_progress:
            candidates, kept, self._occupied = [*self._pending, *self._added], [], set()
        else:
            candidates, kept = self._added, self._pending
        released: list[ReleasedEvent] = []
        for event in candidates:
            is_free = not kept if event.lanes is None else event.lanes.isdisjoint(self._occupied)
            if is_free and ALL_LANES not in self._occupied and self._is_decided(event):
                released.append(ReleasedEvent(event.number, self._collect_masks(event)))
            else:
                self._occupied |= {ALL_LANES} if event.lanes is None else event.lanes
                kept.append(event)
        self._pending, self._added = kept, []
        return released

    def _is_decided(self, event: _PendingEvent) -> bool:
        return not event.is_stopped and all(
            part.end <= self._joined[key].decided for part in event.parts for key in part.keys
        )

    def _collect_masks(self, event: _PendingEvent) -> Mapping[int, Sequence[Finding]]:
        """Return the findings in an event, each with its position in the event's text."""
        for part in event.parts:
            for joined in {id(self._joined[key]): self._joined[key] for key in part.keys}.values():
                for one in joined.masks:
                    if (own := cut_finding(one, part.begin, part.end)) is not None:
                        event.masks.setdefault(part.index, []).append(own)
        return event.masks

    def _drop_masks(self) -> None:
        """Forget the findings in texts of events that have left."""
        for joined in self._list_joined():
            if joined.masks:
                parts = (part for event in self._pending for part in event.parts)
                places = (
                    part.begin for part in parts if any(self._joined[key] is joined for key in part.keys)
                )
                joined.drop_masks(min(places, default=joined.end))
