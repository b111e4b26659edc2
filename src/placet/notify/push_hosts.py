"""The push services that a browser's endpoint may be at: endpoints are URLs from people."""

from collections.abc import Collection
from fnmatch import fnmatchcase
from urllib.parse import urlsplit

from placet.errors import AddressRefused

PUSH_HOSTS = (
    "fcm.googleapis.com",
    "*.push.services.mozilla.com",
    "web.push.apple.com",
    "*.notify.windows.com",
)
"""The push services of Chrome and most other browsers, Firefox, Safari, and Edge on Windows."""


def require_push_host(endpoint: str, hosts: Collection[str]) -> None:
    """Raise AddressRefused unless the endpoint is at one of these push services."""
    try:
        host = urlsplit(endpoint).hostname or ""
    except ValueError:
        host = ""
    if not any(fnmatchcase(host, one) for one in hosts):
        raise AddressRefused(
            f"{host[:100]!a} is not a push service that this server knows. See notify.web_push_hosts.",
            rule="push_host",
        )
