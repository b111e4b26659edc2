"""Draws the HTTP API from the table that the OpenAPI document is made of."""

from functools import cache

from placet.http.route import Route
from placet.pages.api_docs import ApiDocs, DocumentedField, DocumentedModel, DocumentedOperation, read_api
from placet.server.api_description import API_ROUTES, TAGS, build_openapi_document
from scripts.drawing import code, table

CREDENTIALS = {
    "apiKey": "an API key",
    "submitToken": "the case's `submit_token`",
    "apiKeyOrNone": "the API key that opened the case; none for a case that was opened without one",
    "none": "none",
}


def draw_routes() -> str:
    """Every route under its topic."""
    return "\n\n".join(
        "\n\n".join(
            [f"## {tag}", about, *(draw_route(route, _api()) for route in API_ROUTES if route.tag == tag)]
        )
        for tag, about in TAGS.items()
    )


def draw_shapes() -> str:
    """Every JSON object that travels, property by property."""
    return "\n\n".join(draw_shape(model) for model in _api().models)


@cache
def _api() -> ApiDocs:
    return read_api(build_openapi_document("https://placet.example"))


def _operation(route: Route, api: ApiDocs) -> DocumentedOperation:
    wanted = (route.method, route.path)
    return next(one for one in api.operations if (one.method, one.path) == wanted)


def draw_route(route: Route, api: ApiDocs) -> str:
    """One route of an API."""
    operation = _operation(route, api)
    parts = [
        f"### {route.method} {route.path}",
        f"**{route.summary.rstrip('.')}{'' if route.summary.endswith('?') else '.'}** {route.description}",
        f"Credential: {CREDENTIALS[route.credential]}.{_draw_scope(route)}",
    ]
    if route.parameters:
        rows = [(code(row.name), row.place, row.description) for row in operation.parameters]
        parts.append(table(("Parameter", "In", "Meaning"), rows))
    if route.body:
        needed = "" if route.body.required else " May be left out."
        parts.append(f"Body: {_type(operation.body)}. {route.body.description}{needed}")
    parts.append(table(("Status", "Body", "Meaning"), [*_replies(operation, route), *_refusals(route)]))
    return "\n\n".join(parts)


def _draw_scope(route: Route) -> str:
    return "" if route.scope is None else f" The key needs the scope {code(route.scope)}."


def _replies(operation: DocumentedOperation, route: Route) -> list[tuple[str, str, str]]:
    succeeding = {str(reply.status) for reply in route.replies}
    return [
        (row.name, _type(row.type), row.description) for row in operation.responses if row.name in succeeding
    ]


def _refusals(route: Route) -> list[tuple[str, str, str]]:
    errors = sorted(dict.fromkeys(route.errors), key=lambda error: error.status)
    statuses = dict.fromkeys(error.status for error in errors)
    return [
        (str(status), "[Error](#error)", ", ".join(code(one.code) for one in errors if one.status == status))
        for status in statuses
    ]


def draw_shape(model: DocumentedModel) -> str:
    """One JSON object, property by property."""
    parts = [f"### {model.name}", model.description]
    if model.properties:
        rows = [(code(row.name), _type(row.type), _about(row)) for row in model.properties]
        parts.append(table(("Property", "Type", "Meaning"), rows))
    else:
        parts.append(_type(model.type))
    return "\n\n".join(parts)


def _about(row: DocumentedField) -> str:
    return " ".join(part for part in ("Required." if row.required else "", row.description) if part)


def _type(words: tuple[object, ...]) -> str:
    return "".join(_word(word) for word in words)


def _word(word: object) -> str:
    model, text = getattr(word, "model", None), getattr(word, "text", "")
    return f"[{model}](#{model.lower()})" if model else text
