"""Read and change a tenant's stored policies, one checked change at a time."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from datetime import datetime
from functools import partial
from typing import Any, TypeVar
from weakref import WeakValueDictionary

from placet.errors import RelayConflict
from placet.ports.config_store import ConfigStore
from placet.relay.audit.audit_log import AuditLog
from placet.relay.policy.policy import Policy
from placet.relay.policy.policy_set import (
    KINDS,
    REVISION_ID,
    PolicySnapshot,
    PolicyVersions,
    StoredPolicy,
    apply_changes,
    build_revision_record,
    snapshot_from_records,
)
from placet.relay.record_changes import (
    MAX_ATTEMPTS,
    RecordChange,
    Versioned,
    read_at_one_revision,
    read_revision,
)
from placet.relay.tenants import DEFAULT_TENANT, Membership

MAX_SNAPSHOTS = 64
"""Limit of tenants whose snapshots are cached."""
SETTINGS_AUTHOR = "settings"
"""The `created_by` of policies from the settings."""
T = TypeVar("T")


async def read_policy_revision(store: ConfigStore, tenant: str) -> int:
    """Return how many times the tenant's policies, groups and bindings were changed."""
    return await read_revision(store, tenant, "policies", REVISION_ID)


async def read_policy_snapshot(store: ConfigStore, tenant: str) -> PolicySnapshot:
    """Return the tenant's policies at one revision; raise RelayConflict if they keep changing."""
    get_revision = partial(read_policy_revision, store, tenant)
    rev, (policies, groups, bindings) = await read_at_one_revision(store, KINDS, get_revision, tenant)
    return await asyncio.to_thread(
        snapshot_from_records, rev, policies=policies, groups=groups, bindings=bindings
    )


class PolicyRepository:
    """Reads and changes the stored policies of all tenants, and lists the read-only ones of the settings."""

    def __init__(
        self,
        store: ConfigStore,
        *,
        audit_log: AuditLog,
        now: Callable[[], datetime],
        settings_policies: Iterable[Policy] = (),
    ) -> None:
        self._store = store
        self._listeners: list[Callable[[str], Awaitable[None]]] = []
        self._audit_log = audit_log
        self._snapshots: dict[str, PolicySnapshot] = {}
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self.now = now
        self._settings_policies = {one.policy_id: _build_settings_version(one) for one in settings_policies}

    @property
    def store(self) -> ConfigStore:
        """The store of the policies."""
        return self._store

    def add_change_listener(self, listener: Callable[[str], Awaitable[None]]) -> None:
        """Call `listener` with the tenant after each change of this repository. The change waits for it."""
        self._listeners.append(listener)

    async def list_tenants(self) -> set[str]:
        """Return the tenants that have stored policies, and the default tenant."""
        records = [record for kind in KINDS for record in await self._store.list_records(kind)]
        return {DEFAULT_TENANT, *(record.tenant for record in records)}

    def list_settings_policies(self, tenant: str) -> Mapping[str, PolicyVersions]:
        """Return the tenant's policies from the settings, by id."""
        return self._settings_policies if tenant == DEFAULT_TENANT else {}

    async def list_policies(self, tenant: str) -> Mapping[str, PolicyVersions]:
        """Return the versions of each stored policy and settings policy of the tenant, by id."""
        return {**(await self.get_snapshot(tenant)).policies, **self.list_settings_policies(tenant)}

    async def get_snapshot(self, tenant: str) -> PolicySnapshot:
        """Return the tenant's current stored policies, from the cache if they have not changed."""
        snapshot = self._snapshots.get(tenant)
        if snapshot is None or snapshot.rev != await read_policy_revision(self._store, tenant):
            snapshot = self._cache(tenant, await read_policy_snapshot(self._store, tenant))
        return snapshot

    async def change(self, member: Membership, plan: Callable[[PolicySnapshot], RecordChange[T]]) -> T:
        """Write the change that `plan` returns for the current snapshot; call it again on a conflict.

        Raises what `plan` raises, and `ValidationFailed` if the result is not a valid policy set.
        """
        tenant = member.tenant
        async with self._locks.setdefault(tenant, asyncio.Lock()):
            for _ in range(MAX_ATTEMPTS):
                snapshot = await self.get_snapshot(tenant)
                change = plan(snapshot)
                result = apply_changes(snapshot, save=change.save, delete=change.delete)
                await asyncio.to_thread(result.build_policy_set)
                try:
                    await self._write(member, change, result.rev)
                except RelayConflict:
                    continue
                self._cache(tenant, result)
                for listener in self._listeners:
                    await listener(tenant)
                return change.result
        raise RelayConflict("Others changed the tenant's policies at the same time. Try again.")

    def record_event(self, member: Membership, message: str, metadata: Mapping[str, Any]) -> None:
        """Write an audit event for an action that changes no record."""
        self._audit_log.record(self._audit_log.build_change_event(member, message, metadata=dict(metadata)))

    async def _write(self, member: Membership, change: RecordChange[T], rev: int) -> None:
        await self._store.change_records(
            save=(*change.save, build_revision_record(member.tenant, rev=rev, now=self.now())),
            delete=change.delete,
            events=(
                self._audit_log.build_change_event(member, change.message, metadata=dict(change.metadata)),
            ),
        )

    def _cache(self, tenant: str, snapshot: PolicySnapshot) -> PolicySnapshot:
        self._snapshots.pop(tenant, None)
        self._snapshots[tenant] = snapshot
        while len(self._snapshots) > MAX_SNAPSHOTS:
            del self._snapshots[next(iter(self._snapshots))]
        return snapshot


def _build_settings_version(policy: Policy) -> PolicyVersions:
    return (Versioned(value=StoredPolicy(policy=policy, created_by=SETTINGS_AUTHOR), rev=1),)
