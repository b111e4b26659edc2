"""The address guard's rules: what may be called, what may not, and that nothing slips through by spelling."""

from ipaddress import IPv4Address, IPv6Address, ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st
from yarl import URL

from placet.errors import AddressRefused
from placet.protocol.addresses import check_address, check_url, is_secure_or_loopback
from placet.protocol.forbidden_networks import FORBIDDEN_RANGES

HOSTILE_URLS = {
    # Scheme and shape
    "": "shape",
    "hooks.example.com": "shape",
    "//hooks.example.com/x": "shape",
    "https:/hooks.example.com": "shape",
    "https:hooks.example.com": "shape",
    "http://hooks.example.com/": "scheme",
    "http://8.8.8.8/": "scheme",
    "http://127.0.0.2/": "scheme",
    "ftp://hooks.example.com/": "scheme",
    "file:///etc/passwd": "scheme",
    "gopher://127.0.0.1:6379/_INFO": "scheme",
    "javascript://hooks.example.com/%0aalert(1)": "scheme",
    "unix:///var/run/docker.sock": "scheme",
    "https://": "host",
    "https:///path": "host",
    "https://?x=1": "host",
    "https://hooks.example.com/#part": "fragment",
    "https://hooks.example.com#@127.0.0.1/": "fragment",
    # Credentials and parsers that disagree
    "https://user:pw@hooks.example.com/": "credentials",
    "https://user@hooks.example.com/": "credentials",
    "https://@hooks.example.com/": "credentials",
    "https://hooks.example.com@127.0.0.1/": "credentials",
    "https://hooks.example.com%40127.0.0.1/": "host",
    "https://hooks.example.com\\@127.0.0.1/": "characters",
    "https:\\\\127.0.0.1\\": "characters",
    "https://hooks.example.com /": "characters",
    " https://hooks.example.com/": "characters",
    "https://hooks.example.com/\r\nX-Evil: 1": "characters",
    "https://hooks.example.com/\x00": "characters",
    "https://hooks.exa\tmple.com/": "characters",
    "https://hooks.example.com/\u202eevil": "characters",
    "https://hooks.example.com/\ud800": "characters",
    "https://hooks.example.com/\u200b": "characters",
    "https://hooks\u00ad.example.com/": "characters",
    # Ports
    "https://hooks.example.com:/": "port",
    "https://hooks.example.com:0/": "port",
    "https://hooks.example.com:65536/": "port",
    "https://hooks.example.com:-1/": "port",
    "https://hooks.example.com:443x/": "port",
    "https://hooks.example.com:٤٤٣/": "port",
    "https://hooks.example.com:80:443/": "host",
    # Names
    "https://localhost/": "localhost",
    "http://localhost/": "localhost",
    "https://LOCALHOST/": "localhost",
    "https://localhost./": "host",
    "https://hooks.example.com./": "host",
    "https://hooks..example.com/": "host",
    "https://.example.com/": "host",
    "https://-hooks.example.com/": "host",
    "https://ho_oks.example.com/": "host",
    "https://%6c%6fcalhost/": "host",
    "https://ⓛocalhost/": "host",
    "https://sub.localhost/": "localhost",
    "https://printer.local/": "local",
    "https://kubernetes.default.svc.cluster.local/": "local",
    "https://kubernetes.default.svc/": "svc",
    "https://metadata.google.internal/computeMetadata/v1/": "metadata",
    "https://metadata.goog/": "metadata",
    "https://instance-data.ec2.internal/": "internal",
    "https://host.docker.internal/": "internal",
    "https://wiki.corp/": "corp",
    "https://router.home.arpa/": "home.arpa",
    "https://redis/": "no domain",
    "https://" + "a" * 64 + ".example.com/": "host",
    "https://" + "a." * 130 + "example.com/": "host",
    "https://hooks.example.com/" + "a" * 2048: "length",
    # IPv4 in every spelling
    "https://127.0.0.1/": "loopback",
    "http://127.0.0.1/": "loopback",
    "https://127.255.255.254/": "loopback",
    "https://127.1/": "IPv4 spelling",
    "https://0x7f.1/": "IPv4 spelling",
    "https://0x7f000001/": "IPv4 spelling",
    "https://2130706433/": "IPv4 spelling",
    "https://0177.0.0.1/": "IPv4 spelling",
    "https://127.0.0.01/": "IPv4 spelling",
    "https://127.0.0.0x1/": "IPv4 spelling",
    "https://hooks.example.1/": "IPv4 spelling",
    "https://256.1.1.1/": "IPv4 spelling",
    "https://1.2.3.4.5/": "IPv4 spelling",
    "https://127.0.0.1./": "host",
    "https://１２７.０.０.１/": "host",
    "https://127。0。0。1/": "host",
    "https://①②⑦.⓪.⓪.①/": "host",
    "https://0.0.0.0/": "unspecified",
    "https://0.1.2.3/": "unspecified",
    "https://10.0.0.1/": "private",
    "https://172.16.0.1/": "private",
    "https://172.31.255.255/": "private",
    "https://192.168.1.1/": "private",
    "https://100.64.0.1/": "carrier-grade NAT",
    "https://100.127.255.255/": "carrier-grade NAT",
    "https://169.254.1.1/": "link-local",
    "https://169.254.169.254/latest/meta-data/": "metadata",
    "https://169.254.170.2/v2/credentials": "metadata",
    "https://100.100.100.200/": "metadata",
    "https://168.63.129.16/": "metadata",
    "https://192.0.0.192/": "metadata",
    "https://192.0.0.8/": "reserved",
    "https://192.0.2.1/": "documentation",
    "https://198.51.100.1/": "documentation",
    "https://203.0.113.1/": "documentation",
    "https://198.18.0.1/": "benchmark",
    "https://192.88.99.1/": "6to4",
    "https://224.0.0.1/": "multicast",
    "https://240.0.0.1/": "reserved",
    "https://255.255.255.255/": "broadcast",
    # IPv6, and IPv4 hidden in it
    "https://[::1]/": "loopback",
    "http://[::1]/": "loopback",
    "https://[0:0:0:0:0:0:0:1]/": "loopback",
    "https://[::]/": "unspecified",
    "https://[::ffff:127.0.0.1]/": "IPv4-mapped",
    "https://[::ffff:8.8.8.8]/": "IPv4-mapped",
    "https://[::ffff:0:127.0.0.1]/": "IPv4-translated",
    "https://[::127.0.0.1]/": "IPv4-compatible",
    "https://[64:ff9b::a00:1]/": "NAT64",
    "https://[64:ff9b:1::a00:1]/": "NAT64",
    "https://[2002:7f00:1::]/": "6to4",
    "https://[2002:808:808::1]/": "6to4",
    "https://[2001:0:53aa:64c::1]/": "Teredo",
    "https://[2001:2::1]/": "benchmark",
    "https://[2001:db8::1]/": "documentation",
    "https://[3fff::1]/": "documentation",
    "https://[2001:10::1]/": "reserved",
    "https://[2a00:1450::5efe:127.0.0.1]/": "ISATAP",
    "https://[2a00:1450::200:5efe:7f00:1]/": "ISATAP",
    "https://[100::1]/": "discard-only",
    "https://[fc00::1]/": "unique local",
    "https://[fd12:3456::1]/": "unique local",
    "https://[fd00:ec2::254]/": "metadata",
    "https://[fd20:ce::254]/": "metadata",
    "https://[fe80::1]/": "link-local",
    "https://[fe80::a9fe:a9fe]/": "metadata",
    "https://[fe80::1%25eth0]/": "host",
    "https://[fe80::1%eth0]/": "host",
    "https://[fec0::1]/": "site-local",
    "https://[ff02::1]/": "multicast",
    "https://[4000::1]/": "reserved",
    "https://[5f00::1]/": "reserved",
    "https://[::1/": "host",
    "https://::1/": "host",
    "https://[v1.fe80::1]/": "host",
    "https://[127.0.0.1]/": "host",
    "https://[]/": "host",
    "https://[[::1]]/": "host",
    "https://[::1]x/": "host",
}


