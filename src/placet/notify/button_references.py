"""The references on buttons: they name a case and an action, and prove that this server wrote them.

A reference gives no access. Who may press is decided when the button is pressed, from the settings.
"""

import base64
import hashlib
import hmac
import re

from placet.cases.case import Case

PREFIX = "n1"
MAC_BYTES = 12
_REFERENCE = re.compile(r"n1(?P<case>[A-Za-z0-9_-]{22})(?P<action>[0-9]{2})(?P<mac>[A-Za-z0-9_-]{16})")
_CASE_ID = re.compile(r"review_[0-9a-f]{32}")


class ButtonReferences:
    """Writes and reads the references of buttons, 42 characters each: Telegram allows 64."""

    def __init__(self, secret: str) -> None:
        self._key = hashlib.sha256(b"notification buttons\0" + secret.encode()).digest()

    def build(self, case: Case, number: int) -> str:
        """Return the reference of the button for the action with this number."""
        packed = _encode(bytes.fromhex(case.id.partition("_")[2]))
        return f"{PREFIX}{packed}{number:02d}{self._sign(case.id, number)}"

    def read(self, reference: str) -> tuple[str, int] | None:
        """Return the case id and the number of the action, or None if this server did not write it."""
        found = _REFERENCE.fullmatch(reference)
        if found is None:
            return None
        case_id, number = f"review_{_decode(found['case']).hex()}", int(found["action"])
        if not hmac.compare_digest(found["mac"], self._sign(case_id, number)):
            return None
        return case_id, number

    def _sign(self, case_id: str, number: int) -> str:
        mac = hmac.digest(self._key, f"{case_id}\0{number}".encode(), "sha256")
        return _encode(mac[:MAC_BYTES])


def supports_buttons(case: Case) -> bool:
    """Return whether the case's id fits a reference. All ids that Placet makes do."""
    return _CASE_ID.fullmatch(case.id) is not None


def _encode(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def _decode(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
