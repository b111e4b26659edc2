"""Read and validate the members of an answer's data; errors name the field."""

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from placet.errors import BadRequest, InvalidSubmission
from placet.protocol.conversion import quote
from placet.reviews.answer_limits import MAX_IDS, MAX_TEXT_LENGTH
from placet.text.wording import Amount, Message, message

MAX_NAMED = 10  # ids or keys that a message names


def build_field_error(
    field: str,
    complaint: str,
    error: type[BadRequest] = InvalidSubmission,
    *,
    names: str = "",
    **details: Any,
) -> BadRequest:
    """Return an error about one field. `fields` tells a page where to show it, without the ids in `names`."""
    return error(f"{field}: {complaint}{names}", fields={field: complaint}, **details)


def check_known(
    data: Mapping[str, Any], known: Collection[str], error: type[BadRequest] = InvalidSubmission
) -> None:
    """Raise `error` if the data has keys other than the known ones."""
    unknown = [quote(key) for key in data if key not in known]
    if unknown:
        names = ", ".join(unknown[:MAX_NAMED])
        raise error(f"data has keys that this case does not ask for: {names}.", unknown=unknown[:MAX_NAMED])


def read_text(data: Mapping[str, Any], field: str) -> str | None:
    """Return the text under `field`, or None if it is empty; raise if it is not text or too long."""
    value = data.get(field)
    if value is None:
        return None
    if not isinstance(value, str):
        raise build_field_error(field, message("This must be text."))
    if len(value) > MAX_TEXT_LENGTH:
        raise build_field_error(field, _describe_too_long(len(value)))
    return value if value.strip() else None


def read_object(data: Mapping[str, Any], field: str) -> dict[str, Any]:
    """Return the object under `field`, empty if absent; raise if it is anything else."""
    value = data.get(field)
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise build_field_error(field, message("This must be an object."))
    return dict(value)


def read_ids(value: object, field: str, error: type[BadRequest]) -> list[str]:
    """Return a list of distinct, non-empty ids; raise `error` that names duplicates."""
    if not isinstance(value, list | tuple):
        raise build_field_error(field, message("This must be a list of ids."), error)
    if len(value) > MAX_IDS:
        raise build_field_error(field, _describe_too_many(len(value)), error)
    if not all(isinstance(item, str) and item.strip() for item in value):
        raise build_field_error(field, message("Every id must be non-empty text."), error)
    twice = sorted({item for item in value if value.count(item) > 1}) if len(set(value)) < len(value) else []
    if twice:
        raise build_field_error(
            field,
            message("Named more than once: {names}.", names=format_ids(twice)),
            error,
            duplicates=twice[:MAX_NAMED],
        )
    return list(value)


def format_ids(ids: Iterable[str]) -> str:
    """Return ids as a short, quoted list for a message."""
    given = list(ids)
    more = f" and {len(given) - MAX_NAMED} more" if len(given) > MAX_NAMED else ""
    return ", ".join(quote(item) for item in given[:MAX_NAMED]) + more


def _describe_too_long(given: int) -> Message:
    return message(
        "Shorten this to {most} characters; it has {given}.",
        most=Amount(MAX_TEXT_LENGTH),
        given=Amount(given),
    )


def _describe_too_many(given: int) -> Message:
    return message("Name at most {most} ids; these are {given}.", most=Amount(MAX_IDS), given=Amount(given))


def drop_empty(**parts: Any) -> dict[str, Any]:
    """Return the parts that are neither None nor an empty object."""
    return {name: part for name, part in parts.items() if part is not None and part != {}}
