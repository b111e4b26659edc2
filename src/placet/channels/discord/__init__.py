"""Discord: questions with buttons, sent by a bot to a channel or as direct messages."""

from placet.channels.discord.channel import DiscordChannel, from_environment
from placet.channels.plugin import ChannelPlugin

USER_PREFIX = "user/"


def _list_address_variables(address: str) -> dict[str, str]:
    """Return where messages go: the id of a channel, or `user/` and the id of a person."""
    if not address.startswith(USER_PREFIX):
        return {"PLACET_DISCORD_CHANNEL_ID": address, "PLACET_DISCORD_USER_ID": ""}
    return {"PLACET_DISCORD_CHANNEL_ID": "", "PLACET_DISCORD_USER_ID": address.removeprefix(USER_PREFIX)}


PLUGIN = ChannelPlugin(
    create=from_environment,
    address_variables=_list_address_variables,
    user_id_pattern=r"\d+",
    user_id_example="numbers such as 80351110224678912, not names",
)

__all__ = ["PLUGIN", "DiscordChannel", "from_environment"]
