"""The review types that the protocol defines; any other type is named `x-…`."""

STANDARD_TYPES = ("approval", "selection", "input", "confirmation", "escalation")
