"""The variables of Placet that are not settings, and the refusal of unknown ones. Imports little."""

import re
from collections.abc import Collection, Mapping

from placet.errors import SettingsError

PREFIX = "PLACET_"
CHANNEL_VARIABLES: Mapping[str, tuple[str, ...]] = {
    "DISCORD": ("ANSWERERS", "API_URL", "BOT_TOKEN", "CHANNEL_ID", "PUBLIC_KEY", "USER_ID"),
    "EMAIL": ("ANSWERERS", "FROM", "HOST", "PASSWORD", "PORT", "SECURITY", "TO", "USER"),
    "SLACK": ("ANSWERERS", "API_URL", "APP_TOKEN", "BOT_TOKEN", "CHANNEL", "SIGNING_SECRET"),
    "TEAMS": (
        "ANSWERERS",
        "APP_ID",
        "APP_SECRET",
        "KEYS_URL",
        "LOGIN_URL",
        "SERVICE_URL",
        "TENANT_ID",
        "TO",
    ),
    "TELEGRAM": ("ANSWERERS", "API_URL", "BOT_TOKEN", "CHAT_ID", "WEBHOOK_SECRET"),
    "TERMINAL": ("ANSWERERS",),
    "WHATSAPP": (
        "ACCESS_TOKEN",
        "ANSWERERS",
        "API_URL",
        "API_VERSION",
        "APP_SECRET",
        "PHONE_NUMBER_ID",
        "TEMPLATE",
        "TEMPLATE_LANGUAGE",
        "TO",
        "VERIFY_TOKEN",
    ),
}
OTHER_VARIABLES = frozenset(
    f"{PREFIX}{name}"
    for name in (
        "AGENT_KEY",
        "CONFIG",
        "KEY",
        "GATE_TOKEN",
        "MCP_TOKEN",
        "SERVER",
        "UPSTREAM_TOKEN",
        "VIA",
        *(f"{channel}_{name}" for channel, names in CHANNEL_VARIABLES.items() for name in names),
    )
)
# Kubernetes sets these for a service whose name begins with "placet".
KUBERNETES = re.compile(
    r"PLACET_(?:\w+_)?(?:SERVICE_HOST|SERVICE_PORT(?:_\w+)?|PORT_\d+_(?:TCP|UDP|SCTP)(?:_(?:PROTO|PORT|ADDR))?)"
)
# The prefix in any case and with any separator, or with none before the name of a variable.
MISSPELLED_PREFIX = re.compile(r"placet[-_. ]", re.IGNORECASE)
KUBERNETES_PORT = re.compile(r"(?:tcp|udp|sctp)://", re.IGNORECASE)


def refuse_unknown_variables(environ: Mapping[str, str]) -> None:
    """Raise SettingsError for a `PLACET_…` variable that nothing reads, and suggest the nearest name."""
    unknown = sorted(
        name
        for name, value in environ.items()
        if name[: len(PREFIX) - 1].upper() == PREFIX[:-1]
        and name not in OTHER_VARIABLES
        and not is_from_kubernetes(name, value)
    )
    if not unknown:
        return
    from placet.settings import Settings  # only now: most commands read no settings

    known = OTHER_VARIABLES | {f"{PREFIX}{name.upper()}" for name in Settings.__struct_fields__}
    for name in unknown:
        if name not in known and (MISSPELLED_PREFIX.match(name) or _spell_properly(name) in known):
            raise _build_unknown_variable_error(name, known)


def _spell_properly(name: str) -> str:
    """Return the name in upper case, with one underscore after the prefix and between words."""
    rest = re.split(r"[-_. ]+", name[len(PREFIX) - 1 :].upper())
    return PREFIX + "_".join(filter(None, rest))


def is_from_kubernetes(name: str, value: str) -> bool:
    """Return whether Kubernetes sets this variable for a service."""
    if name.endswith("_PORT") and KUBERNETES_PORT.match(value):
        return True
    return KUBERNETES.fullmatch(name) is not None


def _build_unknown_variable_error(name: str, known: Collection[str]) -> SettingsError:
    from difflib import get_close_matches

    near = get_close_matches(_spell_properly(name), sorted(known), n=1, cutoff=0.8)
    hint = (
        f"Did you mean {near[0]}?" if near else "Unset it, or use another prefix for variables of your own."
    )
    return SettingsError(f"environment: unknown variable {name[:80]!a}. {hint}")
