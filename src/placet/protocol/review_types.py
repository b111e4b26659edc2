"""The review types that the protocol defines; any other type is named `x-…`."""

APPROVAL = "approval"
SELECTION = "selection"
INPUT = "input"
CONFIRMATION = "confirmation"
ESCALATION = "escalation"
STANDARD_TYPES = (APPROVAL, SELECTION, INPUT, CONFIRMATION, ESCALATION)

STANDARD_ACTIONS = frozenset(
    {"approve", "edit", "reject", "select", "submit", "confirm", "cancel", "retry", "skip", "abort"}
)
"""The actions of the standard types, all together."""
