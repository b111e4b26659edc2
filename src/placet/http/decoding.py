"""Bodies and queries as typed values, and what is wrong with those that do not fit."""

from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import fields

from placet.errors import BadRequest, InvalidJson, ValidationFailed
from placet.protocol.conversion import describe_mismatch

T = TypeVar("T")
S = TypeVar("S", bound=Struct)


def decode(
    decoder: msgspec.json.Decoder[T], body: bytes, *, misfit: type[BadRequest] = ValidationFailed
) -> T:
    """Return the message in a body; raise InvalidJson, or `misfit` naming the field that does not fit."""
    try:
        return decoder.decode(body)
    except msgspec.ValidationError as error:
        raise _describe_misfit(error, decoder.type, misfit) from error
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise InvalidJson(f"The body is not valid JSON: {error}.") from error


def decode_query(query: Mapping[str, str], model: type[S]) -> S:
    """Return a query as this model, with its texts converted; raise ValidationFailed."""
    try:
        found = msgspec.convert(dict(query), model, strict=False)
    except msgspec.ValidationError as error:
        raise _describe_misfit(error, model, ValidationFailed) from error
    for field in fields(found):
        text, value = query.get(field.encode_name), getattr(found, field.name)
        # msgspec reads the text "null" as None, and "1e2" as a whole number.
        if text is not None and value is None:
            raise ValidationFailed(f"{field.encode_name}: null is not allowed; leave it out.")
        if text is not None and type(value) is int and not (text.isascii() and text.isdigit()):
            raise ValidationFailed(f"{field.encode_name}: must be a whole number.")
    return found


def _describe_misfit(error: msgspec.ValidationError, model: Any, kind: type[BadRequest]) -> BadRequest:
    reason, path = describe_mismatch(error, model)
    field = path.lstrip(".")
    return kind(f"{field}: {reason}." if field else f"{reason}.")
