"""The OpenAPI document, put together from the table of routes."""

from collections.abc import Mapping, Sequence
from functools import cache
from http import HTTPStatus
from typing import Any

from placet.errors import InvalidToken, PlacetError, RateLimited, Unavailable
from placet.protocol.callback import HITL_SIGNATURE, WEBHOOK_ID, WEBHOOK_SIGNATURE, WEBHOOK_TIMESTAMP
from placet.protocol.event_data import EventData
from placet.protocol.review_callback import ReviewCallback
from placet.server.openapi import examples
from placet.server.openapi.callback_routes import CALLBACKS
from placet.server.openapi.models import Error
from placet.server.openapi.route import JSON, Body, Credential, Parameter, Reply, Route
from placet.server.openapi.routes import ROUTES, TAGS
from placet.server.openapi.schemas import Schemas

API_VERSION = "1.0.0"
INTRODUCTION = """\
Placet puts a question before a person and brings back one answer.

1. `POST /v1/cases` with your API key. You get **202** and a `hitl` object.
2. Give `hitl.review_url` to the person. Whoever holds the link can answer, so treat it like a password.
3. Ask `hitl.poll_url` now and then, follow `hitl.events_url`, or be told at your `callback_url`.
4. When `status` is `completed`, act on `result`. When it is `expired` or `cancelled`, nobody said yes.

Use the addresses you are given; do not build them yourself. Every refusal is flat JSON with a code for \
programs in `error` and a sentence for people in `message`.
"""
CALLBACK_TERMS = """\
Sent to the case's `callback_url` once it has ended; at least once, so expect repeats with the same \
`webhook-id`. Check a signature before you believe it. Any 2xx ends the matter, 410 switches the address \
off, and anything else is tried again for some days."""

_CREDENTIALS: Mapping[Credential, list[dict[str, list[str]]]] = {
    "apiKey": [{"apiKey": []}],
    "submitToken": [{"submitToken": []}],
    "apiKeyOrNone": [{"apiKey": []}, {}],
    "none": [],
}
_SECURITY_SCHEMES = {
    "apiKey": {
        "type": "http",
        "scheme": "bearer",
        "description": "The API key of whoever opens cases. `placet key create NAME` makes one.",
    },
    "submitToken": {
        "type": "http",
        "scheme": "bearer",
        "description": "The `submit_token` of one case, for answering that case and nothing else.",
    },
}
_HEADERS: Mapping[str, tuple[str, dict[str, Any]]] = {
    "ETag": ("The version of the case; send it back as If-None-Match.", {"type": "string"}),
    "Retry-After": ("Seconds to wait before the next request.", {"type": "integer", "minimum": 1}),
    "X-RateLimit-Limit": ("Polls a minute for this case.", {"type": "integer"}),
    "X-RateLimit-Remaining": ("Polls left right now.", {"type": "integer"}),
    "WWW-Authenticate": ("Which kind of credential is wanted.", {"type": "string"}),
}
_ERROR_HEADERS: Mapping[int, str] = {
    InvalidToken.status: "WWW-Authenticate",
    RateLimited.status: "Retry-After",
    Unavailable.status: "Retry-After",
}
_SIGNATURES = {
    WEBHOOK_ID: "The delivery's id; the same when it is repeated.",
    WEBHOOK_TIMESTAMP: "When this attempt was signed, in seconds since 1970.",
    WEBHOOK_SIGNATURE: "Standard Webhooks signatures over id, timestamp and body.",
    HITL_SIGNATURE: "`sha256=` and the HMAC-SHA256 of the body in hex, keyed by the secret's text.",
}


def openapi_document(
    base_url: str, more: Sequence[Route] = (), *, tags: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """The whole description of the API served under this address; shared, so read it only.

    `more` are routes that not every server has, under `tags` of their own.
    """
    if not more:
        return _plain_document(base_url)
    return _document(base_url, (*ROUTES, *more), {**TAGS, **(tags or {})})


@cache
def _plain_document(base_url: str) -> dict[str, Any]:
    return _document(base_url, ROUTES, TAGS)


def _document(base_url: str, routes: Sequence[Route], tags: Mapping[str, str]) -> dict[str, Any]:
    schemas = _schemas(routes)
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method] = _operation(route, schemas)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Placet HTTP API", "version": API_VERSION, "description": INTRODUCTION},
        "servers": [{"url": base_url}],
        "tags": [{"name": name, "description": about} for name, about in tags.items()],
        "paths": paths,
        "webhooks": {"reviewCallback": {"post": _webhook(schemas)}},
        "components": {
            "schemas": schemas.components,
            "securitySchemes": _SECURITY_SCHEMES,
            "headers": {name: _header(name) for name in _HEADERS},
        },
    }


