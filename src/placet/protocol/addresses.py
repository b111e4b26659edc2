"""Which URLs and IP addresses may be called (protection against SSRF); no I/O."""

import re
import unicodedata
from collections.abc import Sequence
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from urllib.parse import quote

import msgspec

from placet.errors import AddressRefused
from placet.protocol.forbidden_networks import FORBIDDEN_RANGES, OWN_RANGES, Network
from placet.text.characters import is_hidden

MAX_URL_LENGTH = 2048
MAX_HOST_LENGTH = 253

# The only hosts for plain HTTP, since the traffic does not leave this machine.
LOOPBACK_HOSTS = frozenset({"localhost", "127.0.0.1", "::1"})

# Names that only a private network resolves.
OWN_SUFFIXES = ("local", "internal", "intranet", "corp", "home", "lan", "svc", "home.arpa")
FORBIDDEN_SUFFIXES = ("localhost", "localdomain", *OWN_SUFFIXES, "onion")
NO_DOMAIN = "no domain"
# Names of metadata services outside those suffixes.
METADATA_HOSTS = frozenset(
    {"metadata.goog", "metadata.tencentyun.com", "metadata.packet.net", "metadata.platformequinix.com"}
)

OWN_RULES = OWN_RANGES | {NO_DOMAIN, *OWN_SUFFIXES}
"""Rules that do not apply when private networks are listed."""
# IANA assigns global IPv6 unicast addresses only from this range.
GLOBAL_IPV6 = ip_network("2000::/3")
# RFC 5214: an interface identifier 0000:5efe or 0200:5efe tunnels to the IPv4 address behind it.
ISATAP_MARKS = frozenset({0x00005EFE, 0x02005EFE})

UNSEEN_CATEGORIES = frozenset({"Cc", "Cf", "Cn", "Zs"})
"""Refused in an address beside hidden characters: line breaks, format characters, spaces, unassigned."""

_URL = re.compile(
    r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://(?P<authority>[^/?#]*)(?P<rest>[^#]*)(?P<fragment>#.*)?"
)
_AUTHORITY = re.compile(r"(?:\[(?P<ipv6>[^\[\]]*)\]|(?P<name>[^:\[\]]*))(?::(?P<port>[0-9]{1,5}))?")
_LABEL = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")
# WHATWG URL, "ends in a number": resolvers read such names as IPv4 addresses in octal, hex or fewer parts.
_NUMERIC_LABEL = re.compile(r"[0-9]+|0x[0-9a-f]*")

_KEPT_IN_PATHS = "%/?[]@!$&'()*+,;=:~"
_DEFAULT_PORTS = {"https": 443, "http": 80}


class ParsedTarget(msgspec.Struct, frozen=True, kw_only=True):
    """A parsed URL, so that the checked URL is the one that is called."""

    url: str
    """Normalised: ASCII only, lower-case host, no default port."""
    scheme: str
    host: str
    """A name in its ASCII form, or an address without brackets."""
    port: int
    address: IPv4Address | IPv6Address | None = None
    """Set when the host is a literal address."""


def check_url(url: str, *, allow_loopback: bool = False, networks: Sequence[Network] = ()) -> ParsedTarget:
    """Parse a URL and check that it may be the target of an outgoing request.

    `networks` are private networks that may be called, by address or by a private name. Raises
    `AddressRefused` naming the rule that the URL violates. A host name must still be resolved, and each of
    its addresses passed to `check_address`.
    """
    target = _parse(url)
    if target.scheme != "https" and not _is_loopback_host(target):
        raise _build_url_error("scheme", "must use https")
    if target.address is not None:
        check_address(target.address, allow_loopback=allow_loopback, networks=networks)
    elif not (allow_loopback and _is_loopback_host(target)):
        _check_name(target.host, networks)
    return target


def check_address(
    address: str | IPv4Address | IPv6Address,
    *,
    allow_loopback: bool = False,
    networks: Sequence[Network] = (),
    host: str = "",
) -> None:
    """Raise `AddressRefused` unless the address is public unicast or in one of the private `networks`.

    A `host` with a private name must resolve to an address in `networks`.
    """
    ip = _parse_address(address)
    rule = _find_range_rule(ip)
    if rule in OWN_RANGES and _is_within(ip, networks):
        return
    if networks and _is_own_name(host):
        raise AddressRefused(f"{host} resolves to {ip}, outside the listed networks.", rule="own name")
    if rule is None or (allow_loopback and rule == "loopback"):
        return
    raise AddressRefused(f"{ip} is a forbidden address ({rule}).", rule=rule)


def is_secure_or_loopback(url: str) -> bool:
    """Return whether a URL is https, or http on localhost, 127.0.0.1 or [::1]; False if malformed."""
    try:
        target = _parse(url)
    except AddressRefused:
        return False
    return target.scheme == "https" or _is_loopback_host(target)


def normalize_url(url: str) -> str:
    """Return a URL as browsers write it: scheme and host in lower case, no default port, ASCII only.

    Raises `AddressRefused` for anything malformed.
    """
    return _parse(url).url


def _build_url_error(rule: str, complaint: str) -> AddressRefused:
    return AddressRefused(f"The URL {complaint}.", rule=rule)


def _is_loopback_host(target: ParsedTarget) -> bool:
    return target.host in LOOPBACK_HOSTS


def _parse(url: str) -> ParsedTarget:
    _check_characters(url)
    parts = _URL.fullmatch(url)
    if parts is None:
        raise _build_url_error("shape", "must be absolute, like https://host/path")
    scheme = parts["scheme"].lower()
    if scheme not in _DEFAULT_PORTS:
        raise _build_url_error("scheme", "must use https")
    if parts["fragment"]:
        raise _build_url_error("fragment", "must not carry a fragment (#)")
    host, address, port = _parse_authority(parts["authority"], _DEFAULT_PORTS[scheme])
    return ParsedTarget(
        url=_format_url(scheme, host, port, parts["rest"]),
        scheme=scheme,
        host=host,
        port=port,
        address=address,
    )


