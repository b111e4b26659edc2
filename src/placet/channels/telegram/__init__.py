"""Telegram: questions with inline buttons, sent by a bot."""

from placet.channels.plugin import ChannelPlugin
from placet.channels.telegram.channel import TelegramChannel, from_environment

PLUGIN = ChannelPlugin(
    create=from_environment,
    address_variables=lambda address: {"PLACET_TELEGRAM_CHAT_ID": address},
    can_listen=True,
    listen_variable="PLACET_TELEGRAM_BOT_TOKEN",
    user_id_pattern=r"\d+",
    user_id_example="numbers such as 4711, not @names",
)

__all__ = ["PLUGIN", "TelegramChannel", "from_environment"]
