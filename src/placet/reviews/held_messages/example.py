"""A sample case for a held message, as a relay opens it."""

from typing import Any

from placet.reviews.approval.declaration import APPROVAL

SCAN = (
    "iVBORw0KGgoAAAANSUhEUgAAAHgAAABQAgMAAACv9VkaAAAACVBMVEXo7ug8UEaMpZZzf4bVAAAAMUlEQVR42mNgGAVDD6yC"
    "goGVZg1FBqRKD2KPjYb5qPRomI8w6ZEKQnEA4qRHXU5fAACIEyO0vOibnAAAAABJRU5ErkJggg=="
)
"""A small picture that stands for a scan."""

EXAMPLE: dict[str, Any] = {
    "type": APPROVAL.type,
    "prompt": "May this message from travel-planner go to the agent bookings?",
    "message": "A message from travel-planner to bookings is held.",
    "timeout": "4h",
    "default_action": "reject",
    "inline_actions": ["approve", "reject"],
    "service": "Relay",
    "agent": "travel-planner",
    "context": {
        "held_message": {
            "matter": "request",
            "leg": "requestFromSource",
            "sender": "travel-planner",
            "receiver": "bookings",
            "caller": "travel-planner",
            "caller_kind": "agent",
            "agent": "bookings",
            "policy": {"name": "Review Messages with SSNs", "version": "3", "level": "TENANT"},
            "reason": "Review Messages with SSNs matched, and its action is HUMAN_REVIEW_REQUIRED.",
            "unchecked": [],
            "files": [
                {
                    "path": "message.parts[1].raw",
                    "name": "passport.png",
                    "declared_type": "image/png",
                    "type": "image/png",
                    "size": 127,
                    "sha256": "27632cc174d3c62274ed517fbd30b8c49cac5e8b31f77adadbeea2075bad5abf",
                    "content": SCAN,
                }
            ],
            "digest": "9f2c6a1de0b5c7f3a4e8b1d2c3f4a5b6978812345678abcdef0123456789abcd",
            "task_id": "5a6ce2a7-7a33-5f0c-9c43-1d6a7a4f2a11",
            "correlation_id": "4be1c5a0d9e34a1f8b7c6d5e4f3a2b1c",
            "texts": [
                {
                    "path": "message.parts[0].text",
                    "length": 141,
                    "excerpts": [
                        {
                            "at": 0,
                            "text": (
                                "Please book the 9:40 to Lisbon for Mr Almeida.\n"
                                "His SSN is 536-22-8764, the passport follows as a scan.\n"
                                "Pay with [MASKED:CREDIT_CARD], please."
                            ),
                            "marks": [
                                {
                                    "start": 58,
                                    "end": 69,
                                    "entity": "US_SSN",
                                    "policy": "Review Messages with SSNs",
                                    "action": "HUMAN_REVIEW_REQUIRED",
                                },
                                {
                                    "start": 112,
                                    "end": 132,
                                    "entity": "CREDIT_CARD",
                                    "policy": "Mask card numbers",
                                    "action": "MASK",
                                },
                            ],
                        }
                    ],
                }
            ],
            "texts_left_out": 0,
        }
    },
}
