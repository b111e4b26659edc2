"""A sample case of this type, as a service would open it."""

from typing import Any

EXAMPLE: dict[str, Any] = {
    "type": "escalation",
    "prompt": "The nightly stock import stopped halfway. How shall we go on?",
    "message": "The stock import failed after 1,830 of 4,200 rows.",
    "timeout": "2h",
    "default_action": "abort",
    "inline_actions": ["retry", "skip", "abort"],
    "service": "Shelfkeeper",
    "agent": "Import runner",
    "context": {
        "error": {
            "summary": "The supplier's server did not answer in time",
            "type": "Timeout",
            "step": "Fetch prices, page 19 of 42",
            "first_seen_at": "2026-05-06T02:14:00Z",
            "attempts": 3,
        },
        "params": {"batch_size": 100, "wait_seconds": 20, "skip_missing_prices": False},
        "done_so_far": {"rows_written": 1830, "rows_left": 2370},
        "log": [
            {"time": "02:11:40", "level": "info", "message": "page 17 fetched in 4.1 s"},
            {"time": "02:12:20", "level": "warning", "message": "page 18 fetched in 17.9 s"},
            {"time": "02:14:00", "level": "error", "message": "page 19 gave up after 20 s"},
        ],
        "suggestions": [
            {"action": "retry", "reason": "Smaller batches got through on Monday."},
            {"action": "skip", "reason": "Prices can be fetched again at noon."},
        ],
        "if_you_skip": "Shops open with yesterday's prices for the rows that are left.",
    },
}
