"""The retention policy of every tenant, cached and refreshed on change."""

import asyncio
import logging
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

import msgspec

from placet.errors import PlacetError, RelayConflict
from placet.ports.config_store import ConfigRecord, ConfigStore
from placet.relay.audit.audit_log import AuditLog
from placet.relay.retention_policy import PayloadMode, RetentionPolicy, check_retention_policy
from placet.relay.tenant_membership import Membership

RECORD_ID = "tenant"
DEFAULT = RetentionPolicy()

log = logging.getLogger("placet.relay.audit")
_decode = msgspec.json.Decoder(RetentionPolicy).decode


class TenantRetention:
    """The policies of the settings file, which only the file changes, and those of the store."""

    def __init__(
        self,
        store: ConfigStore,
        *,
        settings_policies: Mapping[str, RetentionPolicy],
        now: Callable[[], datetime],
    ) -> None:
        self._store = store
        self._settings_policies = settings_policies
        self._now = now
        self._stored: dict[str, tuple[RetentionPolicy, int]] | None = None
        self._stale = False
        self._loading: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Load the stored policies, now and after every change, also of another process."""
        await self.load()
        self._store.add_record_listener(self._on_records_changed)

    async def load(self) -> None:
        """Load the stored policies."""
        self._stored = {
            record.tenant: (_decode(record.body), record.rev)
            for record in await self._store.list_records("tenant")
        }

    def get_policy(self, tenant: str) -> RetentionPolicy:
        """Return the policy of a tenant."""
        from_settings = self._settings_policies.get(tenant)
        if from_settings is not None:
            return from_settings
        stored = (self._stored or {}).get(tenant)
        return DEFAULT if stored is None else stored[0]

    def is_in_settings(self, tenant: str) -> bool:
        """Return whether the settings file defines the policy of this tenant."""
        return tenant in self._settings_policies

    def get_payload_mode(self, tenant: str) -> PayloadMode:
        """Return how message bodies are stored. Before the policies are loaded, none are stored."""
        if self._stored is None:
            return "none"
        return self.get_policy(tenant).payloads

    def get_rev(self, tenant: str) -> int:
        """Return the revision of the tenant's stored policy, or 0 if there is none."""
        return (self._stored or {}).get(tenant, (DEFAULT, 0))[1]

    async def save(
        self,
        member: Membership,
        policy: RetentionPolicy,
        audit_log: AuditLog,
        *,
        check: Callable[[int], None] = lambda rev: None,
    ) -> RetentionPolicy:
        """Store the policy of the member's tenant, and return it.

        `check` is called with the current `rev`, and raises an error if the member has not seen it. Raises
        ValidationFailed for an invalid policy, and RelayConflict if the settings file defines the policy.
        """
        check_retention_policy(policy)
        tenant = member.tenant
        if self.is_in_settings(tenant):
            raise RelayConflict(
                f"The settings file defines the retention policy of tenant {tenant}. Change it there."
            )
        await self.load()
        before, rev = (self._stored or {}).get(tenant, (DEFAULT, 0))
        check(rev)
        record = ConfigRecord(
            tenant=tenant,
            kind="tenant",
            id=RECORD_ID,
            rev=rev + 1,
            body=msgspec.json.encode(policy),
            saved_at=self._now(),
        )
        changes: dict[str, Any] = {
            "before": msgspec.to_builtins(before),
            "after": msgspec.to_builtins(policy),
        }
        event = audit_log.build_change_event(
            member, f"{member.name} changed the retention policy.", metadata=changes
        )
        await self._store.change_records(save=[record], events=[event])
        await self.load()
        return policy

    def _on_records_changed(self, tenant: str | None) -> None:
        self._stale = True
        if self._loading is None or self._loading.done():
            self._loading = asyncio.get_running_loop().create_task(self._reload())

    async def _reload(self) -> None:
        while self._stale:
            self._stale = False
            try:
                await self.load()
            except PlacetError as error:  # the policies loaded before stay in force until the next change
                log.warning("tenant_retention_reload_failed error=%s", error.message)
