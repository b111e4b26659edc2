"""What people write beside a decision: the reason of a withdrawal, the note on a passed-on link."""

from placet.errors import ValidationFailed
from placet.text.characters import is_storable

LONGEST_REMARK = 2000


def check_note(text: str | None) -> str | None:
    """The remark as it is kept, None where nothing was said; raises ValidationFailed for what cannot be."""
    if text is None or not text.strip():
        return None
    if len(text) > LONGEST_REMARK:
        raise ValidationFailed(f"Shorten this to {LONGEST_REMARK} characters; it has {len(text)}.")
    if not is_storable(text):
        raise ValidationFailed("This text holds control characters or half a character; remove them.")
    return text
