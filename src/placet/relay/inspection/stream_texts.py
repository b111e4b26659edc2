"""Group the texts of a stream: which texts continue each other, and which events keep their order."""

from collections.abc import Hashable, Sequence

from msgspec.structs import replace

from placet.ports.detector import Scannable
from placet.relay.a2a.json_format import Json, get_text
from placet.relay.a2a.reply import A2AReply
from placet.relay.a2a.stream_merging import ARTIFACT_ID
from placet.relay.a2a.text_extraction import TextPiece
from placet.relay.inspection.stream_window import EventText, StreamEvent
from placet.relay.policy.text_joining import (
    TextGroupMember,
    get_text_group,
    is_content,
    is_file,
    is_in_artifact,
    is_name,
)

STATUS = "status"
"""The group of all status messages. Each of them is also inspected by itself."""
CONTENTS, NAMED_CONTENTS = "contents", "contents with names of members"
"""All contents of the stream in their order."""
READABLE_CONTENTS = "contents without files"
ARTIFACTS, OTHER_CONTENTS = "artifacts", "contents other than artifacts"
"""The contents of all artifacts, and all others, because readers may show them apart."""
MAX_NAMES = 1_000
"""How many characters of names of artifacts, and of the first contents after them, are joined."""


def group_stream_texts(
    replies: Sequence[A2AReply], pieces: Sequence[Sequence[Scannable]]
) -> list[TextGroupMember | None]:
    """Return the text group of each piece: an artifact with its appended parts, or a message."""
    keys: list[Hashable | None] = []
    events_by_key: dict[Hashable, set[int]] = {}
    grouper = StreamGrouper()
    for index, (reply, event_pieces) in enumerate(zip(replies, pieces, strict=True)):
        for key in grouper.add(reply, event_pieces):
            keys.append(key)
            if key is not None:
                events_by_key.setdefault(key, set()).add(index)
    # Events may split a text within a word, so the pieces of a continued text are only scanned joined.
    continued = {key for key, events in events_by_key.items() if len(events) > 1 and key != STATUS}
    return [None if key is None else TextGroupMember(key, only_joined=key in continued) for key in keys]


class StreamGrouper:
    """Finds the groups of a stream's texts, one event after the other."""

    def __init__(self) -> None:
        self._count = 0
        self._first_events: dict[str | None, int] = {}
        """The event that started each artifact."""

    def skip(self) -> None:
        """Count an event that appends to the same artifact as the event before it."""
        self._count += 1

    def add(self, reply: A2AReply, pieces: Sequence[Scannable]) -> list[Hashable | None]:
        """Return the group of each text of the next event, or None. Texts of one group are joined."""
        event, self._count = self._count, self._count + 1
        group_keys = self._map_group_keys(event, reply)
        keys: list[Hashable | None] = []
        for piece in pieces:
            member = get_text_group(piece.path)
            keys.append(None if member is None else group_keys.get(str(member.group), (event, member.group)))
        return keys

    def _map_group_keys(self, event: int, reply: A2AReply) -> dict[str, Hashable]:
        """Return the key of each text group of an event, by its path."""
        update = reply.artifact_update
        if update is not None:
            artifact_id = _get_artifact_id(update.get("artifact"))
            if not update.get("append") or artifact_id not in self._first_events:
                self._first_events[artifact_id] = event
            return {"artifact": ("artifact", artifact_id, self._first_events[artifact_id])}
        artifacts = reply.task.get("artifacts") if reply.task is not None else None
        keys: dict[str, Hashable] = {"status.message": STATUS}
        for index, artifact in enumerate(artifacts if isinstance(artifacts, list) else []):
            artifact_id = _get_artifact_id(artifact)
            self._first_events[artifact_id] = event
            keys[f"artifacts[{index}]"] = ("artifact", artifact_id, event)
        return keys


class StreamEventBuilder:
    """Builds the events of one stream for its window."""

    def __init__(self) -> None:
        self._grouper = StreamGrouper()
        self._last_texts: list[EventText] = []
        self._last_lanes: frozenset[Hashable] | None = None
        self._names = ""
        self._first_contents = ""

    def build(self, reply: A2AReply) -> StreamEvent:
        """Return the texts of the next event, and the lanes in which it keeps its place."""
        pieces = reply.pieces()
        texts = _list_texts(pieces, self._grouper.add(reply, pieces))
        self._last_texts, self._last_lanes = texts, _list_lanes(reply)
        named = self._join_names(pieces)
        if named is not None:
            texts = [*texts, named]
        return StreamEvent(texts, self._last_lanes)

    def build_chunk(self, piece: TextPiece) -> StreamEvent | None:
        """Return an event that differs from the last one only in its content. None if it must be built."""
        if self._names and len(self._first_contents) < MAX_NAMES:
            return None
        self._grouper.skip()
        if len(self._first_contents) < MAX_NAMES:
            self._first_contents = (self._first_contents + piece.text)[:MAX_NAMES]
        [content] = [one for one in self._last_texts if one.path == piece.path]
        return StreamEvent([replace(content, text=piece.text)], self._last_lanes)

    def _join_names(self, pieces: Sequence[TextPiece]) -> EventText | None:
        """Return the names of all artifacts before the first contents, if one of them has grown.

        A reader may see the names first, whatever the order of the events.
        """
        before = self._names, self._first_contents
        for piece in pieces:
            if is_content(piece) and piece.role != "key":
                if is_name(piece):
                    self._names = (self._names + piece.text)[-MAX_NAMES:]
                else:
                    self._first_contents = (self._first_contents + piece.text)[:MAX_NAMES]
        if not self._names or not self._first_contents or before == (self._names, self._first_contents):
            return None
        text = self._names + self._first_contents
        return EventText(text, can_be_masked=False, boundary=len(self._names))


def _list_texts(pieces: Sequence[TextPiece], keys: Sequence[Hashable | None]) -> list[EventText]:
    return [
        EventText(
            text=piece.text,
            continues=_list_views(piece, key),
            is_complete=key is None or key == STATUS,
            is_number=piece.role == "number",
            can_be_masked=piece.role == "value",
            path=piece.path,
        )
        for piece, key in zip(pieces, keys, strict=True)
    ]


def _list_lanes(reply: A2AReply) -> frozenset[Hashable] | None:
    if reply.status_update is not None:
        return frozenset({STATUS})
    if reply.artifact_update is not None:
        return frozenset({("artifact", _get_artifact_id(reply.artifact_update.get("artifact")))})
    return None


def _list_views(piece: TextPiece, key: Hashable | None) -> tuple[Hashable, ...]:
    """Return the joined texts that a text continues: its group, and the contents of the whole stream."""
    views: tuple[Hashable, ...] = () if key is None else (key,)
    if not is_content(piece):
        return views
    if piece.role == "key":
        return (*views, NAMED_CONTENTS)
    views = (*views, NAMED_CONTENTS, CONTENTS, ARTIFACTS if is_in_artifact(piece) else OTHER_CONTENTS)
    return views if is_file(piece) else (*views, READABLE_CONTENTS)


def _get_artifact_id(artifact: Json | None) -> str | None:
    return get_text(artifact, ARTIFACT_ID)
