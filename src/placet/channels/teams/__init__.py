"""Microsoft Teams: questions on Adaptive Cards, sent by a bot."""

from placet.channels.teams.channel import TeamsChannel, from_environment

__all__ = ["TeamsChannel", "from_environment"]
