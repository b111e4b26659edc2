"""The labels that a service gives to the actions of its case. The actions keep their protocol names."""

from collections.abc import Mapping
from typing import Any

NAME = "action_labels"
MAX_LABEL_LENGTH = 40


def read_action_labels(context: Mapping[str, Any]) -> dict[str, str]:
    """Return the usable labels by action: printable, one line, short. Return none if two are the same."""
    raw = context.get(NAME)
    if not isinstance(raw, Mapping):
        return {}
    labels = {str(action): label.strip() for action, label in raw.items() if _is_label(label)}
    different = {label.casefold() for label in labels.values()}
    return labels if len(different) == len(labels) else {}


def _is_label(label: object) -> bool:
    # isprintable() excludes line ends, control characters, and characters that hide or reorder text.
    return (
        isinstance(label, str) and 0 < len(label.strip()) <= MAX_LABEL_LENGTH and label.strip().isprintable()
    )
