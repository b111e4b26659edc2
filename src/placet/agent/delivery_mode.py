"""How a program in a terminal brings the review link to a person (spec 7, "Delivery Modes")."""

from collections.abc import Mapping
from typing import Literal
from urllib.parse import urlsplit

from placet.protocol.addresses import LOOPBACK_HOSTS

DeliveryMode = Literal["browser", "qr", "print"]

GRAPHICAL_PLATFORMS = frozenset({"darwin", "win32"})
REMOTE_VARIABLES = ("SSH_CONNECTION", "SSH_TTY", "SSH_CLIENT")
DISPLAY_VARIABLES = ("DISPLAY", "WAYLAND_DISPLAY")


def choose_delivery_mode(
    review_url: str, *, environ: Mapping[str, str], platform: str, is_watched: bool
) -> DeliveryMode:
    """Return how to show the link: in the browser of this desktop, as a QR code over SSH, or as text.

    `is_watched` says whether a person sees the output: it is a terminal and not a file. A phone cannot open
    a link to this computer, so such a link has no QR code.
    """
    if not is_watched:
        return "print"
    if any(environ.get(name) for name in REMOTE_VARIABLES):
        return "print" if urlsplit(review_url).hostname in LOOPBACK_HOSTS else "qr"
    return "browser" if has_desktop(environ, platform) else "print"


def has_desktop(environ: Mapping[str, str], platform: str) -> bool:
    """Return whether programs here can open windows."""
    return platform in GRAPHICAL_PLATFORMS or any(environ.get(name) for name in DISPLAY_VARIABLES)