@pytest.mark.parametrize(("url", "rule"), HOSTILE_URLS.items())
def test_hostile_url_is_refused_and_the_rule_is_named(url: str, rule: str) -> None:
    with pytest.raises(AddressRefused) as refused:
        check_url(url)
    assert refused.value.details["rule"] == rule


@pytest.mark.parametrize("url", [None, 7, b"https://hooks.example.com/", ["https://hooks.example.com/"]])
def test_what_is_not_text_is_refused(url: str) -> None:
    with pytest.raises(AddressRefused):
        check_url(url)


@pytest.mark.parametrize(
    ("url", "normalised"),
    [
        ("https://hooks.example.com", "https://hooks.example.com/"),
        ("HTTPS://Hooks.Example.COM:443/A?b=C", "https://hooks.example.com/A?b=C"),
        ("https://hooks.example.com:8443/x", "https://hooks.example.com:8443/x"),
        ("https://hooks.example.com?x=1", "https://hooks.example.com/?x=1"),
        ("https://bücher.example/straße", "https://xn--bcher-kva.example/stra%C3%9Fe"),
        ("https://xn--bcher-kva.example/", "https://xn--bcher-kva.example/"),
        ("https://8.8.8.8/", "https://8.8.8.8/"),
        ("https://[2A00:1450:0:0::5]:99/", "https://[2a00:1450::5]:99/"),
        ("https://hooks.example.com/a%20b%zz", "https://hooks.example.com/a%20b%zz"),
        ("https://hooks.example.com/@me:x?q=a@b", "https://hooks.example.com/@me:x?q=a@b"),
    ],
)
def test_public_url_passes_in_its_normal_form(url: str, normalised: str) -> None:
    assert check_url(url).url == normalised


