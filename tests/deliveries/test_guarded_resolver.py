"""Names with addresses in one's own networks: resolved for agents, and for nothing else."""

import socket

import pytest

from placet.deliveries.guarded_resolver import GuardedResolver
from placet.errors import AddressRefused
from placet.protocol.allowed_networks import read_networks
from tests.deliveries.receiver import ScriptedLookup

pytestmark = pytest.mark.anyio

NETWORKS = read_networks(["10.20.0.0/16", "fd12:3456::/32"])


async def test_what_was_checked_is_what_is_connected_to() -> None:
    lookup = ScriptedLookup(clerk_svc=[["10.20.0.5", "fd12:3456::5"], ["10.21.0.5"]])
    resolver = GuardedResolver(lookup, networks=NETWORKS)
    found = await resolver.resolve("clerk.svc", 443)
    assert [(one["host"], one["port"]) for one in found] == [("10.20.0.5", 443), ("fd12:3456::5", 443)]
    assert all(one["flags"] & socket.AI_NUMERICHOST for one in found)
    assert lookup.asked == ["clerk.svc"]
    with pytest.raises(AddressRefused):
        await resolver.resolve("clerk.svc", 443)


async def test_a_public_name_may_lead_into_a_listed_network() -> None:
    lookup = ScriptedLookup(clerk_example_com=[["10.20.0.5"], ["93.184.216.34"], ["10.20.0.5"]])
    resolver = GuardedResolver(lookup, networks=NETWORKS)
    assert await resolver.addresses("clerk.example.com") == ["10.20.0.5"]
    assert await resolver.addresses("clerk.example.com") == ["93.184.216.34"]
    with pytest.raises(AddressRefused, match="private"):
        await GuardedResolver(lookup).addresses("clerk.example.com")


@pytest.mark.parametrize(
    "addresses",
    [
        ["10.20.0.5", "10.21.0.5"],
        ["10.20.0.5", "169.254.169.254"],
        ["10.20.0.5", "127.0.0.1"],
        ["::ffff:10.20.0.5"],
        ["64:ff9b::a14:5"],
        ["2002:a14:5::"],
        ["fe80::1%eth0"],
    ],
)
async def test_one_address_that_is_not_listed_refuses_the_name(addresses: list[str]) -> None:
    lookup = ScriptedLookup(clerk_example_com=[addresses])
    with pytest.raises(AddressRefused):
        await GuardedResolver(lookup, networks=NETWORKS).addresses("clerk.example.com")


async def test_localhost_stays_this_machine_and_refused() -> None:
    lookup = ScriptedLookup(localhost=[["10.20.0.5"]])
    with pytest.raises(AddressRefused, match="loopback"):
        await GuardedResolver(lookup, networks=NETWORKS).addresses("localhost")
    found = await GuardedResolver(lookup, networks=NETWORKS, allow_loopback=True).addresses("localhost")
    assert found == ["127.0.0.1", "::1"]
