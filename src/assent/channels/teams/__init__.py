"""Microsoft Teams: questions on Adaptive Cards, sent by a bot."""

from assent.channels.teams.channel import TeamsChannel, from_environment

__all__ = ["TeamsChannel", "from_environment"]
