"""Slack keeps the contract of every channel."""

from assent.testing.contracts.channel import ChannelContract


class TestSlack(ChannelContract):
    pass
