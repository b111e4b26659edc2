"""A sample case of this type, as a service would open it."""

from typing import Any

EXAMPLE: dict[str, Any] = {
    "type": "confirmation",
    "prompt": "Delete three old backups of the choir's archive?",
    "message": "Three backups are older than the archive's rule allows. Deleting them needs your word.",
    "timeout": "12h",
    "default_action": "abort",
    "service": "Attic Storage",
    "agent": "Housekeeping",
    "context": {
        "items": [
            {"id": "2019-autumn", "label": "Autumn 2019", "files": 1204, "size": "38 GB"},
            {"id": "2020-spring", "label": "Spring 2020", "files": 1377, "size": "41 GB"},
            {"id": "2020-autumn", "label": "Autumn 2020", "files": 1512, "size": "47 GB"},
        ],
        "irreversible": True,
        "warning": "Deleted backups cannot be brought back, not even by us.",
        "confirm_word": "delete",
        "kept_anyway": "Everything from 2021 on, 312 GB",
        "rule": "Backups are kept for five years",
    },
}
