"""One's own networks: which may be listed, and what listing them allows."""

from ipaddress import IPv4Address, IPv6Address, ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placet.errors import AddressRefused, ValidationFailed
from placet.protocol.addresses import check_address, check_url
from placet.protocol.allowed_networks import read_networks
from placet.protocol.forbidden_networks import FORBIDDEN_RANGES, OWN_RANGES

ALL_OWN = read_networks(str(network) for network, rule in FORBIDDEN_RANGES if rule in OWN_RANGES)
SOME = read_networks(["10.20.0.0/16", "fd12:3456::/32"])


def test_private_networks_are_read() -> None:
    listed = ["10.0.0.0/8", "172.20.0.0/14", "192.168.7.0/24", "100.64.0.0/10", "10.1.2.3/32", "fd00::/8"]
    assert read_networks(listed) == tuple(ip_network(text) for text in listed)
    assert read_networks([]) == ()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is not a network. Use a form such as 10.0.0.0/8"),
        ("10.0.0.0", "is not a network"),
        ("10.0.0.0/33", "is not a network"),
        ("10.0.0.0/-1", "is not a network"),
        ("10.0.0/8", "is not a network"),
        ("010.0.0.0/8", "is not a network"),
        ("10.0.0.0/255.0.0.0", "is not a network"),
        ("10.0.0.0/8 ", "is not a network"),
        ("fd00::%eth0/64", "is not a network"),
        ("agents.internal", "is not a network"),
        ("*", "is not a network"),
        ("10.1.2.3/8", "is an address in a network; the network is 10.0.0.0/8"),
        ("fd00::1/8", "the network is fd00::/8"),
        ("0.0.0.0/0", "is not inside the private networks 10.0.0.0/8,"),
        ("::/0", "is not inside the private networks"),
        ("10.0.0.0/7", "is not inside"),
        ("172.0.0.0/11", "is not inside"),
        ("192.0.0.0/8", "is not inside"),
        ("f000::/4", "is not inside"),
        ("8.8.8.0/24", "is not inside"),
        ("2606:4700::/32", "is not inside"),
        ("127.0.0.0/8", "allow_loopback"),
        ("127.0.0.1/32", "allow_loopback"),
        ("::1/128", "allow_loopback"),
        ("169.254.0.0/16", "(link-local) are never called"),
        ("169.254.169.254/32", "(metadata) are never called"),
        ("100.100.100.200/32", "(metadata) are never called"),
        ("fd00:ec2::254/128", "(metadata) are never called"),
        ("fe80::/10", "(link-local)"),
        ("fe80::/64", "(link-local)"),
        ("224.0.0.0/4", "(multicast)"),
        ("ff02::/16", "(multicast)"),
        ("0.0.0.0/8", "(unspecified)"),
        ("::/128", "(unspecified)"),
        ("::ffff:10.0.0.0/104", "(IPv4-mapped)"),
        ("64:ff9b::/96", "(NAT64)"),
        ("2002:a00::/24", "(6to4)"),
        ("240.0.0.0/4", "(reserved)"),
    ],
)
def test_what_cannot_be_listed_is_refused_in_words(text: str, said: str) -> None:
    with pytest.raises(ValidationFailed) as refused:
        read_networks(["10.0.0.0/8", text])
    assert said in refused.value.message


@pytest.mark.parametrize(
    "url",
    [
        "https://10.20.0.1/",
        "https://10.20.255.255:8443/a2a",
        "https://[fd12:3456::1]/",
        "https://clerk/",
        "https://clerk.agents.svc/",
        "https://clerk.agents.svc.cluster.local/",
        "https://clerk.corp/",
        "https://clerk.example.com/",
    ],
)
def test_listed_addresses_and_names_of_ones_own_pass(url: str) -> None:
    assert check_url(url, networks=SOME).url == url


def test_nothing_of_ones_own_passes_unless_networks_are_listed() -> None:
    for url in ("https://10.20.0.1/", "https://[fd12:3456::1]/", "https://clerk/", "https://clerk.corp/"):
        with pytest.raises(AddressRefused):
            check_url(url)
        with pytest.raises(AddressRefused):
            check_url(url, allow_loopback=True)


@pytest.mark.parametrize(
    ("url", "rule"),
    [
        ("http://10.20.0.1/", "scheme"),
        ("http://clerk.agents.svc/", "scheme"),
        ("https://10.21.0.1/", "private"),
        ("https://192.168.0.1/", "private"),
        ("https://[fd12:3457::1]/", "unique local"),
        ("https://127.0.0.1/", "loopback"),
        ("https://[::1]/", "loopback"),
        ("https://localhost/", "localhost"),
        ("https://a.localhost/", "localhost"),
        ("https://a.localdomain/", "localdomain"),
        ("https://a.onion/", "onion"),
        ("https://metadata.google.internal/", "metadata"),
        ("https://metadata.goog/", "metadata"),
        ("https://169.254.169.254/", "metadata"),
        ("https://[::ffff:10.20.0.1]/", "IPv4-mapped"),
        ("https://[::ffff:0:10.20.0.1]/", "IPv4-translated"),
        ("https://[::10.20.0.1]/", "IPv4-compatible"),
        ("https://[64:ff9b::a14:1]/", "NAT64"),
        ("https://[64:ff9b:1::a14:1]/", "NAT64"),
        ("https://[2002:a14:1::]/", "6to4"),
        ("https://[fd12:3456::5efe:10.20.0.1]/", "unique local"),
    ],
)
def test_what_is_not_listed_stays_refused_in_every_spelling(url: str, rule: str) -> None:
    with pytest.raises(AddressRefused) as refused:
        check_url(url, networks=SOME)
    assert refused.value.details["rule"] == rule


@pytest.mark.parametrize(
    "network", [network for network, rule in FORBIDDEN_RANGES if rule not in OWN_RANGES], ids=str
)
def test_no_list_opens_any_other_forbidden_range(network) -> None:
    for address in (network[0], network[-1]):
        with pytest.raises(AddressRefused):
            check_address(address, networks=ALL_OWN)


@given(st.integers(0, 2**32 - 1))
def test_a_list_of_everything_lets_no_special_ipv4_address_pass(number: int) -> None:
    _is_public_or_private(IPv4Address(number))


@given(st.integers(0, 2**128 - 1))
def test_a_list_of_everything_lets_no_special_ipv6_address_pass(number: int) -> None:
    _is_public_or_private(IPv6Address(number))


def _is_public_or_private(address: IPv4Address | IPv6Address) -> None:
    try:
        check_address(address, networks=ALL_OWN)
    except AddressRefused:
        return
    listed = any(address.version == one.version and address in one for one in ALL_OWN)
    assert address.is_global or listed
    special = ("is_loopback", "is_link_local", "is_multicast", "is_unspecified", "is_reserved")
    assert not [what for what in special if getattr(address, what)]


@pytest.mark.parametrize("host", ["clerk", "clerk.svc", "clerk.agents.svc.cluster.local", "clerk.corp"])
@pytest.mark.parametrize("address", ["8.8.8.8", "2606:4700::1111", "10.21.0.1", "127.0.0.1", "169.254.1.1"])
def test_a_name_of_ones_own_leads_into_ones_own_networks_only(host: str, address: str) -> None:
    check_address("10.20.0.1", host=host, networks=SOME)
    with pytest.raises(AddressRefused, match="outside the listed networks"):
        check_address(address, host=host, networks=SOME, allow_loopback=True)
