"""Draws the relay's API from its route table."""

from functools import cache

from placet.pages.api_docs import ApiDocs, read_api
from placet.relay.api.table import RELAY_ROUTES, RELAY_TAGS
from placet.server.api_description import openapi_document
from scripts.draw_api import draw_route, draw_shape

URL = "https://placet.example"


def draw_routes() -> str:
    """Every address of the relay under its topic."""
    api = _api()
    return _linked(
        "\n\n".join(
            "\n\n".join(
                [f"## {tag}", about, *(draw_route(one, api) for one in RELAY_ROUTES if one.tag == tag)]
            )
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
def _api() -> ApiDocs:
    return read_api(openapi_document(URL, RELAY_ROUTES, tags=RELAY_TAGS))
