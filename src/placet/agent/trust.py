"""Which addresses of a service an agent will call, and with what: read leniently, trust strictly.

A 202 comes from somewhere; only that origin, and origins the agent was told to trust, are called at all and
get its credentials. A service that points its poll address into the agent's own network gets nothing.
"""

from collections.abc import Iterable
from urllib.parse import urlsplit

from placet.agent.service_responses import FollowedCase
from placet.errors import AddressRefused
from placet.protocol.addresses import is_secure_or_loopback

Origin = tuple[str, str, int]
PORTS = {"https": 443, "http": 80}


class TrustedOrigins:
    """The origins an agent deals with for one service."""

    def __init__(self, service_url: str, also: Iterable[str] = ()) -> None:
        self._origins = {parse_origin(service_url), *map(parse_origin, also)}

    def check(self, case: FollowedCase) -> None:
        """Raises AddressRefused naming the first address of the case that may not be used."""
        if not is_secure_or_loopback(case.review_url):
            raise AddressRefused("The service's review_url is not https.", rule="review_url")
        called = {"poll_url": case.poll_url, "events_url": case.events_url, "submit_url": case.submit_url}
        for name, url in called.items():
            if url is not None:
                self.require(url, name)

    def require(self, url: str, name: str = "address") -> None:
        """Raises AddressRefused unless this address is secure and of an origin we deal with."""
        if not is_secure_or_loopback(url):
            raise AddressRefused(f"The service's {name} is neither https nor on loopback.", rule="scheme")
        if parse_origin(url) not in self._origins:
            raise AddressRefused(
                f"The service's {name} is at {urlsplit(url).netloc}, which this agent was not told to trust.",
                rule="origin",
            )


def parse_origin(url: str) -> Origin:
    """Scheme, host and port; raises AddressRefused for what has none."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port = None, None
        parts = urlsplit("")
    if not host or parts.scheme not in PORTS:
        raise AddressRefused("This is not the address of a service.", rule="shape")
    return parts.scheme, host.lower(), port or PORTS[parts.scheme]
