"""Generators that yield effects: a driver performs each effect and reports how it ended."""

from collections.abc import Generator, Iterator
from typing import Any, Generic, TypeVar

EffectT = TypeVar("EffectT")
OutcomeT = TypeVar("OutcomeT")


class EffectRun(Generic[EffectT, OutcomeT]):
    """Iterates over the effects; `outcome` is what the generator returned at the end.

    An effect that the driver reports nothing about has the result None.
    """

    def __init__(self, steps: Generator[EffectT, Any, OutcomeT]) -> None:
        self._steps = steps
        self._result: Any = None
        self._exception: BaseException | None = None
        self._outcome: Any = None

    def set_result(self, result: Any) -> None:
        """Send this into the generator before the next effect."""
        self._result = result

    def set_exception(self, exception: BaseException) -> None:
        """Throw this into the generator before the next effect."""
        self._exception = exception

    def __iter__(self) -> Iterator[EffectT]:
        return self

    def __next__(self) -> EffectT:
        result, exception = self._result, self._exception
        self._result, self._exception = None, None
        try:
            return self._steps.send(result) if exception is None else self._steps.throw(exception)
        except StopIteration as end:
            self._outcome = end.value
            raise

    @property
    def outcome(self) -> OutcomeT:
        """What the generator returned; None before its end."""
        outcome: OutcomeT = self._outcome
        return outcome
