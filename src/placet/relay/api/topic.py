"""How an API says which of its methods answers at which address: by a decorator on the method itself."""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, TypedDict, TypeVar, Unpack

from msgspec import Struct

from placet.errors import PlacetError
from placet.relay.api.route import ApiRoute

Handle = TypeVar("Handle", bound=Callable[..., Awaitable[Any]])
ANSWERS = "_answers"
"""Where a method remembers its address."""


class Described(TypedDict, total=False):
    """What else an address says of itself; see `ApiRoute`."""

    about: str
    besides: tuple[str, ...]
    query: type[Struct]
    repeats: tuple[str, ...]
    takes: Any
    gives: Any
    media: str
    errors: tuple[type[PlacetError], ...]


class Topic(Struct, frozen=True, kw_only=True):
    """Addresses under one heading: looking needs one permission, and changing another."""

    tag: str
    read: str
    write: str

    def get(self, path: str, name: str, **more: Unpack[Described]) -> Callable[[Handle], Handle]:
        """Answers GET."""
        return self._answers("GET", path, name, self.read, 200, more)

    def ask(self, path: str, name: str, **more: Unpack[Described]) -> Callable[[Handle], Handle]:
        """Answers POST, for a question that is too long for a query."""
        return self._answers("POST", path, name, self.read, 200, more)

    def post(self, path: str, name: str, **more: Unpack[Described]) -> Callable[[Handle], Handle]:
        """Answers POST."""
        return self._answers("POST", path, name, self.write, 200, more)

    def create(self, path: str, name: str, **more: Unpack[Described]) -> Callable[[Handle], Handle]:
        """Answers POST with something new."""
        return self._answers("POST", path, name, self.write, 201, more)

    def put(self, path: str, name: str, **more: Unpack[Described]) -> Callable[[Handle], Handle]:
        """Answers PUT."""
        return self._answers("PUT", path, name, self.write, 200, more)

    def delete(self, path: str, name: str, **more: Unpack[Described]) -> Callable[[Handle], Handle]:
        """Answers DELETE, with nothing."""
        return self._answers("DELETE", path, name, self.write, 204, more)

    def _answers(
        self, method: str, path: str, name: str, permission: str, status: int, more: Described
    ) -> Callable[[Handle], Handle]:
        route = partial(
            ApiRoute,
            method=method,
            path=path,
            name=name,
            permission=permission,
            status=status,
            tag=self.tag,
            **more,
        )

        def declare(handle: Handle) -> Handle:
            setattr(handle, ANSWERS, route)
            return handle

        return declare


class Api:
    """What inherits this answers at the addresses that its methods are decorated with."""

    def routes(self) -> tuple[ApiRoute, ...]:
        """Every address of it, in the order in which its methods are written."""
        made = ((name, getattr(method, ANSWERS, None)) for name, method in vars(type(self)).items())
        return tuple(route(handle=getattr(self, name)) for name, route in made if route is not None)
