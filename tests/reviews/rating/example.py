"""A sample case of a rating."""

from typing import Any

EXAMPLE: dict[str, Any] = {
    "type": "x-rating",
    "prompt": "How was the soup?",
    "service": "Kitchen",
    "context": {"subject": "Tomato soup"},
}
