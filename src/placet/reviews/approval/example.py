"""A sample case of this type, as a service would open it."""

from typing import Any

EXAMPLE: dict[str, Any] = {
    "type": "approval",
    "prompt": "May this reply go out to a customer whose parcel is late?",
    "message": "A reply to a customer is ready and waits for your approval.",
    "timeout": "4h",
    "default_action": "reject",
    "inline_actions": ["approve", "reject"],
    "service": "Parcel Desk",
    "agent": "Support assistant",
    "context": {
        "artifact": {
            "to": "Jonas Lindqvist",
            "subject": "Your bookshelf is on its way",
            "body": (
                "Dear Mr Lindqvist,\n\n"
                "your bookshelf left our warehouse this morning, two days later than we promised. "
                "We are sorry for the wait.\n\n"
                "It should reach you on Thursday between 10 and 14 o'clock. "
                "We have taken the delivery fee off your bill.\n\n"
                "Kind regards,\nParcel Desk"
            ),
        },
        "order": "Bookshelf Alder, 80 × 200 cm",
        "ordered_on": "2026-05-04",
        "refund": "7.90 EUR",
        "reason_presets": [
            "The tone is not right.",
            {"label": "Too generous", "text": "We do not give the delivery fee back for two days."},
            {"label": "Call instead", "text": "Please call the customer instead of writing."},
        ],
        "why_you_are_asked": "Replies that give money back are read by a person before they leave.",
    },
}
