"""Limits on the size, depth and content of JSON from outside, checked before it is used."""

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

import msgspec

from placet.errors import BadRequest
from placet.protocol.answer_problems import build_problem
from placet.protocol.conversion import holds_only_text
from placet.text.characters import is_storable
from placet.text.wording import message

MAX_BYTES = 256 * 1024
MAX_DEPTH = 32
MAX_NUMBER = 2**53 - 1  # the largest integer that every JSON parser reads exactly
MAX_TEXT_LENGTH = 10_000
MAX_IDS = 1_000
MAX_NAMED = 20
# Below these counts the JSON always fits: a character takes at most six bytes, a member six more.
FEW_CHARACTERS, FEW_MEMBERS = MAX_BYTES // 12, MAX_BYTES // 12

_CONTAINERS = (Mapping, list, tuple)


def check_data(value: object, name: str, error: type[BadRequest]) -> None:
    """Raise `error` unless `value` is a valid JSON object within the limits of an answer."""
    if value == {}:
        return
    if not isinstance(value, Mapping):
        raise error(f"{name} must be an object.", path=name)
    if holds_only_text(value):
        together = "".join((*value, *value.values()))
        _check_text(together, name, error)
        if len(together) < FEW_CHARACTERS and len(value) < FEW_MEMBERS:
            return
    else:
        _check_values(value, name, error)
    if _measure_json(value, name, error) > MAX_BYTES:
        raise error(
            message("{name} is larger than {size} KiB.", name=name, size=MAX_BYTES // 1024), path=name
        )


def find_unstorable(data: object) -> dict[str, str]:
    """Return the members of an answer with characters that cannot be stored, each with a message."""
    parts = data.items() if isinstance(data, Mapping) else ()
    named = ((key, part) for key, part in parts if isinstance(key, str) and is_storable(key))
    wrong = (key for key, part in named if not all(map(is_storable, _list_texts(part))))
    return dict.fromkeys(islice(wrong, MAX_NAMED), build_problem("control_characters").message)


def _list_texts(value: object) -> Iterator[str]:
    """Yield every text in the value, including keys."""
    rest = [value]
    while rest:
        part = rest.pop()
        if isinstance(part, str):
            yield part
        elif isinstance(part, Mapping):
            rest += [*part, *part.values()]
        elif isinstance(part, list | tuple):
            rest += part


def _check_values(value: Mapping[Any, Any], name: str, error: type[BadRequest]) -> None:
    level: list[Any] = [value]
    for _ in range(MAX_DEPTH):
        inner = [part for container in level for part in _list_parts(container, name, error)]
        for part in inner:
            _check_scalar(part, name, error)
        level = [part for part in inner if isinstance(part, _CONTAINERS)]
        if not level:
            return
    raise error(f"{name} is nested deeper than {MAX_DEPTH} levels.", path=name)


def _list_parts(container: Any, name: str, error: type[BadRequest]) -> list[Any]:
    if not isinstance(container, Mapping):
        return list(container)
    for key in container:
        if not isinstance(key, str):
            raise error(f"{name} has a key that is not text.", path=name)
        _check_text(key, name, error)
    return list(container.values())


def _check_scalar(value: object, name: str, error: type[BadRequest]) -> None:
    if isinstance(value, str):
        _check_text(value, name, error)
    elif isinstance(value, bool) or value is None or isinstance(value, _CONTAINERS):
        return
    elif not isinstance(value, int | float) or value != value:
        raise error(f"{name} holds something that is not JSON.", path=name)
    elif not -MAX_NUMBER <= value <= MAX_NUMBER:
        complaint = message(
            "{name} holds a number beyond ±{most}; send it as text.", name=name, most=MAX_NUMBER
        )
        raise error(complaint, path=name)


def _check_text(text: str, name: str, error: type[BadRequest]) -> None:
    if not is_storable(text):
        raise error(
            message("{name} holds control characters or half a character; remove them.", name=name), path=name
        )


def _measure_json(value: object, name: str, error: type[BadRequest]) -> int:
    try:
        return len(msgspec.json.encode(value))
    except (TypeError, ValueError, RecursionError):
        raise error(f"{name} holds something that is not JSON.", path=name) from None
