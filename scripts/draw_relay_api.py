"""Generate the reference of the relay's API from its route table."""

from functools import cache

from placet.pages.api_docs import ApiDocs, read_api
from placet.relay.transports.route_table import RELAY_ROUTES, RELAY_TAGS
from placet.server.api_description import build_openapi_document
from scripts.draw_api import draw_route, draw_shape

URL = "https://placet.example"


def draw_routes() -> str:
    """Return every route of the relay under its topic."""
    api = _api()
    return _link_to_other_page(
        "\n\n".join(
            "\n\n".join(
                [f"## {tag}", about, *(draw_route(one, api) for one in RELAY_ROUTES if one.tag == tag)]
            )
            for tag, about in RELAY_TAGS.items()
        )
    )


def draw_shapes() -> str:
    """Return every JSON object that only the relay's API has."""
    known = _names_of_other_page()
    return _link_to_other_page("\n\n".join(draw_shape(one) for one in _api().models if one.name not in known))


def _names_of_other_page() -> set[str]:
    """Return the names of the objects that the page of the service's API describes."""
    return set(build_openapi_document(URL)["components"]["schemas"])


def _link_to_other_page(text: str) -> str:
    for name in _names_of_other_page():
        text = text.replace(f"](#{name.lower()})", f"](http-api.md#{name.lower()})")
    return text


@cache
def _api() -> ApiDocs:
    return read_api(build_openapi_document(URL, RELAY_ROUTES, tags=RELAY_TAGS))
