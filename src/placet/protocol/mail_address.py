"""E-mail addresses as people type them: one plain ASCII address, without a name."""

import re
from collections.abc import Iterable

MAX_ADDRESS_LENGTH = 254
_ADDRESS = re.compile(
    r"[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}"
    r"@[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?(?:\.[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?)+"
)


def is_mail_address(text: str) -> bool:
    """Return whether the text is one e-mail address that can be written into a header as it is."""
    return len(text) <= MAX_ADDRESS_LENGTH and _ADDRESS.fullmatch(text) is not None


def is_one_of(address: str, allowed: Iterable[str]) -> bool:
    """Return whether an address is one of these, ignoring case; `@acme.example` is a whole domain."""
    folded = address.lower()
    for one in map(str.lower, allowed):
        if folded == one or (one.startswith("@") and folded.endswith(one)):
            return True
    return False
