"""Let principals take turns in the evaluator, which runs one request after the other."""

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar
from weakref import WeakValueDictionary

from placet.ports.rules_evaluator import RulesEvaluator

ResultT = TypeVar("ResultT")


class EvaluationTurns:
    """Runs rules in the evaluator, one request of each principal at a time.

    So a principal with many requests delays another's by one request of its own.
    """

    def __init__(self, evaluator: RulesEvaluator) -> None:
        self.evaluator = evaluator
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def lock_owner(self, owner: str | None) -> asyncio.Lock:
        """Return the lock of this principal. Hold it while its request waits and runs."""
        return self._locks.setdefault(owner or "", asyncio.Lock())

    async def run(self, owner: str | None, method: Callable[..., ResultT], *arguments: Any) -> ResultT:
        """Return or raise what the method does, as `RulesEvaluator.run`."""
        async with self.lock_owner(owner):
            return await self.evaluator.run(method, *arguments)
