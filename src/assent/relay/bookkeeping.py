"""Reads and changes what tenants keep about policies: one change at a time, each checked as a whole."""

import asyncio

from assent.errors import RelayConflict
from assent.ports.relay_store import RelayStore
from assent.relay.policies.records import BOOK, Library, library_of

TRIES = 8


async def book_rev(store: RelayStore, tenant: str) -> int:
    """How often the tenant's policies, groups and bindings were changed."""
    record = await store.record(tenant, "book", BOOK)
    return 0 if record is None else record.rev


async def read_library(store: RelayStore, tenant: str) -> Library:
    """All that is kept about policies, at one moment; raises RelayConflict if it never stands still."""
    rev = await book_rev(store, tenant)
    for _ in range(TRIES):
        policies = await store.records("policy", tenant)
        groups = await store.records("policy_group", tenant)
        bindings = await store.records("binding", tenant)
        before, rev = rev, await book_rev(store, tenant)
        if rev == before:
            return await asyncio.to_thread(
                library_of, rev, policies=policies, groups=groups, bindings=bindings
            )
    raise RelayConflict("The policies of this tenant change faster than they can be read; try again.")
