"""Recognize events of a stream that differ only in their text, so that most of them need not be parsed.

An agent that writes word by word sends the same event again and again, with another word. A template is made
from one parsed event. It recognizes the others by their bytes, and builds them with other ids.
"""

import re
from collections.abc import Sequence

import msgspec
from msgspec import Struct

from placet.relay.a2a.json_format import Json
from placet.relay.a2a.reply import A2AReply
from placet.relay.a2a.text_extraction import TextPiece, has_no_file

_TEXT_MEMBER = re.compile(rb'"text":\s*("(?:[^"\\]|\\.)*")')
_PROBE = "placet: the text of a chunk \u2063"
_decode = msgspec.json.Decoder().decode
_decode_text = msgspec.json.Decoder(str).decode
_encode = msgspec.json.Encoder().encode
_PROBE_JSON = _encode(_PROBE)


class ChunkTemplate(Struct, frozen=True):
    """An event that appends one text to an artifact, without the text."""

    reply: A2AReply
    """The event that the template was made from."""
    piece: TextPiece
    head: bytes
    tail: bytes

    def read_text(self, event: bytes) -> str | None:
        """Return the text of an event that is otherwise the same, or None for any other event."""
        head, tail = self.head, self.tail
        if not event.startswith(head) or not event.endswith(tail) or len(event) < len(head) + len(tail) + 3:
            return None
        content = event[len(head) : -len(tail)]
        if b"\n" in content or b"\r" in content:
            return None
        try:
            text = _decode_text(content)
        except (msgspec.DecodeError, UnicodeDecodeError):
            return None
        return text if text and has_no_file(text) else None

    def build_piece(self, text: str) -> TextPiece:
        """Return the only content of an event, or of several in a row, with this text."""
        return TextPiece(self.piece.path, text, self.piece.role)


class ChunkEncoder(Struct, frozen=True):
    """Builds the events of a template as the caller gets them."""

    head: bytes
    tail: bytes

    def encode(self, text: str) -> bytes:
        """Return the event with this text."""
        return b"%b%b%b" % (self.head, _encode(text), self.tail)


def build_template(event: bytes, reply: A2AReply, contents: Sequence[TextPiece]) -> ChunkTemplate | None:
    """Return the template of an event, or None if other events cannot be recognized by it.

    `contents` are the texts of the event that are content, not ids.
    """
    update = reply.artifact_update
    if update is None or update.get("append") is not True or len(contents) != 1 or reply.error is not None:
        return None
    [piece] = contents
    if piece.role != "value" or not piece.path.endswith(".text") or reply.unreadable_content():
        return None
    if not event.startswith(b"data: {") or not event.endswith(b"}\n\n") or event.count(b"\n") != 2:
        return None
    if b"\r" in event or piece.text == _PROBE:
        return None
    members = list(_TEXT_MEMBER.finditer(event))
    if len(members) != 1:
        return None
    start, end = members[0].span(1)
    template = ChunkTemplate(reply, piece, event[:start], event[end:])
    probed = _decode_data(template.head + _PROBE_JSON + template.tail)
    return template if probed == _replace_text(reply, piece) else None


def build_encoder(template: ChunkTemplate, rewritten: A2AReply) -> ChunkEncoder | None:
    """Return the encoder for a template whose event the caller gets as `rewritten`. None if there is none."""
    event = b"data: " + _encode(_replace_text(rewritten, template.piece)) + b"\n\n"
    if event.count(_PROBE_JSON) != 1:
        return None
    head, tail = event.split(_PROBE_JSON)
    return ChunkEncoder(head, tail)


def _decode_data(event: bytes) -> object:
    try:
        return _decode(event[len(b"data: ") :])
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def _replace_text(reply: A2AReply, piece: TextPiece) -> Json:
    """Return the document of a reply with the probe in place of this text."""
    return reply.with_texts([_PROBE if one.path == piece.path else one.text for one in reply.pieces()])
