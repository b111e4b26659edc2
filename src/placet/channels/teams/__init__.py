"""Microsoft Teams: questions on Adaptive Cards, sent by a bot."""

from placet.channels.plugin import ChannelPlugin
from placet.channels.teams.channel import TeamsChannel, from_environment

_GUID = r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"
PLUGIN = ChannelPlugin(
    create=from_environment,
    address_variables=lambda address: {"PLACET_TEAMS_TO": address},
    user_id_pattern=f"{_GUID}:{_GUID}",
    user_id_example="tenant:person, two ids",
)

__all__ = ["PLUGIN", "TeamsChannel", "from_environment"]
