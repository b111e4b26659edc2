"""Receive callbacks as hints to poll; their content is never used.

A callback with a valid signature, in either scheme, causes a poll at once. One that cannot be verified causes
a poll too, but at a limited rate, so that an attacker cannot make an agent flood its service. A repeated
callback is ignored.
"""

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Literal

import msgspec

from placet.errors import SignatureInvalid
from placet.protocol.callback import verify_callback

MAX_BODY_BYTES = 256 * 1024
MAX_REMEMBERED = 10_000
UNVERIFIED_EVERY = timedelta(seconds=10)

CallbackResult = Literal["verified", "unverified", "repeated", "unreadable"]


class Callbacks:
    """Handles the callbacks of one agent, in the agent's own web app or behind a `CallbackReceiver`.

    `nudge` is called with the id of a case to poll; pass an agent's `nudge`. `secrets` are the signing
    secrets of the services, the newest first. `tolerance_for` is how old a signed callback may be.
    """

    def __init__(
        self,
        nudge: Callable[[str], object],
        *,
        secrets: Sequence[str] = (),
        tolerance_for: timedelta = timedelta(minutes=5),
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._nudge = nudge
        self._secrets = tuple(secrets)
        self._tolerance_for = tolerance_for
        self._now = clock
        self._seen: OrderedDict[str, None] = OrderedDict()
        self._unverified_at: OrderedDict[str, datetime] = OrderedDict()

    def take(self, body: bytes, headers: Mapping[str, str]) -> CallbackResult:
        """Handle one callback and return how it was classified; never raises for a malformed one."""
        case_id = _read_case_id(body)
        if case_id is None:
            return "unreadable"
        now = self._now()
        try:
            message_id = verify_callback(
                body, headers, secrets=self._secrets, now=now, tolerance_for=self._tolerance_for
            )
        except SignatureInvalid:
            return self._handle_unverified(case_id, now)
        # The older scheme signs only the body, so the same body is the same callback.
        if not _is_first(self._seen, message_id or f"body:{sha256(body).hexdigest()}"):
            return "repeated"
        self._nudge(case_id)
        return "verified"

    def _handle_unverified(self, case_id: str, now: datetime) -> CallbackResult:
        last = self._unverified_at.get(case_id)
        if last is None or now - last >= UNVERIFIED_EVERY:
            self._unverified_at[case_id] = now
            self._unverified_at.move_to_end(case_id)
            if len(self._unverified_at) > MAX_REMEMBERED:
                self._unverified_at.popitem(last=False)
            self._nudge(case_id)
        return "unverified"


def _read_case_id(body: bytes) -> str | None:
    try:
        found = msgspec.json.decode(body) if len(body) <= MAX_BODY_BYTES else None
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return None
    case_id = found.get("case_id") if isinstance(found, dict) else None
    return case_id if isinstance(case_id, str) and 0 < len(case_id) <= 200 else None


def _is_first(seen: "OrderedDict[str, None]", name: str) -> bool:
    if name in seen:
        return False
    seen[name] = None
    if len(seen) > MAX_REMEMBERED:
        seen.popitem(last=False)
    return True
