"""Which URLs of a service an agent calls.

Only the origin of the 202, and the origins that the agent is configured to trust, are called and receive the
agent's credentials. A service cannot make the agent call its internal network.
"""

from collections.abc import Iterable
from urllib.parse import urlsplit

from placet.agent.service_responses import FollowedCase
from placet.errors import AddressRefused
from placet.protocol.addresses import is_secure_or_loopback

Origin = tuple[str, str, int]
PORTS = {"https": 443, "http": 80}


class TrustedOrigins:
    """The origins that an agent calls for one service."""

    def __init__(self, service_url: str, also: Iterable[str] = ()) -> None:
        self._origins = {parse_origin(service_url), *map(parse_origin, also)}

    def check(self, case: FollowedCase) -> None:
        """Raise AddressRefused naming the first URL of the case that must not be called."""
        if not is_secure_or_loopback(case.review_url):
            raise AddressRefused("The service's review_url is not https.", rule="review_url")
        called = {"poll_url": case.poll_url, "events_url": case.events_url, "submit_url": case.submit_url}
        for name, url in called.items():
            if url is not None:
                self.require(url, name)

    def require(self, url: str, name: str = "address") -> None:
        """Raise AddressRefused unless the URL is secure and its origin is trusted."""
        if not is_secure_or_loopback(url):
            raise AddressRefused(f"The service's {name} is neither https nor on loopback.", rule="scheme")
        if parse_origin(url) not in self._origins:
            raise AddressRefused(
                f"The service's {name} is at {urlsplit(url).netloc}, which is not trusted."
                " Add this origin to the trusted ones if it belongs to the service.",
                rule="origin",
            )


def parse_origin(url: str) -> Origin:
    """Return scheme, host and port; raises AddressRefused if there is none."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port = None, None
        parts = urlsplit("")
    if not host or parts.scheme not in PORTS:
        raise AddressRefused("This is not the http(s) URL of a service.", rule="shape")
    return parts.scheme, host.lower(), port or PORTS[parts.scheme]
