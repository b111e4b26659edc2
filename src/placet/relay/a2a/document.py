"""A parsed JSON document and its texts: what calls and replies have in common."""

from collections.abc import Sequence

import msgspec
from msgspec import Struct

from placet.relay.a2a.dialects import Dialect, Operation
from placet.relay.a2a.json_fields import Json
from placet.relay.a2a.lazy_property import lazy_property
from placet.relay.a2a.text_extraction import TextCollector, TextPiece, UnreadableContent, replace_texts

_encode = msgspec.json.Encoder().encode


class A2ADocument(Struct, frozen=True, kw_only=True, dict=True):
    """The base of calls and replies."""

    dialect: Dialect
    operation: Operation
    document: Json | None

    @lazy_property
    def _texts(self) -> TextCollector:
        return self._collect_texts()

    def _collect_texts(self) -> TextCollector:
        """Return every text that is inspected, and the content that is not text."""
        raise NotImplementedError

    def pieces(self) -> list[TextPiece]:
        """Return every text that is inspected, each with its location."""
        return [location.piece for location in self._texts.locations]

    def unreadable_paths(self) -> list[str]:
        """Return the paths of content that is not text."""
        return [content.path for content in self._texts.unreadable]

    def unreadable_content(self) -> list[UnreadableContent]:
        """Return the content that is not text, each with its path."""
        return self._texts.unreadable

    def with_texts(self, texts: Sequence[str]) -> Json:
        """Return a copy of the document with `texts` in place of its pieces, in the same order."""
        return replace_texts(self.document or {}, self._texts.locations, texts)

    @lazy_property
    def json_bytes(self) -> bytes:
        """The document as JSON, or empty bytes if there is no document."""
        return b"" if self.document is None else _encode(self.document)

    def body(self) -> bytes:
        """Return the body to forward.

        The parsed document is encoded again, so bytes that were not inspected are not forwarded.
        """
        return self.json_bytes
