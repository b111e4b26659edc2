"""Creation of signed checkpoints of the log."""

from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from typing import Protocol

import msgspec

from placet.cases.case import NO_EVENT
from placet.cases.log_checkpoint import LogCheckpoint, SignedCheckpoint, extend_digest
from placet.desk import random_values
from placet.errors import PlacetError
from placet.ports.key_store import KeyStore
from placet.ports.log_store import LogStore

MICROSECOND = timedelta(microseconds=1)
LOG_ID = "log"

SignCheckpoint = Callable[[LogCheckpoint], Awaitable[SignedCheckpoint]]


class CheckpointStore(LogStore, KeyStore, Protocol):
    """The storage that checkpoints need."""


async def get_log_id(store: KeyStore) -> str:
    """Return the random name of this database."""
    return await store.get_or_create_secret(LOG_ID, random_values.generate_secret())


async def build_checkpoint(store: CheckpointStore, *, now: datetime) -> LogCheckpoint:
    """Return a checkpoint of the log as it is now. Reads only the events since the last checkpoint.

    Raises PlacetError if events are missing.
    """
    last = await get_last_checkpoint(store)
    count, digest = (last.checkpoint.events, last.checkpoint.digest) if last else (0, NO_EVENT)
    heads = await store.list_audit_heads()
    size = await store.count_log()
    if size.events < count:
        raise PlacetError(f"The log has {size.events} events, and the last checkpoint covers {count}.")
    while count < size.events:
        page = await store.list_log_entries(after=count)
        for entry in page[: size.events - count]:
            if entry.number != count + 1:
                raise PlacetError(f"The event {count + 1} is missing from the log.")
            count, digest = entry.number, extend_digest(digest, entry.digest)
    return LogCheckpoint(
        log_id=await get_log_id(store),
        made_at=now,
        cases=size.cases,
        events=count,
        digest=digest,
        audit={tenant: head.last for tenant, head in heads.items()},
    )


async def get_last_checkpoint(store: LogStore) -> SignedCheckpoint | None:
    """Return the newest stored checkpoint. Raises PlacetError if it cannot be read."""
    document = await store.get_last_checkpoint()
    return None if document is None else read_checkpoint(document)


async def list_stored_checkpoints(store: LogStore) -> tuple[list[SignedCheckpoint], list[str]]:
    """Return the stored checkpoints that can be read, and what is wrong with the others."""
    found: list[SignedCheckpoint] = []
    problems: list[str] = []
    last = 0
    while page := await store.list_checkpoints(after=last):
        for number, document in page:
            if number != last + 1:
                problems.append(f"Stored checkpoints are missing before number {number}.")
            last = number
            try:
                found.append(read_checkpoint(document))
            except PlacetError:
                problems.append(f"The stored checkpoint {number} cannot be read.")
    return found, problems


def read_checkpoint(document: bytes) -> SignedCheckpoint:
    """Return a stored or exported checkpoint. Raises PlacetError if it cannot be read."""
    try:
        return msgspec.json.decode(document, type=SignedCheckpoint)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise PlacetError("This is not a checkpoint of a log.") from None


async def make_checkpoint(store: CheckpointStore, *, sign: SignCheckpoint, now: datetime) -> SignedCheckpoint:
    """Sign and store a checkpoint; return the last one if nothing was written since."""
    last = await get_last_checkpoint(store)
    current = await build_checkpoint(store, now=now)
    if last is not None and msgspec.structs.replace(last.checkpoint, made_at=now) == current:
        return last
    signed = await sign(current)
    made_at = (now - datetime.fromtimestamp(0, now.tzinfo)) // MICROSECOND
    await store.add_checkpoint(msgspec.json.encode(signed), made_at=made_at)
    return signed
