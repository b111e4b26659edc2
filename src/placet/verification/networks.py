"""Prove an answer by the network that the person is in."""

from collections.abc import Iterable, Mapping, Sequence
from ipaddress import IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Any

from placet.errors import SettingsError, VerificationFailed
from placet.ports.proof_method import ProofRequest
from placet.ports.verification_store import PageProof
from placet.protocol.verification import NETWORK, ProofSource
from placet.text.wording import message
from placet.verification.page_proof import build_page_proof

FORMAT = "x-address"

Network = IPv4Network | IPv6Network


class NetworkProof:
    """Accepts answers from the address ranges of one named network."""

    is_automatic = True
    starts_alone = False
    may_retry = True

    def __init__(self, name: str, ranges: Sequence[str]) -> None:
        self.name = f"network:{name}"
        self._network = name
        self._ranges = parse_ranges(f"verification.networks.{name}", ranges)
        self.source = ProofSource(
            proof_type=NETWORK,
            provider=name,
            formats=(FORMAT,),
            paths=frozenset({"browser_submit"}),
            assurance="low",
        )

    async def start(
        self, request: ProofRequest, typed: Mapping[str, str], started: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Return nothing: the address is read with every request."""
        return {}

    async def finish(
        self, request: ProofRequest, typed: Mapping[str, str], started: Mapping[str, Any]
    ) -> PageProof:
        """Return the proof if the person's address is in the network."""
        if not self._contains(request.address):
            raise VerificationFailed(
                message("You can answer only from the network “{network}”.", network=self._network)
            )
        return build_page_proof(self.source, now=request.now)

    def describe(self, started: Mapping[str, Any]) -> dict[str, Any]:
        """Return the name of the network."""
        return {"network": self._network}

    def _contains(self, address: str | None) -> bool:
        return contains_address(self._ranges, address)


def parse_ranges(setting: str, ranges: Iterable[str]) -> list[Network]:
    """Return the address ranges. Raises SettingsError, which names the setting."""
    return [_parse_range(setting, text) for text in ranges]


def contains_address(ranges: Iterable[Network], address: str | None) -> bool:
    """Return whether the text is an address in one of the ranges."""
    try:
        found = ip_address(address or "")
    except ValueError:
        return False
    if isinstance(found, IPv6Address) and found.ipv4_mapped is not None:
        found = found.ipv4_mapped
    return any(found in one for one in ranges)


def find_client_address(peer: str | None, forwarded: Sequence[str], proxies: Sequence[Network]) -> str | None:
    """Return the address of the person: the last one in X-Forwarded-For that is not a proxy we trust.

    `forwarded` are the values of the header. Anyone can write it, so only what our own proxies added counts.
    """
    chain = [part.strip() for value in forwarded for part in value.split(",")]
    address = peer
    while chain and contains_address(proxies, address):
        address = chain.pop()
    return address


def _parse_range(setting: str, text: str) -> Network:
    try:
        return ip_network(text)
    except ValueError as error:
        raise SettingsError(
            f"{setting}: {text[:60]!a} is not an address range. Write 203.0.113.0/24."
        ) from error
