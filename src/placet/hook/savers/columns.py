"""What every storage keeps beside a checkpoint's text, in values that any storage can hold."""

import re
from datetime import UTC, datetime, timedelta
from hashlib import sha256

from placet.errors import InvalidFeedback, Unavailable
from placet.hook.checkpoint import Checkpoint, Stage
from placet.hook.savers.saver import NAMELESS, Kept

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)
READABLE = 40  # characters of a thread's id that its file name begins with


def key_of(thread_id: str) -> bytes:
    """A thread's id as bytes: any text has them, also one that no database takes as text."""
    if not thread_id:
        raise ValueError(NAMELESS)
    return thread_id.encode("utf-8", "surrogatepass")


def thread_of(key: bytes) -> str:
    """The id that `key_of` made these bytes from."""
    return key.decode("utf-8", "surrogatepass")


def digest_of(thread_id: str) -> str:
    """A thread's id at one length, however long it is."""
    return sha256(key_of(thread_id)).hexdigest()


def name_of(thread_id: str) -> str:
    """A name for this thread alone that any file system and any database takes, and a person can tell."""
    readable = re.sub(r"[^a-z0-9]+", "-", thread_id[:READABLE].lower()).strip("-")
    return f"{readable or 'thread'}-{digest_of(thread_id)}"


def micros(moment: datetime) -> int:
    """A moment as microseconds since 1970."""
    return (moment - EPOCH) // MICROSECOND


def span(length: timedelta) -> int:
    """A length of time in microseconds."""
    return length // MICROSECOND


def moment(micros: int) -> datetime:
    """The moment that `micros` counted."""
    return EPOCH + timedelta(microseconds=micros)


def kept(
    thread_id: str, rev: int, stage: Stage, text: str, saved_at: int, leased_until: int | None = None
) -> Kept:
    """A checkpoint, read back from its columns; raises Unavailable for one that cannot be understood."""
    try:
        checkpoint = Checkpoint.from_json(text, thread_id=thread_id, rev=rev, stage=stage)
    except (ValueError, TypeError, KeyError, AttributeError, InvalidFeedback) as error:
        raise Unavailable(f"What is kept of the thread {thread_id!r} cannot be understood.") from error
    return Kept(
        checkpoint=checkpoint,
        saved_at=moment(saved_at),
        leased_until=None if leased_until is None else moment(leased_until),
    )
