"""Values that never change: a changed one is a new one, made without going through its constructor."""

from collections.abc import Callable
from dataclasses import fields
from operator import attrgetter
from typing import Any, NamedTuple, TypeVar

T = TypeVar("T")


class _Kind(NamedTuple):
    read: Callable[[Any], tuple[Any, ...]]
    write: tuple[Callable[[Any, Any], None], ...]
    places: dict[str, int]
    check: Callable[[Any], None] | None


_known: dict[type, _Kind] = {}


def replace(value: T, **changes: Any) -> T:
    """As `dataclasses.replace`, for frozen classes with slots, in half the time."""
    kind = type(value)
    read, write, places, check = _known.get(kind) or _learn(kind)
    members = list(read(value))
    try:
        for name, member in changes.items():
            members[places[name]] = member
    except KeyError as error:
        raise TypeError(f"{kind.__name__} has no {error}.") from None
    made = object.__new__(kind)
    for put, member in zip(write, members, strict=True):
        put(made, member)
    if check is not None:
        check(made)
    return made


def _learn(kind: Any) -> _Kind:
    names = [field.name for field in fields(kind)]
    _known[kind] = _Kind(
        read=attrgetter(*names),
        write=tuple(getattr(kind, name).__set__ for name in names),
        places={name: place for place, name in enumerate(names)},
        check=getattr(kind, "__post_init__", None),
    )
    return _known[kind]
