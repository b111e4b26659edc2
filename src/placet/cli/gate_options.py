"""What the commands of `placet gate` share: the coding agent, the policy file, the server and its key."""

import os
from collections.abc import Mapping
from pathlib import Path

import click
from msgspec import Struct

from placet.cli.client_options import get_default_server
from placet.errors import SettingsError
from placet.hook.coding_agents.gate_policy import GatePolicy, parse_gate_policy
from placet.hook.coding_agents.registry import CODING_AGENTS

DEFAULT_WAIT = "9m"
HARD_LIMIT_S = 20
"""The kernel ends the hook this long after its deadline, if it hangs."""
HOST_MARGIN_S = 60
"""The host's timeout is this much above the deadline of the hook, so that the hook always answers first."""

host_argument = click.argument("host", type=click.Choice(list(CODING_AGENTS)), metavar="AGENT")
wait_option = click.option(
    "--wait",
    default=DEFAULT_WAIT,
    show_default=True,
    metavar="DURATION",
    help="How long a person may take. After that, the call is denied.",
)
policy_option = click.option(
    "--config",
    type=click.Path(path_type=Path, dir_okay=False),
    help="TOML file with the policy. Default: ~/.config/placet/gate.toml.",
)


class GateServer(Struct, frozen=True, kw_only=True):
    """The Placet server that asks people, and the API key for it."""

    url: str
    key: str


def find_default_policy_file(environ: Mapping[str, str]) -> Path:
    """Return the path of the policy of this user."""
    folder = environ.get("XDG_CONFIG_HOME", "")
    return (Path(folder) if os.path.isabs(folder) else Path.home() / ".config") / "placet" / "gate.toml"


def load_policy(config: Path | None, environ: Mapping[str, str]) -> GatePolicy:
    """Return the policy; an empty one if no file is named and the default one does not exist.

    Raises SettingsError for a file that cannot be used: without its rules, too much might be allowed.
    """
    path = config or find_default_policy_file(environ)
    try:
        text = path.read_text("utf-8")
    except FileNotFoundError:
        if config is None:
            return GatePolicy()
        raise SettingsError(
            f"{path} does not exist. Write it first: server and key_file are enough."
        ) from None
    except (OSError, ValueError) as error:
        raise SettingsError(f"{path} cannot be read: {error}.") from error
    return parse_gate_policy(text, source=str(path))


def find_server(policy: GatePolicy, environ: Mapping[str, str]) -> GateServer:
    """Return the server with its key: from the policy file, or else from the environment.

    The file comes first, because a project can set the environment of a coding agent.
    """
    url = policy.server or environ.get("PLACET_SERVER") or get_default_server()
    key = _read_key(policy.key_file) if policy.key_file is not None else environ.get("PLACET_KEY")
    if not key:
        raise SettingsError("No API key. Set key_file in the policy file, or PLACET_KEY.")
    return GateServer(url=url, key=key)


def _read_key(key_file: str) -> str:
    path = Path(key_file).expanduser()
    try:
        key = path.read_text("utf-8").strip()
    except (OSError, ValueError) as error:
        raise SettingsError(f"key_file: {path} cannot be read: {error}.") from error
    if not key:
        raise SettingsError(f"key_file: {path} is empty. Write an API key to it: placet key create.")
    return key
