"""What is worked out when it is first asked for, and kept with its object; nothing here is shared by threads.

`functools.cached_property` takes a lock for each value on Python 3.11, which a message has twenty of.
"""

from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

T = TypeVar("T")


class lazy_property(Generic[T]):
    """A property that is computed once and stored in the object's `__dict__`."""

    def __init__(self, make: Callable[[Any], T]) -> None:
        self._make = make
        self.__doc__ = make.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, holder: None, owner: type) -> "lazy_property[T]": ...

    @overload
    def __get__(self, holder: object, owner: type) -> T: ...

    def __get__(self, holder: Any, owner: type) -> "T | lazy_property[T]":
        """The value; from then on it stands in the object itself, and this is not called again."""
        if holder is None:
            return self
        value = holder.__dict__[self._name] = self._make(holder)
        return value
