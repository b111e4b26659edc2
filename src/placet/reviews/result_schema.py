"""Answers whose data a service describes with a JSON Schema, beyond the fields of the review type."""

import json
from collections.abc import Mapping
from typing import Any

from placet.errors import InvalidSubmission, ValidationFailed
from placet.protocol.conversion import quote
from placet.protocol.json_schema import UnusableSchema, compile_schema, find_violations
from placet.reviews.page_form import Pairs, get_values_under

FIELD_PREFIX = "data."
_PARSED_TYPES = frozenset({"integer", "number", "boolean", "array", "object", "null"})


def check_schema(path: str, schema: Mapping[str, Any]) -> None:
    """Raise ValidationFailed if somebody else's schema cannot be used to validate values."""
    try:
        compile_schema(schema)
    except UnusableSchema as error:
        reason = quote(str(error), 200)
        raise ValidationFailed(f"{path} cannot be used: {reason}.", path=path) from error


def check_fits(schema: Mapping[str, Any], data: Mapping[str, Any]) -> None:
    """Raise InvalidSubmission, naming the first misfit, unless the data fits the schema."""
    try:
        found = find_violations(schema, dict(data))
    except UnusableSchema as error:
        raise InvalidSubmission("data: it is too large to be checked against result_schema.") from error
    if found:
        raise InvalidSubmission(f"data does not fit result_schema: {quote(found[0], 500)}", path="data")


def read_result_fields(schema: Mapping[str, Any], pairs: Pairs) -> dict[str, Any]:
    """Return the fields `data.NAME` of a page's form; what the schema does not call text is read as JSON."""
    return {
        name: _read_field(schema, name, text) for name, text in get_values_under(pairs, FIELD_PREFIX).items()
    }


def _read_field(schema: Mapping[str, Any], name: str, text: str) -> Any:
    properties = schema.get("properties")
    subschema = properties.get(name) if isinstance(properties, Mapping) else None
    if not isinstance(subschema, Mapping) or subschema.get("type") not in _PARSED_TYPES:
        return text
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text  # the schema refuses it, with the name of the field
