"""WhatsApp: questions with reply buttons, sent through the Cloud API."""

from placet.channels.plugin import ChannelPlugin
from placet.channels.whatsapp.channel import WhatsAppChannel, from_environment

PLUGIN = ChannelPlugin(
    create=from_environment,
    address_variables=lambda address: {"PLACET_WHATSAPP_TO": address},
    tracks_delivery=True,
    user_id_pattern=r"\d+|[A-Z]{2}\.\w+",
    user_id_example="digits with the country code and without +",
)

__all__ = ["PLUGIN", "WhatsAppChannel", "from_environment"]
