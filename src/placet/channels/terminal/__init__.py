"""The terminal: questions on standard error, answered by typing a number."""

from placet.channels.plugin import ChannelPlugin
from placet.channels.terminal.channel import TerminalChannel, from_environment, get_login_name

PLUGIN = ChannelPlugin(
    create=from_environment,
    can_listen=True,
    default_answerers=lambda: frozenset({get_login_name()}),
)

__all__ = ["PLUGIN", "TerminalChannel", "from_environment"]
