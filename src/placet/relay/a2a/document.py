"""A JSON document with the values that are computed from it once."""

from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar, overload

import msgspec
from msgspec import Struct

from placet.relay.a2a.dialects import Dialect, Operation
from placet.relay.a2a.json_format import Json
from placet.relay.a2a.text_extraction import TextCollector, TextPiece, UnreadableContent, replace_texts

T = TypeVar("T")


class lazy_property(Generic[T]):
    """A property that is computed once and stored in the object's `__dict__`."""

    def __init__(self, compute: Callable[[Any], T]) -> None:
        self._compute = compute
        self.__doc__ = compute.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, holder: None, owner: type) -> "lazy_property[T]": ...

    @overload
    def __get__(self, holder: object, owner: type) -> T: ...

    def __get__(self, holder: Any, owner: type) -> "T | lazy_property[T]":
        """Compute and store the value. Later reads find it in `__dict__` and do not call this method."""
        if holder is None:
            return self
        value = holder.__dict__[self._name] = self._compute(holder)
        return value


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
