"""Reads and changes what tenants keep about policies: one change at a time, each checked as a whole."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from datetime import datetime
from typing import Any, TypeVar
from weakref import WeakValueDictionary

from placet.errors import RelayConflict
from placet.ports.config_store import ConfigStore
from placet.relay.audit.trail import Trail
from placet.relay.changes import Change, Held
from placet.relay.membership.registry import DEFAULT_TENANT
from placet.relay.membership.tenancy import Membership
from placet.relay.policies.policy import Policy
from placet.relay.policies.records import (
    BOOK,
    KeptPolicy,
    Library,
    Versions,
    after,
    book_record,
    library_of,
)

TRIES = 8
MAX_LIBRARIES = 64
"""For so many tenants it is remembered what they keep."""
SETTINGS = "settings"
"""Who has written what stands in the settings."""
T = TypeVar("T")


async def book_rev(store: ConfigStore, tenant: str) -> int:
    """How often the tenant's policies, groups and bindings were changed."""
    record = await store.get_record(tenant, "book", BOOK)
    return 0 if record is None else record.rev


async def read_library(store: ConfigStore, tenant: str) -> Library:
    """All that is kept about policies, at one moment; raises RelayConflict if it never stands still."""
    rev = await book_rev(store, tenant)
    for _ in range(TRIES):
        policies = await store.list_records("policy", tenant)
        groups = await store.list_records("policy_group", tenant)
        bindings = await store.list_records("binding", tenant)
        before, rev = rev, await book_rev(store, tenant)
        if rev == before:
            return await asyncio.to_thread(
                library_of, rev, policies=policies, groups=groups, bindings=bindings
            )
    raise RelayConflict("The policies of this tenant change faster than they can be read; try again.")


class Bookkeeper:
    """Keeps the books of all tenants. What stands in the settings is read with them, and never changed."""

    def __init__(
        self,
        store: ConfigStore,
        *,
        trail: Trail,
        now: Callable[[], datetime],
        of_settings: Iterable[Policy] = (),
    ) -> None:
        self.changed: Callable[[str], Awaitable[None]] | None = None
        """Told of each change in a tenant, and waited for."""
        self._store = store
        self._trail = trail
        self._known: dict[str, Library] = {}
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self.now = now
        self._settled = {one.policy_id: _settled(one) for one in of_settings}

    def settled(self, tenant: str) -> Mapping[str, Versions]:
        """The policies of a tenant that stand in the settings, by id."""
        return self._settled if tenant == DEFAULT_TENANT else {}

    async def policies(self, tenant: str) -> Mapping[str, Versions]:
        """Every policy of a tenant with its versions, wherever it stands, by id."""
        return {**(await self.library(tenant)).policies, **self.settled(tenant)}

    async def library(self, tenant: str) -> Library:
        """All that the tenant keeps about policies, as it is now."""
        known = self._known.get(tenant)
        if known is None or known.rev != await book_rev(self._store, tenant):
            known = self._remember(tenant, await read_library(self._store, tenant))
        return known

    async def change(self, member: Membership, plan: Callable[[Library], Change[T]]) -> T:
        """Write what `plan` makes of the present; it is asked again if someone else was faster.

        Raises what the plan raises, and `ValidationFailed` if no book could be made of the result.
        """
        tenant = member.tenant
        async with self._locks.setdefault(tenant, asyncio.Lock()):
            for _ in range(TRIES):
                library = await self.library(tenant)
                change = plan(library)
                result = after(library, save=change.save, delete=change.delete)
                await asyncio.to_thread(result.book)
                try:
                    await self._write(member, change, result.rev)
                except RelayConflict:
                    continue
                self._remember(tenant, result)
                if self.changed is not None:
                    await self.changed(tenant)
                return change.gives
        raise RelayConflict("Others change the policies of this tenant all the time; try again.")

    def note(self, member: Membership, message: str, metadata: Mapping[str, Any]) -> None:
        """Have the audit tell of something that changed nothing."""
        self._trail.note(self._trail.change(member, message, metadata=dict(metadata)))

    async def _write(self, member: Membership, change: Change[T], rev: int) -> None:
        await self._store.change_records(
            save=(*change.save, book_record(member.tenant, rev=rev, now=self.now())),
            delete=change.delete,
            events=(self._trail.change(member, change.message, metadata=dict(change.metadata)),),
        )

    def _remember(self, tenant: str, library: Library) -> Library:
        self._known.pop(tenant, None)
        self._known[tenant] = library
        while len(self._known) > MAX_LIBRARIES:
            del self._known[next(iter(self._known))]
        return library


def _settled(policy: Policy) -> Versions:
    return (Held(value=KeptPolicy(policy=policy, created_by=SETTINGS), rev=1),)
