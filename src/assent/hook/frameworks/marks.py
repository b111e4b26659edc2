"""The marks before and after a call: those of calls that begin or end together are kept in one write."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from assent.hook.gate import ApprovalGate, Begun


@dataclass(slots=True)
class _Batch:
    marks: dict[str, Any]
    kept: asyncio.Task[dict[str, Any]]


class Marks:
    """Marks calls at a gate, on an event loop; whoever comes before the loop turns comes along."""

    def __init__(self, gate: ApprovalGate) -> None:
        self._gate = gate
        self._batches: dict[Any, _Batch] = {}

    async def begin(self, key: str, call_id: str, *, repeatable: bool) -> Begun:
        """As the gate's `begin`."""
        found = await self._together(self._gate.begin_all, key, call_id, repeatable)
        if isinstance(found, Exception):
            raise found
        return found  # type: ignore[no-any-return]

    async def finish(self, key: str, call_id: str, result: str) -> None:
        """As the gate's `finish`."""
        await self._together(self._gate.finish_all, key, call_id, result)

    async def _together(self, keep: Callable[..., dict[str, Any]], key: str, call_id: str, mark: Any) -> Any:
        name = (asyncio.get_running_loop(), keep.__name__, key)
        batch = self._batches.get(name)
        if batch is None:
            batch = self._batches[name] = _Batch({}, asyncio.create_task(self._keep(keep, name, key)))
        batch.marks[call_id] = mark
        # One of the calls may be cancelled while the others go on.
        return (await asyncio.shield(batch.kept))[call_id]

    async def _keep(self, keep: Callable[..., dict[str, Any]], name: Any, key: str) -> dict[str, Any]:
        return await self._gate.aside(keep, key, self._batches.pop(name).marks)
