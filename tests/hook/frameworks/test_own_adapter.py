"""The adapter of the guide "Write your own adapter" under the contract of every adapter."""

from typing import ClassVar

from placet.testing.approvals import Harness
from placet.testing.contracts.tool_approval import ToolApprovalContract
from tests.hook.frameworks.own_adapter_harness import SNIPPET, LittleHarness

MAX_ADAPTER_LINES = 34


class TestOwnAdapter(ToolApprovalContract):
    """The contract, driven by the adapter of the guide."""

    harness: ClassVar[type[Harness]] = LittleHarness


def test_the_adapter_is_as_short_as_the_guide_says() -> None:
    program = SNIPPET.read_text("utf-8")
    adapter = program.partition("class LittleApproval:")[2].partition("\n# What your users write\n")[0]
    lines = [line for line in adapter.splitlines() if line.strip()]
    assert len(lines) <= MAX_ADAPTER_LINES
