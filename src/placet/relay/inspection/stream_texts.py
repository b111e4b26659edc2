"""Group the texts of a stream: which texts continue each other, and which events keep their order."""

from collections.abc import Hashable, Sequence

from placet.ports.detector import Scannable
from placet.relay.a2a.json_format import Json, get_text
from placet.relay.a2a.reply import A2AReply
from placet.relay.a2a.stream_merging import ARTIFACT_ID
from placet.relay.a2a.text_extraction import TextPiece
from placet.relay.inspection.stream_window import EventText, StreamEvent
from placet.relay.policy.text_joining import TextGroupMember, get_text_group, is_content

STATUS = "status"
"""The group of all status messages. Each of them is also inspected by itself."""
CONTENTS, NAMED_CONTENTS = "contents", "contents with names of members"
"""All contents of the stream in their order."""


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


def build_stream_event(reply: A2AReply, grouper: StreamGrouper) -> StreamEvent:
    """Return the texts of the next event of a stream, and the lanes in which it keeps its place."""
    pieces = reply.pieces()
    texts = [
        EventText(
            text=piece.text,
            continues=_list_views(piece, key),
            is_complete=key is None or key == STATUS,
            is_number=piece.role == "number",
            can_be_masked=piece.role == "value",
            path=piece.path,
        )
        for piece, key in zip(pieces, grouper.add(reply, pieces), strict=True)
    ]
    lanes: frozenset[Hashable] | None = None
    if reply.status_update is not None:
        lanes = frozenset({STATUS})
    elif reply.artifact_update is not None:
        lanes = frozenset({("artifact", _get_artifact_id(reply.artifact_update.get("artifact")))})
    return StreamEvent(texts, lanes)


def _list_views(piece: TextPiece, key: Hashable | None) -> tuple[Hashable, ...]:
    """Return the joined texts that a text continues: its group, and the contents of the whole stream."""
    views: tuple[Hashable, ...] = () if key is None else (key,)
    if is_content(piece):
        views += (NAMED_CONTENTS,) if piece.role == "key" else (NAMED_CONTENTS, CONTENTS)
    return views


def _get_artifact_id(artifact: Json | None) -> str | None:
    return get_text(artifact, ARTIFACT_ID)
