"""Arguments that the tool's schema marks as secret: a page shows that they are there, never what they are."""

from collections.abc import Mapping
from itertools import zip_longest
from typing import Any

from placet.reviews.tool_calls.schema import Said

MASK = "••••••••"
CHANGED = "••••••••••••"


def mask_secrets(value: Any, said: Said) -> Any:
    """The value with every secret in it masked."""
    return _walked(value, said, value)


def mask_change(value: Any, said: Said, before: Any) -> Any:
    """The same for a value that was changed: a secret that is no longer what it was is masked differently."""
    return _walked(value, said, before)


def holds_secret(value: Any, said: Said) -> bool:
    """Whether a secret stands anywhere in the value, or would."""
    return said.secret or mask_secrets(value, said) != value


def _walked(value: Any, said: Said, before: Any) -> Any:
    if not said.words:
        return value
    if said.secret:
        return MASK if value == before else CHANGED
    if isinstance(value, Mapping):
        known = before if isinstance(before, Mapping) else {}
        return {key: _walked(part, said.of(key), known.get(key)) for key, part in value.items()}
    every = said.items if isinstance(value, list | tuple) else None
    if every is None or not every.words:
        return value
    old = before if isinstance(before, list | tuple) else ()
    return [_walked(part, every, was) for part, was in zip_longest(value, old[: len(value)])]
