"""Check the schemas of a draft with limits on time and memory, before its case exists."""

import asyncio
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any

import msgspec

from placet.cases.review_rules import ReviewRules
from placet.desk.evaluation_turns import EvaluationTurns
from placet.errors import InvalidSubmission, ValidationFailed

MAX_REMEMBERED = 10_000


class SchemaCheck:
    """Checks each schema once, one at a time. An agent sends the same few schemas with every case."""

    def __init__(self, turns: EvaluationTurns) -> None:
        self._turns = turns
        self._usable: OrderedDict[bytes, None] = OrderedDict()
        self._turn = asyncio.Lock()

    async def check(
        self, owner: str | None, rules: ReviewRules, schemas: Sequence[tuple[str, Mapping[str, Any]]]
    ) -> None:
        """Raise ValidationFailed if one of these schemas, each with its path, cannot be used."""
        for path, schema in schemas:
            digest = sha256(msgspec.json.encode([rules.name, schema], order="deterministic")).digest()
            if digest in self._usable:
                self._usable.move_to_end(digest)
                continue
            async with self._turns.lock_owner(owner), self._turn:
                await self._evaluate(rules, path, schema)
            self._usable[digest] = None
            if len(self._usable) > MAX_REMEMBERED:
                self._usable.popitem(last=False)

    async def _evaluate(self, rules: ReviewRules, path: str, schema: Mapping[str, Any]) -> None:
        try:
            await self._turns.evaluator.run(rules.check_schema, path, schema)
        except InvalidSubmission:  # the evaluator stopped it
            raise ValidationFailed(
                f"{path} cannot be used: checking it takes too long or too much memory.", path=path
            ) from None
