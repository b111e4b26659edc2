"""Draws the relay's API from the words that its addresses have for themselves."""

import asyncio
from functools import cache
from typing import Any

from placet.bootstrap import build
from placet.pages.api_docs import ApiDocs, read_api
from placet.relay.settings import RelaySettings
from placet.server.openapi import openapi_document
from placet.server.openapi.route import Route
from placet.server.openapi.with_relay import RELAY_TAGS, relay_routes
from placet.settings import Settings
from placet.stores.memory import MemoryStore
from scripts.draw_api import draw_route, draw_shape

URL = "https://placet.example"


def draw_routes() -> str:
    """Every address of the relay under its topic."""
    routes, api = _routes(), _api()
    return _linked(
        "\n\n".join(
            "\n\n".join([f"## {tag}", about, *(draw_route(one, api) for one in routes if one.tag == tag)])
            for tag, about in RELAY_TAGS.items()
        )
    )


def draw_shapes() -> str:
    """Every JSON object that travels there and nowhere else."""
    known = _known()
    return _linked("\n\n".join(draw_shape(one) for one in _api().models if one.name not in known))


def _known() -> set[str]:
    """What stands on the page of the rest of the API."""
    return set(openapi_document(URL)["components"]["schemas"])


def _linked(text: str) -> str:
    for name in _known():
        text = text.replace(f"](#{name.lower()})", f"](http-api.md#{name.lower()})")
    return text


@cache
def _routes() -> tuple[Route, ...]:
    async def wired() -> tuple[Any, ...]:
        settings = Settings(relay=RelaySettings(enabled=True), signing="none")
        parts = await build(settings, store=MemoryStore())
        found = parts.relay.api.addresses if parts.relay is not None else ()
        await parts.stop()
        return found

    return relay_routes(asyncio.run(wired()))


@cache
def _api() -> ApiDocs:
    return read_api(openapi_document(URL, _routes(), tags=RELAY_TAGS))
