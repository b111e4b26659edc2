"""What a service calls the actions of its case: words on a button, while the action stays the protocol's."""

from collections.abc import Mapping
from typing import Any

NAME = "action_labels"
LONGEST = 40


def action_labels(context: Mapping[str, Any]) -> dict[str, str]:
    """The labels worth showing, by action: one line, readable, short; none at all if two are the same."""
    raw = context.get(NAME)
    if not isinstance(raw, Mapping):
        return {}
    labels = {str(action): label.strip() for action, label in raw.items() if _is_label(label)}
    different = {label.casefold() for label in labels.values()}
    return labels if len(different) == len(labels) else {}


def _is_label(label: object) -> bool:
    # Printable leaves out line ends, control characters and whatever hides or reorders text.
    return isinstance(label, str) and 0 < len(label.strip()) <= LONGEST and label.strip().isprintable()
