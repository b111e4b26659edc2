"""A sample case of a custom type."""

from typing import Any

EXAMPLE: dict[str, Any] = {
    "type": "x-photo-usage",
    "prompt": "May we print this photo of your bakery in the spring guide?",
    "message": "The travel guide asks whether it may print a photo of the bakery.",
    "actions": ["allow", "allow_once", "refuse"],
    "affirmative_actions": ["allow", "allow_once"],
    "timeout": "72h",
    "service": "Hilltown Travel Guide",
    "agent": "Picture desk assistant",
    "context": {
        "photo": "The shop front in morning light, with the red awning open",
        "photographer": "Marta Oduya",
        "taken_on": "2026-03-14",
        "planned_use": {
            "publication": "Spring in Hilltown",
            "page": 42,
            "copies": 12000,
            "also_online": True,
        },
        "other_photos_considered": [
            {"subject": "The oven", "taken_on": "2026-03-14", "chosen": False},
            {"subject": "The counter on a Saturday", "taken_on": "2026-03-15", "chosen": False},
        ],
        "terms": "https://guide.example/terms-for-pictured-shops",
    },
}
