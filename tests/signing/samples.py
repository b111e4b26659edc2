"""Moments, digests and JSON that the tests beside this file agree on."""

from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import strategies as st

NOW = datetime(2026, 11, 20, 10, 15, 0, 123456, tzinfo=UTC)
LATER = NOW + timedelta(days=30)
MOMENT = "2026-11-20T10:15:00.123456Z"
SHOWN = "5e" * 32
DATA: dict[str, Any] = {"comment": "Fïne by me 👍", "amount": 12.5, "items": [{"id": "a", "kept": True}]}
SAFE = 2**53 - 1
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-SAFE, SAFE)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)
