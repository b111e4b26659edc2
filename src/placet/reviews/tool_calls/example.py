"""A sample case: a turn of an agent with several tool calls."""

from typing import Any

from placet.reviews.approval.declaration import APPROVAL

_LETTER: dict[str, Any] = {
    "type": "object",
    "properties": {
        "to": {"type": "array", "items": {"type": "string", "format": "email"}, "maxItems": 20},
        "subject": {"type": "string", "minLength": 1, "maxLength": 120},
        "body": {"type": "string", "description": "Plain text."},
        "priority": {"enum": ["low", "normal", "high"], "default": "normal"},
        "track_opens": {"type": "boolean", "default": False},
    },
    "required": ["to", "subject", "body"],
    "additionalProperties": False,
}
_TRANSFER: dict[str, Any] = {
    "type": "object",
    "properties": {
        "recipient": {"type": "string"},
        "amount": {"type": "number", "exclusiveMinimum": 0, "maximum": 5000, "description": "In euros."},
        "reference": {"type": "string", "maxLength": 140},
        "pin": {"type": "string", "format": "password"},
    },
    "required": ["recipient", "amount"],
    "additionalProperties": False,
}
_REMINDER: dict[str, Any] = {
    "type": "object",
    "properties": {"topic": {"type": "string"}, "days": {"type": "integer", "minimum": 1, "maximum": 30}},
    "required": ["topic"],
}

EXAMPLE: dict[str, Any] = {
    "type": APPROVAL.type,
    "prompt": "May the assistant run these four calls for the new invoices?",
    "message": "It has matched the invoices with the orders and wants to write, pay and set reminders.",
    "timeout": "8h",
    "default_action": "reject",
    "inline_actions": ["approve", "reject"],
    "service": "Orchard Accounts",
    "agent": "Bookkeeping assistant",
    "context": {
        "agent": "Bookkeeping assistant",
        "tool_calls": [
            {
                "id": "call_letter",
                "name": "send_letter",
                "description": "Writes to a supplier in our name.",
                "arguments": {
                    "to": ["accounts@pressworks.example"],
                    "subject": "Invoice 2026-118",
                    "body": "Good day,\n\ninvoice 2026-118 lists 40 crates; we received 36."
                    "\nPlease send a corrected one.\n\nOrchard Accounts",
                    "priority": "normal",
                },
                "schema": _LETTER,
                "allowed_decisions": ["approve", "edit", "reject", "respond"],
                "path": ["Correspondence"],
                "high_risk": False,
            },
            {
                "id": "call_transfer",
                "name": "transfer_money",
                "description": "Pays an invoice from the business account. It cannot be called back.",
                "arguments": {
                    "recipient": "Cooper & Daughters",
                    "amount": 1240.5,
                    "reference": "Invoice 77, barrels",
                    "pin": "47-11-63",
                },
                "schema": _TRANSFER,
                "allowed_decisions": ["approve", "edit", "reject"],
                "path": [],
                "high_risk": True,
            },
            *(
                {
                    "id": f"call_reminder_{number}",
                    "name": "set_reminder",
                    "description": "Puts a reminder into the shared calendar.",
                    "arguments": {"topic": "Check whether the corrected invoice came", "days": 3},
                    "schema": _REMINDER,
                    "allowed_decisions": ["approve", "edit", "reject"],
                    "path": [],
                    "high_risk": False,
                }
                for number in (1, 2)
            ),
        ],
        "automatic": [{"id": "call_orders", "name": "search_orders", "arguments": {"since": "2026-04-06"}}],
        "since": "2026-04-06",
        "invoices_matched": 14,
    },
}
