"""A checkpoint of the log: how many cases and events there are, and one digest over all of them.

Events are never deleted, so a later log begins with the same events. A checkpoint that is kept elsewhere
reveals a deleted case, a rewritten chain and an older database that was put back.
"""

import hashlib
from datetime import datetime

import msgspec
from msgspec import Struct

from placet.cases.audit_chain import AuditPoint
from placet.cases.case import NO_EVENT


class LogCheckpoint(Struct, frozen=True, kw_only=True):
    """A statement about the whole log at one moment."""

    log_id: str
    """The random name of the database, so that a checkpoint of another one is recognised."""
    made_at: datetime
    cases: int
    events: int
    digest: str = NO_EVENT
    """The digest of all events, in the order in which they were written."""
    audit: dict[str, AuditPoint] = {}
    """The last audit event of each tenant of the relay."""


class SignedCheckpoint(Struct, frozen=True, kw_only=True):
    """A checkpoint with its signature, as it is stored and exported."""

    checkpoint: LogCheckpoint
    algorithm: str
    signature: str


def extend_digest(digest: str, event_digest: str) -> str:
    """Return the digest of all events, after one more event."""
    return hashlib.sha256((digest + event_digest).encode()).hexdigest()


def build_payload(checkpoint: LogCheckpoint) -> bytes:
    """Return the bytes that the signature covers."""
    return msgspec.json.encode(checkpoint, order="sorted")
