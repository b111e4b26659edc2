"""Values that never change: a changed one is a new one, made without going through its constructor."""

from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")
_new, _set = object.__new__, object.__setattr__
_checks: dict[type, Callable[[Any], None] | None] = {}


def build_frozen(kind: type[T], members: dict[str, Any]) -> T:
    """A value with these members, all of them; they are taken as they are, and so is the dict.

    For frozen classes without slots: what would take a call for each member takes one for all.
    """
    value = _new(kind)
    _set(value, "__dict__", members)
    return value


def replace(value: T, **changes: Any) -> T:
    """As `dataclasses.replace`, for frozen classes without slots, in a fraction of the time."""
    kind = type(value)
    before = value.__dict__
    members = before | changes
    if len(members) != len(before):
        raise TypeError(f"{kind.__name__} has no {', '.join(changes.keys() - before.keys())}.")
    changed = build_frozen(kind, members)
    try:
        check = _checks[kind]
    except KeyError:
        check = _checks[kind] = getattr(kind, "__post_init__", None)
    if check is not None:
        check(changed)
    return changed
