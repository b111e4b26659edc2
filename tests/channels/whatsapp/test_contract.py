"""WhatsApp keeps the contract of every channel."""

from placet.testing.contracts.channel import ChannelContract, NotListeningContract


class TestWhatsApp(ChannelContract, NotListeningContract):
    pass
