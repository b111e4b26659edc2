"""Read and change a tenant's stored policies, one checked change at a time."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from datetime import datetime
from typing import Any, TypeVar
from weakref import WeakValueDictionary

from placet.errors import RelayConflict
from placet.ports.config_store import ConfigStore
from placet.relay.audit.audit_log import AuditLog
from placet.relay.policies.policy import Policy
from placet.relay.policies.records import (
    REVISION_ID,
    PolicySnapshot,
    PolicyVersions,
    StoredPolicy,
    apply_changes,
    build_revision_record,
    snapshot_from_records,
)
from placet.relay.record_changes import RecordChange, Versioned
from placet.relay.registry.subscriptions import DEFAULT_TENANT
from placet.relay.registry.tenant_membership import Membership

MAX_ATTEMPTS = 8
MAX_SNAPSHOTS = 64
"""For so many tenants it is remembered what they keep."""
SETTINGS_AUTHOR = "settings"
"""Who has written what stands in the settings."""
T = TypeVar("T")


async def read_policy_revision(store: ConfigStore, tenant: str) -> int:
    """How often the tenant's policies, groups and bindings were changed."""
    record = await store.get_record(tenant, "book", REVISION_ID)
    return 0 if record is None else record.rev


async def read_policy_snapshot(store: ConfigStore, tenant: str) -> PolicySnapshot:
    """All that is kept about policies, at one moment; raises RelayConflict if it never stands still."""
    rev = await read_policy_revision(store, tenant)
    for _ in range(MAX_ATTEMPTS):
        policies = await store.list_records("policy", tenant)
        groups = await store.list_records("policy_group", tenant)
        bindings = await store.list_records("binding", tenant)
        before, rev = rev, await read_policy_revision(store, tenant)
        if rev == before:
            return await asyncio.to_thread(
                snapshot_from_records, rev, policies=policies, groups=groups, bindings=bindings
            )
    raise RelayConflict("The policies of this tenant change faster than they can be read; try again.")


class PolicyRepository:
    """Stored policies of all tenants, together with the read-only policies of the settings."""

    def __init__(
        self,
        store: ConfigStore,
        *,
        trail: AuditLog,
        now: Callable[[], datetime],
        settings_policies: Iterable[Policy] = (),
    ) -> None:
        self.changed: Callable[[str], Awaitable[None]] | None = None
        """Told of each change in a tenant, and waited for."""
        self._store = store
        self._trail = trail
        self._known: dict[str, PolicySnapshot] = {}
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self.now = now
        self._settled = {one.policy_id: _build_settings_version(one) for one in settings_policies}

    def list_settings_policies(self, tenant: str) -> Mapping[str, PolicyVersions]:
        """The policies of a tenant that stand in the settings, by id."""
        return self._settled if tenant == DEFAULT_TENANT else {}

    async def policies(self, tenant: str) -> Mapping[str, PolicyVersions]:
        """Every policy of a tenant with its versions, wherever it stands, by id."""
        return {**(await self.library(tenant)).policies, **self.list_settings_policies(tenant)}

    async def library(self, tenant: str) -> PolicySnapshot:
        """All that the tenant keeps about policies, as it is now."""
        known = self._known.get(tenant)
        if known is None or known.rev != await read_policy_revision(self._store, tenant):
            known = self._remember(tenant, await read_policy_snapshot(self._store, tenant))
        return known

    async def change(self, member: Membership, plan: Callable[[PolicySnapshot], RecordChange[T]]) -> T:
        """Write the change that `plan` returns for the current state; plan again on a conflict.

        Raises what the plan raises, and `ValidationFailed` if no book could be made of the result.
        """
        tenant = member.tenant
        async with self._locks.setdefault(tenant, asyncio.Lock()):
            for _ in range(MAX_ATTEMPTS):
                library = await self.library(tenant)
                change = plan(library)
                result = apply_changes(library, save=change.save, delete=change.delete)
                await asyncio.to_thread(result.book)
                try:
                    await self._write(member, change, result.rev)
                except RelayConflict:
                    continue
                self._remember(tenant, result)
                if self.changed is not None:
                    await self.changed(tenant)
                return change.result
        raise RelayConflict("Others change the policies of this tenant all the time; try again.")

    def note(self, member: Membership, message: str, metadata: Mapping[str, Any]) -> None:
        """Have the audit tell of something that changed nothing."""
        self._trail.record(self._trail.change(member, message, metadata=dict(metadata)))

    async def _write(self, member: Membership, change: RecordChange[T], rev: int) -> None:
        await self._store.change_records(
            save=(*change.save, build_revision_record(member.tenant, rev=rev, now=self.now())),
            delete=change.delete,
            events=(self._trail.change(member, change.message, metadata=dict(change.metadata)),),
        )

    def _remember(self, tenant: str, library: PolicySnapshot) -> PolicySnapshot:
        self._known.pop(tenant, None)
        self._known[tenant] = library
        while len(self._known) > MAX_SNAPSHOTS:
            del self._known[next(iter(self._known))]
        return library


def _build_settings_version(policy: Policy) -> PolicyVersions:
    return (Versioned(value=StoredPolicy(policy=policy, created_by=SETTINGS_AUTHOR), rev=1),)