def _schemas(routes: Sequence[Route]) -> Schemas:
    read: list[Any] = [parameter.type for route in routes for parameter in route.parameters]
    read += [route.body.model for route in routes if route.body]
    written = [reply.model for route in routes for reply in route.replies if reply.model is not None]
    return Schemas(read=read, written=[*written, Error, EventData, ReviewCallback])


def _operation(route: Route, schemas: Schemas) -> dict[str, Any]:
    replies = {str(reply.status): _reply(reply, schemas) for reply in route.replies}
    shown = {
        "operationId": route.name,
        "tags": [route.tag],
        "summary": route.summary,
        "description": route.about,
        "security": _CREDENTIALS[route.credential],
        "parameters": [_parameter(one, schemas) for one in route.parameters],
        "responses": {**replies, **_refusals(route)},
    }
    return {**shown, "requestBody": _body(route.body, schemas)} if route.body else shown


def _parameter(parameter: Parameter, schemas: Schemas) -> dict[str, Any]:
    return {
        "name": parameter.name,
        "in": parameter.where,
        "required": parameter.where == "path",
        "description": parameter.about,
        "schema": schemas.of(parameter.type),
    }


def _body(body: Body, schemas: Schemas) -> dict[str, Any]:
    schema = schemas.of(body.model)
    if body.rules:
        schema["allOf"] = list(body.rules)
    content = {"schema": schema}
    if body.examples:
        content["examples"] = _examples(body.examples)
    return {"description": body.about, "required": body.required, "content": {JSON: content}}


def _reply(reply: Reply, schemas: Schemas) -> dict[str, Any]:
    shown: dict[str, Any] = {"description": reply.about}
    headers: dict[str, Any] = {name: _header(name, required=True) for name in reply.headers}
    headers |= {name: {"$ref": f"#/components/headers/{name}"} for name in reply.some_headers}
    if headers:
        shown["headers"] = headers
    if reply.model is not None:
        content = {"schema": schemas.of(reply.model)}
        if reply.examples:
            content["examples"] = _examples(reply.examples)
        shown["content"] = {reply.media: content}
    return shown


def _refusals(route: Route) -> dict[str, Any]:
    """One response for each status, with the codes it may carry."""
    by_status: dict[int, list[type[PlacetError]]] = {}
    for error in sorted(route.errors, key=lambda error: error.status):
        by_status.setdefault(error.status, []).append(error)
    return {str(status): _refusal(status, errors) for status, errors in by_status.items()}


def _refusal(status: int, errors: list[type[PlacetError]]) -> dict[str, Any]:
    bodies = {error.code: error().body() for error in errors}
    schema = {"$ref": "#/components/schemas/Error", "properties": {"error": {"enum": list(bodies)}}}
    shown: dict[str, Any] = {
        "description": HTTPStatus(status).phrase,
        "content": {JSON: {"schema": schema, "examples": _examples(bodies)}},
    }
    if header := _ERROR_HEADERS.get(status):
        shown["headers"] = {header: _header(header, required=True)}
    return shown


def _header(name: str, *, required: bool = False) -> dict[str, Any]:
    about, schema = _HEADERS[name]
    return {"description": about, "required": required, "schema": schema}


def _examples(examples: Mapping[str, Any]) -> dict[str, Any]:
    return {name: {"value": value} for name, value in examples.items()}


def _webhook(schemas: Schemas) -> dict[str, Any]:
    headers = [
        {"name": name, "in": "header", "required": True, "description": about, "schema": {"type": "string"}}
        for name, about in _SIGNATURES.items()
    ]
    content = {"schema": schemas.of(ReviewCallback), "examples": _examples(examples.CALLBACK)}
    return {
        "operationId": "reviewCallback",
        "tags": [CALLBACKS],
        "summary": "What your callback address receives",
        "description": CALLBACK_TERMS,
        "parameters": headers,
        "requestBody": {"required": True, "content": {JSON: content}},
        "responses": {
            "2XX": {"description": "Received."},
            "410": {"description": "Send nothing to this address any more."},
        },
    }
