"""Pages of a list, counted from 0, in the words of the wire."""

from collections.abc import Mapping, Sequence
from typing import Generic, TypeVar

from msgspec import Struct

from assent.errors import ValidationFailed

T = TypeVar("T")
DEFAULT_SIZE, MAX_SIZE = 20, 200
MAX_NUMBER = 1_000_000


class Page(Struct, Generic[T], frozen=True, kw_only=True, rename="camel"):
    """Some of a list, which of its pages they are, and how many there are in all."""

    content: tuple[T, ...]
    total_elements: int
    total_pages: int
    number: int
    size: int
    first: bool
    last: bool


class Paging(Struct, frozen=True, kw_only=True):
    """Which page is asked for."""

    number: int = 0
    size: int = DEFAULT_SIZE

    def of(self, content: Sequence[T], total: int) -> Page[T]:
        """The page with this content, out of so many."""
        pages = -(-total // self.size)
        return Page(
            content=tuple(content),
            total_elements=total,
            total_pages=pages,
            number=self.number,
            size=self.size,
            first=self.number == 0,
            last=self.number >= pages - 1,
        )

    def cut(self, everything: Sequence[T]) -> Page[T]:
        """The page of a list that is all here."""
        start = self.number * self.size
        return self.of(everything[start : start + self.size], len(everything))


def read_paging(query: Mapping[str, str]) -> Paging:
    """`page` and `size` of a query; raises ValidationFailed for what is no such number."""
    return Paging(
        number=_number(query, "page", default=0, least=0, most=MAX_NUMBER),
        size=_number(query, "size", default=DEFAULT_SIZE, least=1, most=MAX_SIZE),
    )


def _number(query: Mapping[str, str], name: str, *, default: int, least: int, most: int) -> int:
    text = query.get(name)
    if text is None:
        return default
    if not (text.isascii() and text.isdigit() and len(text) < 8 and least <= int(text) <= most):
        raise ValidationFailed(f"{name} is a number from {least} to {most}.", path=name)
    return int(text)
