"""The messengers by name. Opening one imports its folder and no other."""

import re
from collections.abc import Mapping
from importlib import import_module

from placet.channels.plugin import ChannelPlugin
from placet.errors import SettingsError
from placet.ports.channel import Channel

CHANNEL_NAMES = (
    "telegram",
    "slack",
    "discord",
    "whatsapp",
    "teams",
    "email",
    "terminal",
)
MESSENGER_NAMES = tuple(name for name in CHANNEL_NAMES if name != "terminal")
"""The channels of a program whose standard input and output belong to its client."""


def open_channel(name: str, environ: Mapping[str, str]) -> Channel:
    """Return the channel with this name; raise SettingsError naming the settings that are missing."""
    return _find_plugin(name).create(environ)


def open_address(address: str, environ: Mapping[str, str]) -> Channel:
    """Return the channel that writes to `channel:address`; raise SettingsError for an invalid one."""
    name, place = split_address(address)
    plugin = _find_plugin(name)
    if plugin.address_variables is None or not place:
        raise SettingsError(f"{address!r} is not an address. Write it as email:ada@acme.example.")
    return plugin.create({**environ, **plugin.address_variables(place)})


def split_address(address: str) -> tuple[str, str]:
    """Return the channel and the place of `channel:address`."""
    name, _, place = address.partition(":")
    return name, place


def check_answerer(user: str) -> None:
    """Raise SettingsError unless this is `channel:id`, a user of a messenger with buttons."""
    name, user_id = split_address(user)
    plugin = _find_plugin(name)
    if not user_id or not re.fullmatch(plugin.user_id_pattern, user_id, re.ASCII):
        example = f" Write {plugin.user_id_example}." if plugin.user_id_example else ""
        raise SettingsError(f"{user[:100]!r} is not a user id in {name}.{example}")


def tracks_delivery(name: str) -> bool:
    """Return whether each of its channels must see every webhook request."""
    return _find_plugin(name).tracks_delivery


def can_listen(name: str, environ: Mapping[str, str]) -> bool:
    """Return whether interactions reach a program without a public address: listening is configured."""
    plugin = _find_plugin(name)
    needed = plugin.listen_variable
    return plugin.can_listen and (needed is None or bool(environ.get(needed)))


def read_answerers(name: str, environ: Mapping[str, str]) -> frozenset[str]:
    """Return the user ids in PLACET_<NAME>_ANSWERERS: the people who may answer with a button.

    Raise SettingsError if one of them is not an id of this platform.
    """
    plugin = _find_plugin(name)
    variable = f"PLACET_{name.upper()}_ANSWERERS"
    user_ids = frozenset(environ.get(variable, "").replace(",", " ").split())
    for user_id in sorted(user_ids):
        if not re.fullmatch(plugin.user_id_pattern, user_id, re.ASCII):
            raise SettingsError(
                f"{variable}: {user_id[:80]!r} is not a user id in {name}. Write {plugin.user_id_example}."
            )
    return user_ids or plugin.default_answerers()


def explain_missing_buttons(name: str, environ: Mapping[str, str]) -> str | None:
    """Return why the people who may answer get no buttons; None if they do, or if nobody is listed."""
    if can_listen(name, environ) or not read_answerers(name, environ):
        return None
    plugin = _find_plugin(name)
    if plugin.can_listen:
        return (
            f"Set {plugin.listen_variable} to have buttons in {name}; until then people answer by the link."
        )
    return (
        f"There are no buttons in {name} from here: it reports button presses only to a public HTTPS"
        " address, so people answer by the link. For buttons, run an agent that has one; the how-to has a"
        " whole program."
    )


def _find_plugin(name: str) -> ChannelPlugin:
    if name not in CHANNEL_NAMES:
        raise SettingsError(f"Unknown messenger {name!r}. Choose one of: {', '.join(CHANNEL_NAMES)}.")
    plugin: ChannelPlugin = import_module(f"placet.channels.{name}").PLUGIN
    return plugin
