"""WhatsApp: questions with reply buttons, sent through the Cloud API."""

from placet.channels.whatsapp.channel import WhatsAppChannel, from_environment

__all__ = ["WhatsAppChannel", "from_environment"]
