"""The server's route table and its OpenAPI document; a relay adds its own routes."""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from placet.http.openapi import ApiInfo, WebhookDescription, build_document
from placet.http.route import RequestBody, Route
from placet.protocol.callback import HITL_SIGNATURE, WEBHOOK_ID, WEBHOOK_SIGNATURE, WEBHOOK_TIMESTAMP
from placet.protocol.event_data import EventData
from placet.protocol.review_callback import ReviewCallback
from placet.server import api_examples as examples
from placet.server.case_api import CaseApi, answers, cases, own_pages
from placet.server.endpoint_api import EndpointApi, callbacks
from placet.server.grant_api import GrantApi, grants
from placet.server.public_api import PublicApi, public

API_VERSION = "1.0.0"
INTRODUCTION = """\
Placet asks a person to decide and returns one answer.

1. `POST /v1/cases` with your API key. You get **202** and a `hitl` object.
2. Send `hitl.review_url` to the reviewer. Anyone with the link can answer, so treat it like a password.
3. Poll `hitl.poll_url`, stream `hitl.events_url`, or receive a callback at your `callback_url`.
4. When `status` is `completed`, act on `result`. When it is `expired` or `cancelled`, nothing was approved.

Use the URLs in the response; do not build them yourself. Every error is flat JSON with a code for \
programs in `error` and a sentence for people in `message`.
"""
CALLBACK_TERMS = """\
Sent to the case's `callback_url` once it has ended; at least once, so expect repeats with the same \
`webhook-id`. Verify the signature before you use the body. Any 2xx is a success, 410 disables the address, \
and anything else is retried for some days."""

TAGS: dict[str, str] = {
    group.tag: group.description
    for group in (cases, answers, own_pages, callbacks, grants, public)
    if group.tag
}
API_ROUTES: tuple[Route, ...] = tuple(
    route
    for api in (CaseApi, EndpointApi, GrantApi, PublicApi)
    for route in api.list_declared_routes()
    if route.tag is not None
)
"""Every route of the API that each server has, as it is declared."""

_INFO = ApiInfo(
    title="Placet HTTP API",
    version=API_VERSION,
    description=INTRODUCTION,
    webhooks=(
        WebhookDescription(
            name="reviewCallback",
            tag="Callbacks",
            summary="What your callback address receives",
            description=CALLBACK_TERMS,
            headers={
                WEBHOOK_ID: "The delivery's id; the same when it is repeated.",
                WEBHOOK_TIMESTAMP: "When this attempt was signed, in seconds since 1970.",
                WEBHOOK_SIGNATURE: "Standard Webhooks signatures over id, timestamp and body.",
                HITL_SIGNATURE: (
                    "`sha256=` and the HMAC-SHA256 of the body in hex, keyed by the secret's text."
                ),
            },
            body=RequestBody(model=ReviewCallback, description="", examples=examples.CALLBACK),
            replies={"2XX": "Received.", "410": "Send nothing to this address any more."},
        ),
    ),
    models=(EventData,),
)


def build_openapi_document(
    base_url: str, more: Sequence[Route] = (), *, tags: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """Return the OpenAPI document of the API under this address; it is shared, so do not change it.

    `more` are routes that not every server has, under `tags` of their own.
    """
    if not more:
        return _build_plain_document(base_url)
    return build_document(base_url, (*API_ROUTES, *more), {**TAGS, **(tags or {})}, _INFO)


@cache
def _build_plain_document(base_url: str) -> dict[str, Any]:
    return build_document(base_url, API_ROUTES, TAGS, _INFO)
