"""The description of a server that relays: everything any server has, A2A, and the relay's own API."""

from collections.abc import Iterable
from typing import Any

from placet.server.openapi import member_routes, relaying_routes
from placet.server.openapi.document import openapi_document
from placet.server.openapi.route import Route

RELAY_TAGS = {**relaying_routes.TAGS, **member_routes.TAGS}


def relay_routes(addresses: Iterable[Any]) -> tuple[Route, ...]:
    """What a relay with these addresses serves."""
    return (*relaying_routes.RELAYING_ROUTES, *member_routes.member_routes(addresses))


def openapi_with_relay(base_url: str, addresses: Iterable[Any]) -> dict[str, Any]:
    """The whole description of the API served under this address."""
    return openapi_document(base_url, relay_routes(addresses), tags=RELAY_TAGS)
