"""The relay's API as it describes itself, without a server."""

from typing import Any

import msgspec

from placet.relay.transports.route_table import RELAY_ROUTES, RELAY_TAGS
from placet.server.api_description import build_openapi_document


def load_relay_document() -> dict[str, Any]:
    """The description of the relay's own API, and of nothing else.

    What several addresses take stands with the first of them only: it is read in one place.
    """
    whole = build_openapi_document("http://127.0.0.1", RELAY_ROUTES, tags=RELAY_TAGS)
    found: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(whole))
    found["paths"] = {path: item for path, item in found["paths"].items() if _is_own(path)}
    told: set[str] = set()
    for operation in (one for item in found["paths"].values() for one in item.values()):
        news = [one for one in operation["parameters"] if one["in"] == "path" or str(one) not in told]
        told |= {str(one) for one in news}
        operation["parameters"] = news
    return found


def _is_own(path: str) -> bool:
    others = ("/relay/v1/agents/", "/relay/v1/webhooks/")  # A2A's own
    return path.startswith(("/relay/", "/audit/")) and not path.startswith(others)
