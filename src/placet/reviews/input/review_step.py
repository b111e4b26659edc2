"""The review step before sending: it lists all answers, and a fingerprint detects later changes."""

import hashlib
from collections.abc import Mapping
from typing import Any

import msgspec

from placet.protocol.field_values import is_blank
from placet.protocol.form_answers import find_visible_fields
from placet.protocol.forms import Form

LONG_FORM = 8  # a form with more fields than this gets a review step


def adds_review(form: Form) -> bool:
    """Whether we add a review step: to multi-step and long forms, unless the last step is one already."""
    if not form.groups[-1]:
        return False
    return len(form.groups) > 1 or len(form.every_field) > LONG_FORM


def get_last_page(form: Form) -> int:
    """Return the number of the step with the submit button, counted from 0."""
    return len(form.groups) if adds_review(form) else len(form.groups) - 1


def digest_answers(form: Form, values: Mapping[str, Any]) -> str:
    """Return a digest of the answers that a review step lists; of sensitive ones only that they exist."""
    listed = [
        (field.key, True if field.sensitive else values[field.key])
        for field in find_visible_fields(form, values)
        if not is_blank(values.get(field.key))
    ]
    return hashlib.sha256(msgspec.json.encode(listed)).hexdigest()[:32]
