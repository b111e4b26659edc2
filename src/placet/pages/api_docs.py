"""Read an OpenAPI document for the page that shows it; unknown parts are left out."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from markupsafe import Markup, escape
from msgspec import Struct

METHODS = ("get", "post", "put", "patch", "delete")
_REF = "#/components/schemas/"
_CODE = re.compile(r"`([^`\n]+)`")
_STRONG = re.compile(r"\*\*([^*\n]+)\*\*")


class TypeName(Struct, frozen=True, kw_only=True):
    """One part of a type: plain text, or the name of a model that the page links to."""

    text: str
    model: str | None = None


class DocumentedField(Struct, frozen=True, kw_only=True):
    """One parameter, property or response."""

    name: str
    type: tuple[TypeName, ...] = ()
    required: bool = False
    place: str = ""
    description: str = ""


class DocumentedOperation(Struct, frozen=True, kw_only=True):
    """One operation of the API: a method and a path."""

    method: str
    path: str
    anchor: str
    summary: str
    description: str
    parameters: tuple[DocumentedField, ...]
    body: tuple[TypeName, ...]
    responses: tuple[DocumentedField, ...]


class DocumentedModel(Struct, frozen=True, kw_only=True):
    """One JSON schema."""

    name: str
    type: tuple[TypeName, ...]
    description: str
    properties: tuple[DocumentedField, ...]


class ApiDocs(Struct, frozen=True, kw_only=True):
    """The operations and models of an API."""

    title: str
    version: str
    description: str
    operations: tuple[DocumentedOperation, ...]
    models: tuple[DocumentedModel, ...]


def format_description(text: str) -> Markup:
    """Return a description as markup; of its Markdown, only code and strong text are formatted."""
    coded = _CODE.sub(r"<code>\1</code>", str(escape(text)))
    return Markup(_STRONG.sub(r"<strong>\1</strong>", coded))  # noqa: S704 - escaped before anything was added


def read_api(openapi: Mapping[str, Any]) -> ApiDocs:
    """Return the parts of an OpenAPI 3.1 document that the page shows."""
    info = openapi.get("info", {})
    schemas = openapi.get("components", {}).get("schemas", {})
    return ApiDocs(
        title=info.get("title", "API"),
        version=info.get("version", ""),
        description=info.get("description", ""),
        operations=tuple(_list_operations(openapi)),
        models=tuple(_describe_model(name, schema) for name, schema in schemas.items()),
    )


def _list_operations(openapi: Mapping[str, Any]) -> Iterator[DocumentedOperation]:
    for path, item in openapi.get("paths", {}).items():
        for method in METHODS:
            if method in item:
                yield _describe_operation(openapi, path, method, item[method], item.get("parameters", []))


def _describe_operation(
    openapi: Mapping[str, Any], path: str, method: str, spec: Mapping[str, Any], shared: list[Any]
) -> DocumentedOperation:
    parameters = [_resolve(openapi, raw) for raw in [*shared, *spec.get("parameters", [])]]
    body = _resolve(openapi, spec.get("requestBody", {}))
    return DocumentedOperation(
        method=method.upper(),
        path=path,
        anchor=spec.get("operationId") or f"{method}-{path.strip('/').replace('/', '-')}",
        summary=spec.get("summary", ""),
        description=spec.get("description", ""),
        parameters=tuple(map(_describe_parameter, parameters)),
        body=tuple(_list_content_types(body)),
        responses=tuple(
            DocumentedField(
                name=str(status),
                type=tuple(_list_content_types(_resolve(openapi, response))),
                description=_resolve(openapi, response).get("description", ""),
            )
            for status, response in spec.get("responses", {}).items()
        ),
    )


def _describe_parameter(raw: Mapping[str, Any]) -> DocumentedField:
    return DocumentedField(
        name=raw.get("name", ""),
        type=tuple(_list_type_names(raw.get("schema", {}))),
        required=raw.get("required", False),
        place=raw.get("in", ""),
        description=raw.get("description", ""),
    )


def _describe_model(name: str, schema: Mapping[str, Any]) -> DocumentedModel:
    required = schema.get("required", [])
    return DocumentedModel(
        name=name,
        type=tuple(_list_type_names(schema)),
        description=schema.get("description", ""),
        properties=tuple(
            DocumentedField(
                name=key,
                type=tuple(_list_type_names(value)),
                required=key in required,
                description=value.get("description", "") if isinstance(value, Mapping) else "",
            )
            for key, value in schema.get("properties", {}).items()
        ),
    )


def _resolve(openapi: Mapping[str, Any], raw: Mapping[str, Any]) -> Mapping[str, Any]:
    target: Any = openapi
    if "$ref" not in raw:
        return raw
    for part in str(raw["$ref"]).removeprefix("#/").split("/"):
        target = target.get(part, {})
    return target if isinstance(target, Mapping) else {}


def _list_content_types(holder: Mapping[str, Any]) -> Iterator[TypeName]:
    content = holder.get("content", {})
    for media, described in list(content.items())[:1]:
        schema = described.get("schema", {})
        yield from _list_type_names(schema) if schema and "json" in media else [TypeName(text=media)]


def _list_type_names(schema: Any) -> Iterator[TypeName]:
    if not isinstance(schema, Mapping):
        yield TypeName(text="anything")
    elif "$ref" in schema:
        name = str(schema["$ref"]).removeprefix(_REF)
        yield TypeName(text=name, model=name)
    elif choices := schema.get("anyOf") or schema.get("oneOf"):
        yield from _join_types(choices)
    elif "enum" in schema:
        yield TypeName(text=" | ".join(map(str, schema["enum"])))
    elif "const" in schema:
        yield TypeName(text=str(schema["const"]))
    elif schema.get("type") == "array":
        yield TypeName(text="list of ")
        yield from _list_type_names(schema.get("items", {}))
    else:
        yield TypeName(text=_format_plain_type(schema))


def _join_types(choices: list[Any]) -> Iterator[TypeName]:
    for number, choice in enumerate(choices):
        if number:
            yield TypeName(text=" or ")
        yield from _list_type_names(choice)


def _format_plain_type(schema: Mapping[str, Any]) -> str:
    given = schema.get("type", "anything")
    name = " or ".join(given) if isinstance(given, list) else str(given)
    return f"{name} ({schema['format']})" if "format" in schema else name
