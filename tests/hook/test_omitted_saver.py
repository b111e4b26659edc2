"""A saver must be named: waiting calls are never kept in memory only because nobody said otherwise."""

from typing import Any

import pytest

from placet.hook import HumanInTheLoopHook, MemorySaver, ReactAgent, requires_approval
from tests.hook.scripted_model import Office, Scripted

GATED = HumanInTheLoopHook({"execute_sql": True})


@pytest.mark.parametrize("options", [{}, {"saver": None}, {"hooks": [GATED]}])
def test_an_agent_without_a_saver_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"saver: say where .* MemorySaver\(\) loses them"):
        ReactAgent("clerk", Scripted("done"), Office().tools, **options)


def test_memory_is_used_where_it_is_meant() -> None:
    ReactAgent("clerk", Scripted("done"), Office().tools, [GATED], MemorySaver())


def test_a_function_with_a_key_and_without_a_saver_is_refused() -> None:
    with pytest.raises(ValueError, match="saver: say where"):
        requires_approval(key=lambda call: "k")


def test_a_function_without_a_key_needs_no_saver() -> None:
    @requires_approval(ask=lambda waiting: waiting.approve_all())
    def pay(cents: int) -> int:
        return cents

    assert pay(5) == 5
