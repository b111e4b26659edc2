"""Reading of policy files, and the JSON of policies for the API."""

import sys
from pathlib import Path
from typing import Any

import click
import msgspec

from placet.desk import clock
from placet.errors import PlacetError
from placet.relay.policy.policy import Policy, parse_policy_file

FILE = click.Path(path_type=Path, dir_okay=False, allow_dash=True)
_DRAFT = ("name", "description", "config", "streaming", "validFrom", "validTo")


def read_policies(file: Path) -> list[Policy]:
    """Return the policies of a TOML or JSON file; - is standard input. Raises `ValidationFailed`."""
    return parse_policy_file(
        _read_content(file), name=str(file), is_toml=file.suffix == ".toml", now=clock.now()
    )


def policy_to_json(policy: Policy) -> dict[str, Any]:
    """Return the policy as JSON for the API."""
    written: dict[str, Any] = msgspec.to_builtins(policy)
    return {name: written[name] for name in _DRAFT if name in written}


def _read_content(file: Path) -> bytes:
    try:
        return sys.stdin.buffer.read() if str(file) == "-" else file.read_bytes()
    except OSError as error:
        raise PlacetError(f"{file} cannot be read: {error.strerror}.") from error
