"""Schemas are evaluated one at a time, and principals take turns."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from placet.desk.evaluation_turns import EvaluationTurns
from placet.desk.schema_check import SchemaCheck
from placet.reviews.registry import SAMPLES

pytestmark = pytest.mark.anyio

TOOL_CALLS = SAMPLES["tool_calls"]


class RecordingEvaluator:
    """Records the titles of the schemas it checks, and answers once the test lets it."""

    def __init__(self) -> None:
        self.may_answer = asyncio.Event()
        self.titles: list[str] = []

    async def run(self, method: Callable[..., Any], *arguments: Any) -> Any:
        await self.may_answer.wait()
        self.titles.append(arguments[1]["title"])
        return method(*arguments)


def check(schemas: SchemaCheck, owner: str | None, *titles: str) -> "asyncio.Task[None]":
    calls = [{"id": title, "name": "send", "arguments": {}, "schema": {"title": title}} for title in titles]
    return asyncio.create_task(
        schemas.check(owner, TOOL_CALLS, TOOL_CALLS.list_schemas({"tool_calls": calls}))
    )


async def test_a_principal_with_many_schemas_does_not_delay_those_of_another() -> None:
    evaluator = RecordingEvaluator()
    schemas = SchemaCheck(EvaluationTurns(evaluator))
    checking = [check(schemas, "acme", f"a{number}", f"b{number}") for number in range(20)]
    checking += [check(schemas, "other", "of another"), check(schemas, None, "of nobody")]
    await asyncio.sleep(0)  # all of them wait for their turn
    evaluator.may_answer.set()
    await asyncio.gather(*checking)
    assert {"of another", "of nobody"} <= set(evaluator.titles[:4])
    assert len(evaluator.titles) == 42


async def test_many_answers_for_one_principal_do_not_delay_those_for_another() -> None:
    order: list[str] = []

    class ThreeTurns:
        async def run(self, method: Callable[..., Any], *arguments: Any) -> Any:
            for _ in range(3):
                await asyncio.sleep(0)
            return method(*arguments)

    turns = EvaluationTurns(ThreeTurns())
    owners = ["acme"] * 20 + ["other", None]
    await asyncio.gather(*(turns.run(owner, order.append, owner or "nobody") for owner in owners))
    assert {"other", "nobody"} <= set(order[:4])
    assert len(order) == 22
