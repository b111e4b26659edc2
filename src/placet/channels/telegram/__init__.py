"""Telegram: questions with buttons under them, sent by a bot."""

from placet.channels.telegram.channel import TelegramChannel, from_environment

__all__ = ["TelegramChannel", "from_environment"]
