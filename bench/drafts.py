"""What the bench asks and answers: one ordinary approval, about 600 bytes of JSON."""

from typing import Any

import msgspec

DRAFT: dict[str, Any] = {
    "type": "approval",
    "prompt": "May this reply go out to a customer whose parcel is late?",
    "timeout": "7d",
    "default_action": "reject",
    "inline_actions": ["approve", "reject"],
    "context": {
        "artifact": {
            "to": "Jonas Lindqvist",
            "subject": "Your bookshelf is on its way",
            "body": "Dear Mr Lindqvist, your bookshelf left our warehouse this morning, two days later than "
            "we promised. We are sorry for the wait and have taken the delivery fee off your bill.",
        },
        "order": "Bookshelf Alder, 80 x 200 cm",
        "refund": "7.90 EUR",
        "why_you_are_asked": "Replies that give money back are read by a person.",
    },
}
ANSWER: dict[str, Any] = {
    "action": "approve",
    "data": {"feedback": "Good as it is."},
    "submitted_via": "telegram_inline_button",
    "submitted_by": {"platform": "telegram", "platform_user_id": "12345678", "display_name": "Kim"},
}
DRAFT_BODY = msgspec.json.encode(DRAFT)
ANSWER_BODY = msgspec.json.encode(ANSWER)
