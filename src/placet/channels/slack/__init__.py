"""Slack: questions with buttons under them, sent by an app's bot."""

from placet.channels.slack.channel import SlackChannel, from_environment

__all__ = ["SlackChannel", "from_environment"]
