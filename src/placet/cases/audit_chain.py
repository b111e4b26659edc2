"""The chain of a tenant's audit events: digests, and their verification.

Retention removes the messages of an event and keeps the rest, so an event has two digests: of its whole body,
with a salt that is erased with the messages, and of its outline, which is the body without the messages. It
deletes old events from the beginning of the chain.
"""

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
from msgspec import Struct

from placet.cases.case import NO_EVENT

MESSAGE_FIELDS = ("requestBody", "requestHeaders", "responseBody", "responseHeaders")
"""The members of an event's payload that retention removes."""
REDACTED_AT = "payloadRedactedAt"

_MARKS = tuple(name.encode() for name in (*MESSAGE_FIELDS, REDACTED_AT))
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


class AuditPoint(Struct, frozen=True):
    """A position in a tenant's chain: the number of an event, and its digest."""

    count: int = 0
    digest: str = NO_EVENT


class AuditHead(Struct, frozen=True, kw_only=True):
    """The last event of a tenant's chain, and the last one that retention has deleted."""

    last: AuditPoint
    deleted: AuditPoint = AuditPoint()


class ChainedAuditRow(Struct, frozen=True, kw_only=True):
    """The row of an audit event. Those from before the chain was introduced have no digest."""

    number: int
    seq: int | None
    previous: str | None
    id: str
    tenant: str
    columns: tuple[Any, ...]
    """The other columns, from `at` to `task_id`."""
    body_digest: str | None
    outline_digest: str | None
    digest: str | None
    redacted: int
    body: bytes
    salt: str | None


def digest_body(salt: str, body: bytes) -> str:
    """Return the digest of a whole body."""
    return hashlib.sha256(salt.encode() + b"\0" + body).hexdigest()


def digest_outline(body: bytes) -> str:
    """Return the digest of a body without its messages; redaction does not change it."""
    return hashlib.sha256(_build_outline(body)).hexdigest()


def compute_link_digest(*values: Any) -> str:
    """Return the digest of a row; `values` are its columns from `number` to `outline_digest`."""
    return hashlib.sha256(_encode(values)).hexdigest()


def _build_outline(body: bytes) -> bytes:
    if not any(mark in body for mark in _MARKS):
        return body
    event = _read_object(body)
    if event is None:
        return body
    payload, metadata = event.get("payload"), event.get("metadata")
    if isinstance(payload, dict):
        event["payload"] = {name: payload[name] for name in payload if name not in MESSAGE_FIELDS}
    if isinstance(metadata, dict):
        event["metadata"] = {name: metadata[name] for name in metadata if name != REDACTED_AT}
    for name in ("payload", "metadata"):
        event[name] = event.get(name) or None
    return msgspec.json.encode(event, order="sorted")


def _read_object(body: bytes) -> dict[str, Any] | None:
    try:
        event = _decode(body)
    except (msgspec.DecodeError, RecursionError):
        return None
    return event if isinstance(event, dict) else None


class AuditChainVerifier:
    """Checks audit events of all tenants, in the order in which they were written."""

    def __init__(self, heads: Mapping[str, AuditHead]) -> None:
        self._heads = heads
        self._first: dict[str, AuditPoint] = {}
        """The point before the first stored event of each tenant."""
        self._last: dict[str, AuditPoint] = {}

    def check(self, row: ChainedAuditRow) -> Iterator[str]:
        """Yield what is wrong with the next event."""
        last = self._last.get(row.tenant)
        if row.digest is None or row.seq is None or row.previous is None:
            is_older = last is None and all(
                value is None for value in (row.digest, row.seq, row.previous, row.body_digest)
            )
            if not is_older:
                yield "The event is not in the chain."
            return
        if last is None:
            last = self._first[row.tenant] = AuditPoint(row.seq - 1, row.previous)
        if (row.seq, row.previous) != (last.count + 1, last.digest):
            yield f"The chain is broken before this event: event {last.count + 1} is missing or was moved."
        if row.digest != _compute_digest(row):
            yield "The event was changed."
        elif not _has_recorded_body(row):
            yield "The body was changed, or removed by something other than retention."
        self._last[row.tenant] = AuditPoint(row.seq, row.digest)
        head = self._heads.get(row.tenant)
        if head is not None and head.last.count == row.seq and head.last.digest != row.digest:
            yield "The chain does not end with this event."

    def finish(self, heads: Mapping[str, AuditHead]) -> Iterator[tuple[str, str]]:
        """Yield each tenant whose chain begins or ends at the wrong place; `heads` are read again.

        A running server may append and delete events in the meantime.
        """
        for tenant in sorted(self._heads.keys() | self._last.keys()):
            later = heads.get(tenant)
            if later is None:
                yield tenant, "The end of the chain is not stored."
            else:
                yield from ((tenant, text) for text in self._check_ends(tenant, later))

    def _check_ends(self, tenant: str, later: AuditHead) -> Iterator[str]:
        head, no_point = self._heads.get(tenant, AuditHead(last=AuditPoint())), later.deleted
        first, last = self._first.get(tenant, no_point), self._last.get(tenant, no_point)
        if not _is_between(first, head.deleted, later.deleted):
            yield "The beginning of the chain is missing, and retention has not deleted it."
        if not _is_between(last, head.last, later.last):
            yield f"The chain ends at event {last.count}, and should end at event {later.last.count}."


def _is_between(point: AuditPoint, earliest: AuditPoint, latest: AuditPoint) -> bool:
    """Return whether a point is one of these, or lies between them, where its digest is not known."""
    return point in (earliest, latest) or earliest.count < point.count < latest.count


def _compute_digest(row: ChainedAuditRow) -> str:
    place = (row.number, row.seq, row.previous, row.id, row.tenant)
    return compute_link_digest(*place, *row.columns, row.body_digest, row.outline_digest)


def _has_recorded_body(row: ChainedAuditRow) -> bool:
    if row.redacted not in (0, 1):
        return False
    if row.salt is not None:  # not redacted, or there was no message in it
        is_whole = row.body_digest == digest_body(row.salt, row.body)
        return is_whole and (not row.redacted or not _has_messages(row.body))
    event = _read_object(row.body) if row.redacted else None
    if event is None or _has_messages(row.body) or row.outline_digest != digest_outline(row.body):
        return False
    metadata = event.get("metadata")
    return isinstance(metadata, dict) and REDACTED_AT in metadata


def _has_messages(body: bytes) -> bool:
    event = _read_object(body)
    payload = event.get("payload") if event is not None else None
    return isinstance(payload, dict) and any(name in payload for name in MESSAGE_FIELDS)
