"""Teams keeps the contract of every channel."""

from placet.testing.contracts.channel import ChannelContract, NotListeningContract


class TestTeams(ChannelContract, NotListeningContract):
    pass
