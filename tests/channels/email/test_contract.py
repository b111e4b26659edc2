"""E-mail keeps the contract of every channel, as far as it has any buttons: none."""

from placet.testing.contracts.channel import NotListeningContract, SendingContract


class TestEmail(SendingContract, NotListeningContract):
    pass
