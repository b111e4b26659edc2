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

from msgspec import Struct, field
from msgspec.structs import replace

from placet.ports.detector import Scannable
from placet.relay.a2a.stable_text import count_readable, find_last_cut, find_undecided
from placet.relay.policy.finding import Finding
from placet.relay.policy.policy import PolicyAction

MAX_UNDECIDED = 32_768
"""A longer text that cannot be decided, such as a file in base64, is inspected with the whole stream."""
CONTEXT_MARGIN = 64
NUMBER_SEPARATOR = ";"


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


class _PendingEvent(Struct):
    number: int
    lanes: frozenset[Hashable] | None
    parts: list[tuple[int, Hashable, int, int]]
    """For each text that continues another: its index, the joined text, and its begin and end in it."""
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


class _JoinedText(Struct):
    """A joined text without the beginning that nothing needs. All positions are in the whole text."""

    path: str
    begin: int = 0
    text: str = ""
    inspected: int = 0
    """The end of the text when it was last inspected."""
    cut: int = 0
    """The last position at which the text may be cut."""
    decided: int = 0
    """Every match that begins before this position is known."""
    reported: int = 0
    """The value of `decided` before the last inspection."""
    ends_with_number: bool = False
    masks: list[Finding] = field(default_factory=list)
    """Known findings, with their positions in the whole text."""

    @property
    def end(self) -> int:
        return self.begin + len(self.text)

    def separate(self, text: EventText) -> None:
        """Prepare for the next text. Two numbers in a row are not one long number."""
        if self.ends_with_number and text.is_number:
            self.append(NUMBER_SEPARATOR)
        self.ends_with_number = text.is_number

    def append(self, text: str) -> None:
        searched = len(self.text)
        self.text += text
        cut = find_last_cut(self.text, searched, len(self.text))
        if cut is not None:
            self.cut = self.begin + cut

    def mark_inspected(self) -> None:
        self.inspected = self.end

    def stop(self, position: int) -> None:
        """Let nothing leave from this position on."""
        self.decided = position

    def drop_masks(self, first: int) -> None:
        """Forget the findings before this position."""
        self.masks = [one for one in self.masks if one.end > min(first, self.decided)]

    def decide(self, width: int) -> None:
        """Move `decided` forward, after the text was inspected."""
        self.reported = self.decided
        stable = self.text[: max(self.cut - self.begin, 0)]
        self.decided = max(self.decided, self.begin + find_undecided(stable, width))

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
        self._joined: dict[Hashable, _JoinedText] = {}
        self._singles: list[_SingleText] = []
        self._sources: list[list[_SingleText | _JoinedText]] = []
        """Where each text of `list_texts` comes from. Equal texts are inspected once."""
        self.is_frozen = False
        """Whether no further event may leave before the whole stream is inspected."""

    def freeze(self) -> None:
        """Let no further event leave."""
        self.is_frozen = True
        self._pending, self._joined, self._singles, self._sources = [], {}, [], []

    def add(self, event: StreamEvent) -> None:
        """Add the next event of the stream."""
        pending = _PendingEvent(number=next(self._numbers), lanes=event.lanes, parts=[])
        if self.is_frozen:
            return
        self._pending.append(pending)
        for index, text in enumerate(event.texts):
            if text.is_complete:
                self._singles.append(_SingleText(pending, index, text))
            for key in text.continues:
                joined = self._joined.setdefault(key, _JoinedText(text.path))
                joined.separate(text)
                begin = joined.end
                joined.append(text.text)
                pending.parts.append((index, key, begin, joined.end))

    def list_texts(self, step: int = 0) -> list[Scannable]:
        """Return the texts to inspect before anything more may leave.

        A joined text is inspected again after it has grown by at least `step` characters.
        """
        grown = [
            joined
            for joined in self._joined.values()
            if joined.end > joined.inspected and joined.end - joined.inspected >= step
        ]
        by_text: dict[str, list[_SingleText | _JoinedText]] = {}
        paths: dict[str, str] = {}
        for single in self._singles:
            by_text.setdefault(single.text.text, []).append(single)
            paths.setdefault(single.text.text, single.text.path)
        for joined in grown:
            joined.mark_inspected()
            by_text.setdefault(joined.text, []).append(joined)
            paths.setdefault(joined.text, joined.path)
        self._sources, self._singles = list(by_text.values()), []
        return [Scannable(paths[text], text) for text in by_text]

    def advance(self, findings: Iterable[Finding], width: int) -> WindowStep:
        """Return what may leave after the texts of `list_texts` were inspected, with these findings.

        The findings are those of policies that mask, hold or block. The field `piece` is the index of the
        text. A finding that is not for a mask freezes the window.
        """
        for source in chain.from_iterable(self._sources):
            if isinstance(source, _JoinedText):
                source.decide(width)
        stopping: list[Finding] = []
        for finding in findings:
            for source in self._sources[finding.piece]:
                if not self._apply(finding, source):
                    stopping.append(finding)
        is_undecidable = any(joined.end - joined.decided > MAX_UNDECIDED for joined in self._joined.values())
        released = self._release()
        if stopping or is_undecidable:
            self.freeze()
        for key, joined in self._joined.items():
            joined.forget(width)
            self._drop_masks(key, joined)
        is_blocked = any(finding.action is PolicyAction.BLOCK for finding in stopping)
        return WindowStep(released=released, is_blocked=is_blocked)

    def _apply(self, finding: Finding, source: "_SingleText | _JoinedText") -> bool:
        """Remember a finding for masking. Return False if it stops the stream before its first character."""
        is_masked = finding.action is PolicyAction.MASK
        if isinstance(source, _SingleText):
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

    def _release(self) -> list[ReleasedEvent]:
        released: list[ReleasedEvent] = []
        kept: list[_PendingEvent] = []
        occupied: set[Hashable] = set()
        for index, event in enumerate(self._pending):
            if event.lanes is None:
                if kept or not self._is_decided(event):
                    kept += self._pending[index:]
                    break
            elif not occupied.isdisjoint(event.lanes) or not self._is_decided(event):
                occupied |= event.lanes
                kept.append(event)
                continue
            released.append(ReleasedEvent(event.number, self._collect_masks(event)))
        self._pending = kept
        return released

    def _is_decided(self, event: _PendingEvent) -> bool:
        return not event.is_stopped and all(
            end <= self._joined[key].decided for _, key, _, end in event.parts
        )

    def _collect_masks(self, event: _PendingEvent) -> Mapping[int, Sequence[Finding]]:
        """Return the findings in an event, each with its position in the event's text."""
        for index, key, begin, end in event.parts:
            for one in self._joined[key].masks:
                start, stop = max(one.start, begin), min(one.end, end)
                if start < stop:
                    text = one.text[start - one.start :][: stop - start]
                    part = replace(one, start=start - begin, end=stop - begin, text=text)
                    event.masks.setdefault(index, []).append(part)
        return event.masks

    def _drop_masks(self, key: Hashable, joined: _JoinedText) -> None:
        """Forget the findings in texts of events that have left."""
        if joined.masks:
            parts = (part for event in self._pending for part in event.parts)
            first = min((begin for _, one, begin, _ in parts if one == key), default=joined.end)
            joined.drop_masks(first)
