"""Discord: questions with buttons under them, put into a channel or a direct message by a bot."""

from placet.channels.discord.channel import DiscordChannel, from_environment

__all__ = ["DiscordChannel", "from_environment"]
