"""The interface to the place where the rules of a review type run: this process, or one with limits."""

from collections.abc import Callable
from typing import Any, Protocol, TypeVar

ResultT = TypeVar("ResultT")


class RulesEvaluator(Protocol):
    """Runs a pure method of a review type that evaluates a schema of somebody else."""

    async def run(self, method: Callable[..., ResultT], *arguments: Any) -> ResultT:
        """Return or raise what the method does.

        Raises InvalidSubmission if it takes too long or too much memory, and Unavailable if it cannot run.
        """
        ...


class InProcessEvaluator:
    """Runs the method in this process, without limits of its own."""

    async def run(self, method: Callable[..., ResultT], *arguments: Any) -> ResultT:
        """Return or raise what the method does."""
        return method(*arguments)
