"""Discord: questions with buttons, sent by a bot to a channel or as direct messages."""

from placet.channels.discord.channel import DiscordChannel, from_environment
from placet.channels.plugin import ChannelPlugin

PLUGIN = ChannelPlugin(
    create=from_environment,
    user_id_pattern=r"\d+",
    user_id_example="numbers such as 80351110224678912, not names",
)

__all__ = ["PLUGIN", "DiscordChannel", "from_environment"]
