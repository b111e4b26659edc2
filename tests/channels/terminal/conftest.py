"""A terminal channel on a screen that remembers."""

import pytest

from placet.channels.terminal import TerminalChannel
from placet.testing.clock import DAYBREAK
from tests.channels.terminal.screens import Screen, TerminalHarness


@pytest.fixture
def harness() -> TerminalHarness:
    screen = Screen()
    channel = TerminalChannel(
        screen=screen, user="ada", widest=400, columns=lambda: 400, clock=lambda: DAYBREAK
    )
    return TerminalHarness(screen, channel)
