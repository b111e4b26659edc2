"""A case of this type as a service would open it: three steps, and questions that depend on answers."""

from typing import Any

_TRAVEL = {
    "title": "Your journey",
    "description": "So that tickets can be bought today.",
    "fields": [
        {
            "key": "traveller",
            "label": "Name as in your passport",
            "type": "text",
            "required": True,
            "validation": {"minLength": 2, "maxLength": 100},
        },
        {"key": "email", "label": "Where tickets should be sent", "type": "email", "required": True},
        {
            "key": "arrival",
            "label": "Day of arrival",
            "type": "date",
            "required": True,
            "hint": "The conference opens on 8 September at 9 o'clock.",
        },
        {
            "key": "way",
            "label": "How would you like to travel?",
            "type": "select",
            "required": True,
            "options": [
                {"value": "train", "label": "By train"},
                {"value": "plane", "label": "By plane"},
                {"value": "own", "label": "I come on my own"},
            ],
        },
        {
            "key": "railcard",
            "label": "Railcard number",
            "type": "text",
            "sensitive": True,
            "hint": "Only if you have one; it halves the fare.",
            "conditional": {"field": "way", "operator": "eq", "value": "train"},
        },
        {
            "key": "passport",
            "label": "Passport number",
            "type": "text",
            "required": True,
            "sensitive": True,
            "validation": {"pattern": "[A-Z0-9]{6,12}"},
            "hint": "The airline asks for it; we forget it after the booking.",
            "conditional": {"field": "way", "operator": "eq", "value": "plane"},
        },
    ],
}
_STAY = {
    "title": "Your stay",
    "description": "The hotel holds a room until noon.",
    "fields": [
        {
            "key": "nights",
            "label": "Nights",
            "type": "range",
            "required": True,
            "default": 3,
            "validation": {"min": 1, "max": 6},
        },
        {"key": "step_free", "label": "Do you need step-free access?", "type": "boolean", "required": True},
        {
            "key": "meals",
            "label": "What do you eat?",
            "type": "multiselect",
            "required": True,
            "options": [
                {"value": "meat", "label": "Meat"},
                {"value": "fish", "label": "Fish"},
                {"value": "vegetarian", "label": "Vegetarian"},
                {"value": "vegan", "label": "Vegan"},
            ],
        },
        {
            "key": "wishes",
            "label": "Anything the hotel should know",
            "type": "textarea",
            "placeholder": "A quiet room, a late arrival …",
            "validation": {"maxLength": 500},
        },
    ],
}
_CHECK = {
    "title": "Check your answers",
    "description": "Nothing is booked before you send them.",
    "fields": [],
}

EXAMPLE: dict[str, Any] = {
    "type": "input",
    "prompt": "Tell us how you travel to the conference in Porto",
    "message": "Three short steps are needed before the journey can be booked.",
    "timeout": "3d",
    "default_action": "skip",
    "service": "Fairwind Conferences",
    "agent": "Booking assistant",
    "context": {
        "conference": "Harbour Cities 2031",
        "place": "Porto, 8 to 11 September 2031",
        "paid_by": "Fairwind Conferences",
        "form": {"steps": [_TRAVEL, _STAY, _CHECK]},
    },
}
