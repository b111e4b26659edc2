"""A cached property without a lock, for objects that are used in one thread only.

`functools.cached_property` takes a lock for each value on Python 3.11, and a message has twenty values.
"""

from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

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