def _check_characters(url: str) -> None:
    if not isinstance(url, str):
        raise _build_url_error("shape", "must be text")
    if len(url) > MAX_URL_LENGTH:
        raise _build_url_error("length", f"must not be longer than {MAX_URL_LENGTH} characters")
    if "\\" in url:
        raise _build_url_error("characters", "must not contain a backslash")
    if any(is_hidden(character) or unicodedata.category(character) in UNSEEN_CATEGORIES for character in url):
        raise _build_url_error("characters", "must not contain spaces, control or invisible characters")


def _parse_authority(authority: str, default_port: int) -> tuple[str, IPv4Address | IPv6Address | None, int]:
    if "@" in authority:
        raise _build_url_error("credentials", "must not carry a user name or password")
    parts = _AUTHORITY.fullmatch(authority)
    if parts is None:
        raise _build_url_error(
            "port" if authority.count(":") == 1 else "host", "must name a host and at most a port"
        )
    port = default_port if parts["port"] is None else int(parts["port"])
    if not 1 <= port <= 65535:
        raise _build_url_error("port", "must name a port from 1 to 65535")
    if parts["ipv6"] is not None:
        address: IPv4Address | IPv6Address | None = _parse_ipv6(parts["ipv6"])
    else:
        name = _to_ascii_name(parts["name"])
        if not _NUMERIC_LABEL.fullmatch(name.rpartition(".")[2]):
            return name, None, port
        address = _parse_ipv4(name)
    return str(address), address, port


def _parse_ipv6(text: str) -> IPv6Address:
    try:
        address = IPv6Address(text)
    except ValueError:
        raise _build_url_error("host", "must not name a malformed IPv6 address") from None
    if address.scope_id is not None:
        raise _build_url_error("host", "must not name an IPv6 zone")
    return address


def _parse_ipv4(text: str) -> IPv4Address:
    try:
        return IPv4Address(text)
    except ValueError:
        raise _build_url_error(
            "IPv4 spelling", "must write an IPv4 address as four plain decimal numbers"
        ) from None


def _to_ascii_name(name: str) -> str:
    ascii_name = name.lower() if name.isascii() else _to_idna(name)
    if not ascii_name:
        raise _build_url_error("host", "must name a host")
    if len(ascii_name) > MAX_HOST_LENGTH:
        raise _build_url_error("host", f"must not name a host longer than {MAX_HOST_LENGTH} characters")
    if ascii_name.endswith("."):
        raise _build_url_error("host", "must not end its host with a dot")
    if not all(_LABEL.fullmatch(label) for label in ascii_name.split(".")):
        raise _build_url_error("host", "must name a host of letters, digits, hyphens and dots")
    return ascii_name


def _to_idna(name: str) -> str:
    # Imported here: loading its tables takes milliseconds, and few hosts need them.
    import idna

    try:
        ascii_name = idna.encode(name, uts46=True).decode("ascii")
    except ValueError:
        raise _build_url_error("host", "must name a host that IDNA allows") from None
    if "xn--" not in ascii_name:
        raise _build_url_error("host", "must not disguise a plain host with look-alike characters")
    return ascii_name


def _format_url(scheme: str, host: str, port: int, rest: str) -> str:
    authority = f"[{host}]" if ":" in host else host
    suffix = "" if port == _DEFAULT_PORTS[scheme] else f":{port}"
    path = rest if rest.startswith("/") else f"/{rest}"
    return f"{scheme}://{authority}{suffix}{quote(path, safe=_KEPT_IN_PATHS)}"


def _check_name(host: str, networks: Sequence[Network]) -> None:
    rule = _find_name_rule(host)
    if rule is not None and not (networks and rule in OWN_RULES):
        raise AddressRefused(f"{host} is a forbidden name ({rule}).", rule=rule)


def _find_name_rule(host: str) -> str | None:
    if host in METADATA_HOSTS or host.startswith("metadata.google."):
        return "metadata"
    for suffix in FORBIDDEN_SUFFIXES:
        if host == suffix or host.endswith(f".{suffix}"):
            return suffix
    return None if "." in host else NO_DOMAIN


def _is_own_name(host: str) -> bool:
    return host != "" and _find_name_rule(host) in OWN_RULES


def _is_within(ip: IPv4Address | IPv6Address, networks: Sequence[Network]) -> bool:
    # A tunnel address leads to another network than its own.
    return not _is_isatap(ip) and any(ip.version == one.version and ip in one for one in networks)


def _parse_address(address: str | IPv4Address | IPv6Address) -> IPv4Address | IPv6Address:
    try:
        return ip_address(address)
    except ValueError:
        raise AddressRefused("This is not an IP address.", rule="malformed") from None


def _find_range_rule(ip: IPv4Address | IPv6Address) -> str | None:
    for network, rule in FORBIDDEN_RANGES:
        if ip.version == network.version and ip in network:
            return rule
    if isinstance(ip, IPv6Address):
        return _find_ipv6_rule(ip)
    return None if ip.is_global else "reserved"


def _find_ipv6_rule(ip: IPv6Address) -> str | None:
    if ip not in GLOBAL_IPV6:
        return "reserved"
    return "ISATAP" if _is_isatap(ip) else None


def _is_isatap(ip: IPv4Address | IPv6Address) -> bool:
    return ip.version == 6 and (int(ip) >> 32) & 0xFFFFFFFF in ISATAP_MARKS
