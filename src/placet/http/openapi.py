"""The OpenAPI 3.1 document of a route table: operations from routes, schemas from their models."""

from collections.abc import Iterator, Mapping, Sequence
from http import HTTPStatus
from typing import Annotated, Any

from msgspec import Meta, Struct

from placet.errors import InvalidToken, PlacetError, RateLimited, Unavailable
from placet.http.route import JSON, Credential, Parameter, RequestBody, Route, RouteReply
from placet.http.schemas import ComponentSchemas

OPENAPI_VERSION = "3.1.0"
_SECURITY: Mapping[Credential, list[dict[str, list[str]]]] = {
    "apiKey": [{"apiKey": []}],
    "submitToken": [{"submitToken": []}],
    "apiKeyOrNone": [{"apiKey": []}, {}],
    "none": [],
}
_SECURITY_SCHEMES = {
    "apiKey": {
        "type": "http",
        "scheme": "bearer",
        "description": "The API key of a service. `placet key create NAME` creates one.",
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
    "WWW-Authenticate": ("The accepted type of credential.", {"type": "string"}),
}
_ERROR_HEADERS: Mapping[int, str] = {
    InvalidToken.status: "WWW-Authenticate",
    RateLimited.status: "Retry-After",
    Unavailable.status: "Retry-After",
}


def list_wire_errors() -> tuple[type[PlacetError], ...]:
    """Return every error that a client can receive, in the order of their definition."""
    return tuple(error for error in _list_family(PlacetError) if error.status != 500)


def list_wire_codes() -> list[str]:
    """Return every value of `error`, each once."""
    return list(dict.fromkeys(error.code for error in list_wire_errors()))


def _list_family(error: type[PlacetError]) -> Iterator[type[PlacetError]]:
    yield error
    for kind in error.__subclasses__():
        yield from _list_family(kind)


ErrorCode = Annotated[
    str, Meta(description="What went wrong, for programs.", extra_json_schema={"enum": list_wire_codes()})
]


class Error(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Every error: a code for programs, a message for people, and details that help to fix it."""

    error: ErrorCode
    message: Annotated[str, Meta(description="What to fix, for people.")]
    case_id: str | None = None
    review_url: Annotated[
        str | None, Meta(description="Where the person can answer instead; carries no token.")
    ] = None
    path: Annotated[str | None, Meta(description="The path of the invalid value in your request.")] = None
    fields: Annotated[dict[str, Any] | None, Meta(description="What is wrong, by the answer's field.")] = None
    retry_after: Annotated[int | None, Meta(description="Seconds to wait before you ask again.")] = None


class WebhookDescription(Struct, frozen=True, kw_only=True):
    """A request that the server sends, with the headers it carries by name."""

    name: str
    tag: str
    summary: str
    description: str
    headers: Mapping[str, str]
    body: RequestBody
    replies: Mapping[str, str]
    """What the receiver's statuses mean."""


class ApiInfo(Struct, frozen=True, kw_only=True):
    """What a document says besides its routes."""

    title: str
    version: str
    description: str
    webhooks: tuple[WebhookDescription, ...] = ()
    models: tuple[Any, ...] = ()
    """Models that descriptions refer to and no route names."""


def build_document(
    base_url: str, routes: Sequence[Route], tags: Mapping[str, str], info: ApiInfo
) -> dict[str, Any]:
    """Return the OpenAPI document of the routes that have a tag."""
    described = [route for route in routes if route.tag is not None]
    schemas = _collect_schemas(described, info)
    paths: dict[str, dict[str, Any]] = {}
    for route in described:
        paths.setdefault(route.path, {})[route.method.lower()] = _describe_operation(route, schemas)
    return {
        "openapi": OPENAPI_VERSION,
        "info": {"title": info.title, "version": info.version, "description": info.description},
        "servers": [{"url": base_url}],
        "tags": [{"name": name, "description": text} for name, text in tags.items()],
        "paths": paths,
        "webhooks": {one.name: {"post": _describe_webhook(one, schemas)} for one in info.webhooks},
        "components": {
            "schemas": schemas.components,
            "securitySchemes": _SECURITY_SCHEMES,
            "headers": {name: _describe_header(name) for name in _HEADERS},
        },
    }


def _collect_schemas(routes: Sequence[Route], info: ApiInfo) -> ComponentSchemas:
    read: list[Any] = [parameter.type for route in routes for parameter in route.parameters]
    read += [route.body.model for route in routes if route.body]
    written = [reply.model for route in routes for reply in route.replies if reply.model is not None]
    sent = [one.body.model for one in info.webhooks]
    return ComponentSchemas(read=read, written=[*written, Error, *info.models, *sent])


def _describe_operation(route: Route, schemas: ComponentSchemas) -> dict[str, Any]:
    replies = {str(reply.status): _describe_reply(reply, schemas) for reply in route.replies}
    operation = {
        "operationId": route.name,
        "tags": [route.tag],
        "summary": route.summary,
        "description": route.description,
        "security": _SECURITY[route.credential],
        "parameters": [_describe_parameter(one, schemas) for one in route.parameters],
        "responses": {**replies, **_describe_errors(route)},
    }
    return {**operation, "requestBody": _describe_body(route.body, schemas)} if route.body else operation


def _describe_parameter(parameter: Parameter, schemas: ComponentSchemas) -> dict[str, Any]:
    return {
        "name": parameter.name,
        "in": parameter.location,
        "required": parameter.location == "path",
        "description": parameter.description,
        "schema": schemas.build_schema(parameter.type),
    }


def _describe_body(body: RequestBody, schemas: ComponentSchemas) -> dict[str, Any]:
    schema = schemas.build_schema(body.model)
    if body.rules:
        schema["allOf"] = list(body.rules)
    described = {"description": body.description} if body.description else {}
    content = {JSON: _describe_content(schema, body.examples)}
    return {**described, "required": body.required, "content": content}


def _describe_reply(reply: RouteReply, schemas: ComponentSchemas) -> dict[str, Any]:
    described: dict[str, Any] = {"description": reply.description}
    headers: dict[str, Any] = {name: _describe_header(name, required=True) for name in reply.headers}
    headers |= {name: {"$ref": f"#/components/headers/{name}"} for name in reply.optional_headers}
    if headers:
        described["headers"] = headers
    if reply.model is not None:
        content = _describe_content(schemas.build_schema(reply.model), reply.examples)
        described["content"] = {reply.media: content}
    return described


def _describe_errors(route: Route) -> dict[str, Any]:
    """Return one response for each status, with the codes it may carry."""
    by_status: dict[int, list[type[PlacetError]]] = {}
    for error in sorted(route.errors, key=lambda error: error.status):
        by_status.setdefault(error.status, []).append(error)
    return {str(status): _describe_error(status, errors) for status, errors in by_status.items()}


def _describe_error(status: int, errors: list[type[PlacetError]]) -> dict[str, Any]:
    bodies = {error.code: error().body() for error in errors}
    schema = {"$ref": "#/components/schemas/Error", "properties": {"error": {"enum": list(bodies)}}}
    described: dict[str, Any] = {
        "description": HTTPStatus(status).phrase,
        "content": {JSON: _describe_content(schema, bodies)},
    }
    if header := _ERROR_HEADERS.get(status):
        described["headers"] = {header: _describe_header(header, required=True)}
    return described


def _describe_header(name: str, *, required: bool = False) -> dict[str, Any]:
    description, schema = _HEADERS[name]
    return {"description": description, "required": required, "schema": schema}


def _describe_content(schema: dict[str, Any], examples: Mapping[str, Any]) -> dict[str, Any]:
    content: dict[str, Any] = {"schema": schema}
    if examples:
        content["examples"] = {name: {"value": value} for name, value in examples.items()}
    return content


def _describe_webhook(webhook: WebhookDescription, schemas: ComponentSchemas) -> dict[str, Any]:
    return {
        "operationId": webhook.name,
        "tags": [webhook.tag],
        "summary": webhook.summary,
        "description": webhook.description,
        "parameters": [
            {
                "name": name,
                "in": "header",
                "required": True,
                "description": text,
                "schema": {"type": "string"},
            }
            for name, text in webhook.headers.items()
        ],
        "requestBody": _describe_body(webhook.body, schemas),
        "responses": {status: {"description": text} for status, text in webhook.replies.items()},
    }
