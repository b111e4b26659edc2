"""The review types that the protocol defines; any other type is named `x-…`."""

APPROVAL = "approval"
SELECTION = "selection"
INPUT = "input"
CONFIRMATION = "confirmation"
ESCALATION = "escalation"
STANDARD_TYPES = (APPROVAL, SELECTION, INPUT, CONFIRMATION, ESCALATION)
