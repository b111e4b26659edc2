"""The terminal keeps the contract of every channel, as far as one can be told about things there."""

from placet.testing.contracts.channel import SendingContract


class TestTerminal(SendingContract):
    pass
