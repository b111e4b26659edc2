"""Telegram keeps the contract of every channel."""

from placet.testing.contracts.channel import ChannelContract


class TestTelegram(ChannelContract):
    pass