def test_target_says_what_was_checked() -> None:
    target = check_url("https://8.8.4.4:8443/x")
    assert (target.scheme, target.host, target.port) == ("https", "8.8.4.4", 8443)
    assert target.address == IPv4Address("8.8.4.4")
    assert check_url("https://[2a00:1450::5]/").address == IPv6Address("2a00:1450::5")
    assert check_url("https://hooks.example.com/").address is None


@pytest.mark.parametrize(
    "url",
    [
        "http://localhost:8000/x",
        "http://127.0.0.1/",
        "http://[::1]:9/",
        "https://localhost/",
        "https://127.0.0.2/",
    ],
)
def test_loopback_passes_only_when_it_is_allowed(url: str) -> None:
    assert check_url(url, allow_loopback=True).url.startswith(url)
    with pytest.raises(AddressRefused):
        check_url(url)


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.2/",
        "http://sub.localhost/",
        "http://localhost.example.com/",
        "http://ⓛocalhost/",
        "https://10.0.0.1/",
        "https://[::ffff:127.0.0.1]/",
        "https://0.0.0.0/",
        "https://printer.local/",
    ],
)
def test_allowing_loopback_allows_nothing_else(url: str) -> None:
    with pytest.raises(AddressRefused):
        check_url(url, allow_loopback=True)


@pytest.mark.parametrize("network", [network for network, _ in FORBIDDEN_RANGES], ids=str)
def test_both_ends_of_every_forbidden_range_are_refused(network) -> None:
    for address in (network[0], network[-1]):
        with pytest.raises(AddressRefused):
            check_address(address)


@pytest.mark.parametrize("address", ["8.8.8.8", "1.1.1.1", "172.32.0.1", "100.128.0.1", "2606:4700::1111"])
def test_public_address_passes(address: str) -> None:
    check_address(address)
    check_address(ip_address(address))


@pytest.mark.parametrize("address", ["", "x", "127.1", "1.2.3.4/32", "fe80::1%eth0", "\ud800"])
def test_address_that_cannot_be_judged_is_refused(address: str) -> None:
    with pytest.raises(AddressRefused):
        check_address(address)


@given(st.integers(0, 2**32 - 1))
def test_no_ipv4_address_passes_that_python_calls_private(number: int) -> None:
    address = IPv4Address(number)
    try:
        check_address(address)
    except AddressRefused:
        return
    assert address.is_global
    assert not address.is_multicast


@given(st.integers(0, 2**128 - 1))
def test_no_ipv6_address_passes_that_python_calls_private(number: int) -> None:
    address = IPv6Address(number)
    try:
        check_address(address)
    except AddressRefused:
        return
    assert address.is_global
    assert address.ipv4_mapped is None
    assert address.sixtofour is None
    assert address.teredo is None


@given(
    st.one_of(
        st.text(),
        st.text(alphabet="htps:/@[]%.#?\\0x127aｌ。1ⓛ").map("https://".__add__),
        st.builds("https://{}:{}/{}".format, st.text(), st.integers(), st.text()),
    )
)
def test_any_text_passes_stably_or_is_refused(url: str) -> None:
    try:
        target = check_url(url)
    except AddressRefused:
        return
    assert check_url(target.url) == target
    assert URL(target.url, encoded=True).raw_host == target.host


@pytest.mark.parametrize(
    ("url", "secure"),
    [
        ("https://placet.example.com", True),
        ("https://10.0.0.5:8443/placet", True),
        ("https://intranet/", True),
        ("http://localhost", True),
        ("http://localhost:8000/", True),
        ("http://127.0.0.1:8000", True),
        ("http://[::1]:8000", True),
        ("http://placet.example.com", False),
        ("http://127.0.0.2", False),
        ("http://localhost.example.com", False),
        ("http://localhost@example.com", False),
        ("http://0.0.0.0:8000", False),
        ("https://user:pw@placet.example.com", False),
        ("ftp://localhost", False),
        ("localhost:8000", False),
        ("", False),
        (None, False),
    ],
)
def test_base_url_is_secure_or_loopback(url: str, secure: bool) -> None:
    assert is_secure_or_loopback(url) is secure
