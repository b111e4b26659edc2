"""Mask arguments that the tool's schema marks as secret. A page shows that they exist, never their values."""

from collections.abc import Mapping
from itertools import zip_longest
from typing import Any

from placet.reviews.tool_calls.schema import Subschema

MASK = "••••••••"
CHANGED = "••••••••••••"


def mask_secrets(value: Any, subschema: Subschema) -> Any:
    """Return the value with every secret masked."""
    return _mask(value, subschema, value)


def mask_change(value: Any, subschema: Subschema, before: Any) -> Any:
    """Return the changed value with every secret masked; a changed secret gets a different mask."""
    return _mask(value, subschema, before)


def holds_secret(value: Any, subschema: Subschema) -> bool:
    """Whether the value contains a secret, or its schema marks one."""
    return subschema.secret or mask_secrets(value, subschema) != value


def _mask(value: Any, subschema: Subschema, before: Any) -> Any:
    if not subschema.words:
        return value
    if subschema.secret:
        return MASK if value == before else CHANGED
    if isinstance(value, Mapping):
        known = before if isinstance(before, Mapping) else {}
        return {key: _mask(part, subschema.for_property(key), known.get(key)) for key, part in value.items()}
    every = subschema.items if isinstance(value, list | tuple) else None
    if every is None or not every.words:
        return value
    old = before if isinstance(before, list | tuple) else ()
    return [_mask(part, every, was) for part, was in zip_longest(value, old[: len(value)])]
