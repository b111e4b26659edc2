"""Pages of a list, counted from 0, in the words of the wire."""

from collections.abc import Callable, Sequence
from typing import Annotated, Generic, TypeVar

from msgspec import Meta, Struct
from msgspec.structs import asdict

T = TypeVar("T")
U = TypeVar("U")
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

    def map(self, make: Callable[[T], U]) -> "Page[U]":
        """The same page, with what is made of each."""
        return Page(**{**asdict(self), "content": tuple(make(one) for one in self.content)})


class PageQuery(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """Which page a query asks for; queries that say more inherit it."""

    page: Annotated[int, Meta(ge=0, le=MAX_NUMBER, description="Counted from 0.")] = 0
    size: Annotated[int, Meta(ge=1, le=MAX_SIZE, description="How many a page holds.")] = DEFAULT_SIZE

    def of(self, content: Sequence[T], total: int) -> Page[T]:
        """The page with this content, out of so many."""
        pages = -(-total // self.size)
        return Page(
            content=tuple(content),
            total_elements=total,
            total_pages=pages,
            number=self.page,
            size=self.size,
            first=self.page == 0,
            last=self.page >= pages - 1,
        )

    def cut(self, everything: Sequence[T]) -> Page[T]:
        """The page of a list that is all here."""
        start = self.page * self.size
        return self.of(everything[start : start + self.size], len(everything))
