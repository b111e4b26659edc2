"""E-mail: the question with its review link, sent over SMTP. Answers are given on the review page."""

from placet.channels.email.channel import EmailChannel, from_environment
from placet.channels.plugin import ChannelPlugin

PLUGIN = ChannelPlugin(
    create=from_environment,
    address_variables=lambda address: {"PLACET_EMAIL_TO": address},
)

__all__ = ["PLUGIN", "EmailChannel", "from_environment"]
