"""A sample case of this type, as a service would open it."""

from typing import Any

EXAMPLE: dict[str, Any] = {
    "type": "selection",
    "prompt": "Which of these rooms should be held for the workshop in Ghent?",
    "message": "Four rooms are free in Ghent on the day of the workshop. Choose one or two to hold.",
    "timeout": "24h",
    "default_action": "skip",
    "service": "Roomfinder",
    "agent": "Travel planner",
    "context": {
        "options": [
            {
                "id": "canal-loft",
                "title": "Canal Loft",
                "badges": ["Daylight", "Kitchen"],
                "recommended": True,
                "seats": 24,
                "price_per_day": "310 EUR",
                "walk_from_station": "12 minutes",
                "step_free": True,
                "note": "Daylight on two sides, small kitchen",
            },
            {
                "id": "weavers-hall",
                "title": "Weavers' Hall",
                "badges": ["Stage"],
                "seats": 40,
                "price_per_day": "420 EUR",
                "walk_from_station": "20 minutes",
                "step_free": True,
                "note": "Stage and projector included",
            },
            {
                "id": "garden-room",
                "title": "Garden Room",
                "seats": 18,
                "price_per_day": "190 EUR",
                "walk_from_station": "8 minutes",
                "step_free": False,
                "note": "Opens to a courtyard, no projector",
            },
            {
                "id": "print-works",
                "title": "The Print Works",
                "seats": 30,
                "price_per_day": "265 EUR",
                "walk_from_station": "25 minutes",
                "step_free": True,
                "note": "Quiet street, bicycles welcome",
            },
        ],
        "min_selections": 1,
        "max_selections": 2,
        "date": "2026-06-18",
        "people": 16,
        "budget": "Up to 450 EUR for the day",
    },
}
