"""Pages of a list: numbered from 0 with a size, or up to a limit before a given id."""

from collections.abc import Callable, Sequence
from typing import Annotated, Generic, TypeVar

from msgspec import Meta, Struct
from msgspec.structs import asdict

T = TypeVar("T")
U = TypeVar("U")
DEFAULT_SIZE, MAX_SIZE = 20, 200
MAX_NUMBER = 1_000_000
MAX_LIMIT = 200
PageLimit = Annotated[int, Meta(ge=1, le=MAX_LIMIT, description="How many to list. Default: 50.")]


class Page(Struct, Generic[T], frozen=True, kw_only=True, rename="camel"):
    """One page of a list, with its number and the size of the whole list."""

    content: tuple[T, ...]
    total_elements: int
    total_pages: int
    number: int
    size: int
    first: bool
    last: bool

    def map(self, make: Callable[[T], U]) -> "Page[U]":
        """Return the same page with `make` applied to each element."""
        return Page(**{**asdict(self), "content": tuple(make(one) for one in self.content)})


class PageQuery(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """The page that a query asks for; queries with filters inherit from it."""

    page: Annotated[int, Meta(ge=0, le=MAX_NUMBER, description="Counted from 0.")] = 0
    size: Annotated[int, Meta(ge=1, le=MAX_SIZE, description="The number of elements per page.")] = (
        DEFAULT_SIZE
    )

    def make_page(self, content: Sequence[T], total: int) -> Page[T]:
        """Return the page with this content, out of `total` elements."""
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

    def cut_page(self, everything: Sequence[T]) -> Page[T]:
        """Return the requested page of a complete list."""
        start = self.page * self.size
        return self.make_page(everything[start : start + self.size], len(everything))
