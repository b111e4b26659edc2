"""Parse the private networks that settings list."""

import re
from collections.abc import Iterable
from ipaddress import IPv4Network, IPv6Network, ip_network

from placet.errors import ValidationFailed
from placet.protocol.forbidden_networks import FORBIDDEN_RANGES, OWN_RANGES, Network

_CIDR = re.compile(r"[0-9A-Fa-f:.]+/[0-9]{1,3}")
_OWN = ", ".join(str(network) for network, rule in FORBIDDEN_RANGES if rule in OWN_RANGES)


def read_networks(listed: Iterable[str]) -> tuple[Network, ...]:
    """Return the networks of a list such as `["10.0.0.0/8", "fd00::/8"]`; raises ValidationFailed.

    Only private networks can be listed. Public addresses need no listing; loopback, link-local, metadata,
    multicast and other special addresses cannot be allowed.
    """
    return tuple(_read(text) for text in listed)


def _read(text: str) -> Network:
    network = _parse(text)
    rule = _find_rule(network)
    if rule is None:
        raise ValidationFailed(
            f"{text!r} is not inside the private networks {_OWN}. List only private networks."
        )
    if rule == "loopback":
        raise ValidationFailed(f"{text!r} is loopback. Use the setting allow_loopback instead.")
    if rule not in OWN_RANGES:
        raise ValidationFailed(f"{text!r} cannot be listed: its addresses ({rule}) are never called.")
    return network


def _parse(text: str) -> Network:
    try:
        if not _CIDR.fullmatch(text):
            raise ValueError
        network = ip_network(text, strict=False)
    except ValueError:
        raise ValidationFailed(
            f"{text[:80]!r} is not a network. Use a form such as 10.0.0.0/8 or fd00::/8."
        ) from None
    try:
        return ip_network(text)
    except ValueError:
        raise ValidationFailed(f"{text!r} is an address in a network; the network is {network}.") from None


def _find_rule(network: Network) -> str | None:
    """Return the rule of the range that contains the whole network, or None."""
    return next((rule for whole, rule in FORBIDDEN_RANGES if _lies_in(network, whole)), None)


def _lies_in(network: Network, whole: Network) -> bool:
    if isinstance(network, IPv4Network):
        return isinstance(whole, IPv4Network) and network.subnet_of(whole)
    return isinstance(whole, IPv6Network) and network.subnet_of(whole)
