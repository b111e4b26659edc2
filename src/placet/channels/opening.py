"""Opens a messenger by its name, with the settings that the environment gives; loads no other one."""

import re
from collections.abc import Mapping
from importlib import import_module

from placet.errors import SettingsError
from placet.ports.channel import Channel

NAMES = ("telegram", "slack", "discord", "whatsapp", "teams", "email", "terminal")
# What it takes for presses to reach an agent that has no public address; in the others, people use the link.
HEARD_ANYWHERE = {
    "telegram": "PLACET_TELEGRAM_BOT_TOKEN",
    "slack": "PLACET_SLACK_APP_TOKEN",
    "terminal": None,
}
# How each platform names people; whoever is named otherwise could press, and nobody would believe it.
_GUID = r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"
PEOPLE = {
    "telegram": (r"\d+", "numbers such as 4711, not @names"),
    "slack": (r"[A-Z0-9]+:[A-Z0-9]+", "T…:U…, the workspace and the person"),
    "discord": (r"\d+", "numbers such as 80351110224678912, not names"),
    "whatsapp": (r"\d+|[A-Z]{2}\.\w+", "digits with the country code and without +"),
    "teams": (f"{_GUID}:{_GUID}", "tenant:person, two ids"),
}


def open_channel(name: str, environ: Mapping[str, str]) -> Channel:
    """The messenger of this name; raises SettingsError naming what is not set."""
    if name not in NAMES:
        raise SettingsError(f"There is no messenger {name!r}; there are {', '.join(NAMES)}.")
    path = f"placet.channels.{name}"
    channel: Channel = import_module(path).from_environment(environ)
    return channel


def is_heard(name: str, environ: Mapping[str, str]) -> bool:
    """Whether presses there reach a program that runs anywhere: what listening needs is set."""
    needed = HEARD_ANYWHERE.get(name)
    return name in HEARD_ANYWHERE and (needed is None or bool(environ.get(needed)))


def answerers_of(name: str, environ: Mapping[str, str]) -> frozenset[str]:
    """Who may answer there by a button: the platform's ids in PLACET_<NAME>_ANSWERERS, apart by commas.

    In a terminal it is whoever it belongs to. Raises SettingsError for what can be nobody's id.
    """
    variable = f"PLACET_{name.upper()}_ANSWERERS"
    named = frozenset(environ.get(variable, "").replace(",", " ").split())
    if name == "terminal" and not named:
        return frozenset({import_module("placet.channels.terminal.channel").login_name()})
    shape, words = PEOPLE.get(name, (".*", ""))
    if not all(re.fullmatch(shape, one, re.ASCII) for one in named):
        raise SettingsError(f"{variable} names nobody whom {name} could vouch for: write {words}.")
    return named


def why_unheard(name: str, environ: Mapping[str, str]) -> str | None:
    """What keeps presses from those who may answer there; None if nothing does, or nobody may."""
    if is_heard(name, environ) or not answerers_of(name, environ):
        return None
    if name in HEARD_ANYWHERE:
        return f"Set {HEARD_ANYWHERE[name]} to have buttons in {name}; until then people answer by the link."
    return (
        f"There are no buttons in {name} from here: it tells of presses only to a public HTTPS address, so"
        " people answer by the link. For buttons, run an agent that has one; the how-to has a whole program."
    )
