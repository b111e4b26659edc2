"""Slack: questions with buttons, posted by a bot."""

from placet.channels.plugin import ChannelPlugin
from placet.channels.slack.channel import SlackChannel, from_environment

PLUGIN = ChannelPlugin(
    create=from_environment,
    address_variables=lambda address: {"PLACET_SLACK_CHANNEL": address},
    can_listen=True,
    listen_variable="PLACET_SLACK_APP_TOKEN",
    user_id_pattern=r"[A-Z0-9]+:[A-Z0-9]+",
    user_id_example="T…:U…, the workspace and the person",
)

__all__ = ["PLUGIN", "SlackChannel", "from_environment"]
