"""Opens a messenger by its name, with the settings that the environment gives; loads no other one."""

from collections.abc import Mapping
from importlib import import_module

from assent.errors import SettingsError
from assent.ports.channel import Channel

NAMES = ("telegram", "slack", "discord", "whatsapp", "teams", "email", "terminal")
# What it takes for presses to reach an agent that has no public address; in the others, people use the link.
HEARD_ANYWHERE = {
    "telegram": "ASSENT_TELEGRAM_BOT_TOKEN",
    "slack": "ASSENT_SLACK_APP_TOKEN",
    "terminal": None,
}


def open_channel(name: str, environ: Mapping[str, str]) -> Channel:
    """The messenger of this name; raises SettingsError naming what is not set."""
    if name not in NAMES:
        raise SettingsError(f"There is no messenger {name!r}; there are {', '.join(NAMES)}.")
    path = f"assent.channels.{name}"
    channel: Channel = import_module(path).from_environment(environ)
    return channel


def is_heard(name: str, environ: Mapping[str, str]) -> bool:
    """Whether presses there reach a program that runs anywhere: what listening needs is set."""
    needed = HEARD_ANYWHERE.get(name)
    return name in HEARD_ANYWHERE and (needed is None or bool(environ.get(needed)))


def answerers_of(name: str, environ: Mapping[str, str]) -> frozenset[str]:
    """Who may answer there by a button: the platform's ids in ASSENT_<NAME>_ANSWERERS, apart by commas.

    In a terminal it is whoever it belongs to.
    """
    named = environ.get(f"ASSENT_{name.upper()}_ANSWERERS", "")
    if name == "terminal" and not named:
        return frozenset({import_module("assent.channels.terminal.channel").login_name()})
    return frozenset(named.replace(",", " ").split())
