"""The terminal that the agent runs in: the question on the screen, and answers typed under it."""

from placet.channels.terminal.channel import TerminalChannel, from_environment

__all__ = ["TerminalChannel", "from_environment"]
