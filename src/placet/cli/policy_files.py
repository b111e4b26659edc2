"""Files of policies as the command line reads them, and policies as it sends them."""

import sys
from pathlib import Path
from typing import Any

import click
import msgspec

from placet.desk import clock
from placet.errors import PlacetError
from placet.relay.policies.policy import Policy
from placet.relay.policies.policy_file import parse_policy_file

FILE = click.Path(path_type=Path, dir_okay=False, allow_dash=True)
_DRAFT = ("name", "description", "config", "validFrom", "validTo")


def policies_in(file: Path) -> list[Policy]:
    """The policies of a TOML or JSON file, - for standard input; raises `ValidationFailed`."""
    return parse_policy_file(_content(file), name=str(file), is_toml=file.suffix == ".toml", now=clock.now())


def draft_of(policy: Policy) -> dict[str, Any]:
    """The policy as it is POSTed."""
    written: dict[str, Any] = msgspec.to_builtins(policy)
    return {name: written[name] for name in _DRAFT}


def _content(file: Path) -> bytes:
    try:
        return sys.stdin.buffer.read() if str(file) == "-" else file.read_bytes()
    except OSError as error:
        raise PlacetError(f"{file} cannot be read: {error.strerror}.") from error
