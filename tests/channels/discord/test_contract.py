"""Discord keeps the contract of every channel."""

from placet.testing.contracts.channel import ChannelContract, NotListeningContract


class TestDiscord(ChannelContract, NotListeningContract):
    pass
