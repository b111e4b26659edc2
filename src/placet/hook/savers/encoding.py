"""Encoding thread ids, times and checkpoints in values that any storage can hold."""

import re
from datetime import UTC, datetime, timedelta
from hashlib import sha256

from placet.errors import InvalidFeedback, Unavailable
from placet.hook.checkpoint import Checkpoint, Stage
from placet.hook.savers.saver import EMPTY_THREAD_ID, SavedCheckpoint

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)
READABLE_CHARACTERS = 40  # characters of the thread id at the start of its file name


def encode_thread_id(thread_id: str) -> bytes:
    """Return a thread's id as bytes; works for any text, including text that databases refuse."""
    if not thread_id:
        raise ValueError(EMPTY_THREAD_ID)
    return thread_id.encode("utf-8", "surrogatepass")


def decode_thread_id(key: bytes) -> str:
    """Return the id that `encode_thread_id` encoded."""
    return key.decode("utf-8", "surrogatepass")


def digest_thread_id(thread_id: str) -> str:
    """Return a digest of fixed length of a thread's id."""
    return sha256(encode_thread_id(thread_id)).hexdigest()


def build_file_name(thread_id: str) -> str:
    """Return a unique, readable name for this thread that any file system and database accepts."""
    readable = re.sub(r"[^a-z0-9]+", "-", thread_id[:READABLE_CHARACTERS].lower()).strip("-")
    return f"{readable or 'thread'}-{digest_thread_id(thread_id)}"


def to_micros(moment: datetime) -> int:
    """Return a time as microseconds since 1970."""
    return (moment - EPOCH) // MICROSECOND


def duration_to_micros(length: timedelta) -> int:
    """Return a duration in microseconds."""
    return length // MICROSECOND


def from_micros(micros: int) -> datetime:
    """Return the time that `to_micros` encoded."""
    return EPOCH + timedelta(microseconds=micros)


def read_saved(
    thread_id: str, rev: int, stage: Stage, text: str, saved_at: int, leased_until: int | None = None
) -> SavedCheckpoint:
    """Return a checkpoint from its columns; raises Unavailable for one that cannot be parsed."""
    try:
        checkpoint = Checkpoint.from_json(text, thread_id=thread_id, rev=rev, stage=stage)
    except (ValueError, TypeError, KeyError, AttributeError, InvalidFeedback) as error:
        raise Unavailable(f"The stored checkpoint of thread {thread_id!r} cannot be read.") from error
    return SavedCheckpoint(
        checkpoint=checkpoint,
        saved_at=from_micros(saved_at),
        leased_until=None if leased_until is None else from_micros(leased_until),
    )
