"""Our own loop under the contract of every framework."""

from typing import ClassVar

from placet.testing.approvals import Harness
from placet.testing.contracts.tool_approval import ToolApprovalContract
from tests.hook.own_loop import OwnLoop


class TestOwnLoop(ToolApprovalContract):
    """The contract, driven by our own agent."""

    harness: ClassVar[type[Harness]] = OwnLoop
