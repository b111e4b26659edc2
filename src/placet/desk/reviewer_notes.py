"""Notes of reviewers: the reason of a cancellation, and the note with a passed-on link."""

from placet.errors import ValidationFailed
from placet.text.characters import is_storable

MAX_NOTE_LENGTH = 2000


def check_note(text: str | None) -> str | None:
    """Return the note to store, or None if it is blank. Raises ValidationFailed if it is invalid."""
    if text is None or not text.strip():
        return None
    if len(text) > MAX_NOTE_LENGTH:
        raise ValidationFailed(f"Shorten this to {MAX_NOTE_LENGTH} characters; it has {len(text)}.")
    if not is_storable(text):
        raise ValidationFailed("This text holds control characters or half a character; remove them.")
    return text
