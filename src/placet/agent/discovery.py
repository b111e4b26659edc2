"""What a service says about itself at /.well-known/hitl.json, and the transport that an agent picks from it.

The document is a hint. The URLs of a case decide what can be called, and a service without a document is
followed as before.
"""

from collections.abc import Mapping
from typing import Any, Literal
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from placet.agent.service_responses import FollowedCase
from placet.protocol.service_paths import DISCOVERY

DISCOVERY_TIMEOUT_S = 3.0
MIN_INTERVAL_LIMIT_S, MAX_INTERVAL_LIMIT_S = 60.0, 300.0
"""No service makes an agent poll less often than this."""

DecisionTransport = Literal["sse", "callback", "polling"]
"""How an agent learns of a decision. It also polls in every case, because the others may fail silently."""


class ServiceCapabilities(Struct, frozen=True, kw_only=True):
    """What the discovery document says; None where it says nothing."""

    supports_streams: bool | None = None
    supports_callbacks: bool = False
    min_interval_s: float | None = None
    """The shortest time between two polls."""
    recommended_interval_s: float | None = None
    """The time between two polls that the service would like."""


UNKNOWN_SERVICE = ServiceCapabilities()


def build_discovery_url(service_url: str) -> str:
    """Return the address of the discovery document of the service with this URL."""
    parts = urlsplit(service_url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{DISCOVERY}"


def read_capabilities(status: int, body: bytes) -> ServiceCapabilities:
    """Return what a discovery document says, in the nested shape or in the flat one of version 0.5."""
    document = _decode_object(body) if status == 200 else {}
    nested = _get_object(document, "hitl_protocol")
    capabilities = _get_object(nested, "capabilities")
    transports = capabilities.get("transports")
    limits = _get_object(nested, "rate_limits")
    calls_back = _get_object(document, "features").get("callback")
    return ServiceCapabilities(
        supports_streams="sse" in transports if isinstance(transports, list) else None,
        supports_callbacks="callback" in transports if isinstance(transports, list) else calls_back is True,
        min_interval_s=_read_seconds(limits.get("poll_min_interval_seconds"), MIN_INTERVAL_LIMIT_S),
        recommended_interval_s=_read_seconds(
            limits.get("poll_recommended_interval_seconds"), MAX_INTERVAL_LIMIT_S
        ),
    )


def choose_transport(
    case: FollowedCase, service: ServiceCapabilities, *, takes_callbacks: bool
) -> DecisionTransport:
    """Return how to learn of the decision: by the event stream, by callbacks, or by polls alone."""
    if case.events_url is not None and service.supports_streams is not False:
        return "sse"
    return "callback" if takes_callbacks and service.supports_callbacks else "polling"


def _decode_object(body: bytes) -> Mapping[str, Any]:
    try:
        found = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _get_object(document: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = document.get(name)
    return found if isinstance(found, dict) else {}


def _read_seconds(value: object, most: float) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
        return None
    return min(float(value), most)
