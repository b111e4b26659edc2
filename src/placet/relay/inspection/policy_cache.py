"""Compiled policies of every tenant, reloaded when they change."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path

from msgspec import Struct

from placet.errors import PlacetError, SettingsError, ValidationFailed
from placet.ports.config_store import ConfigStore
from placet.relay.detectors.policy_evaluator import PolicyEvaluator
from placet.relay.detectors.registry import DetectorRegistry
from placet.relay.policies.binding import Binding, BindingLevel, GroupEntry, PolicyGroup, PolicyRef
from placet.relay.policies.policy import Policy
from placet.relay.policies.policy_file import parse_policy_file
from placet.relay.policies.policy_set import PolicySet
from placet.relay.policies.records import PolicySnapshot
from placet.relay.policies.repository import read_policy_revision, read_policy_snapshot
from placet.relay.registry.subscriptions import DEFAULT_TENANT

SETTINGS_GROUP = "settings"
"""The group and the binding of what stands in the settings."""
RETRY_AFTER_S = 5.0
"""So long after a failure the policies are read once more."""

log = logging.getLogger("placet.relay")


class _CachedPolicies(Struct, frozen=True, kw_only=True):
    """What is in force for a tenant, and of which state of its records."""

    rev: int
    bound: PolicySnapshot
    inspector: PolicyEvaluator


class PolicyCache:
    """Returns each tenant's evaluator; the old one serves until a new one is compiled.

    `read` gives what a tenant keeps, where somebody has it at hand. Raises SettingsError for policies of the
    settings that cannot be checked here.
    """

    def __init__(
        self,
        store: ConfigStore | None,
        detectors: DetectorRegistry,
        *,
        now: Callable[[], datetime],
        settings_policies: Sequence[Policy] = (),
        read: Callable[[str], Awaitable[PolicySnapshot]] | None = None,
    ) -> None:
        self._store = store
        self._read = read
        self._detectors = detectors
        self._now = now
        self._of_settings = tuple({one.policy_id: one for one in settings_policies}.values())
        self._ready: dict[str, _CachedPolicies] = {}
        self._failures: dict[str, str] = {}
        self._locks: dict[str, asyncio.Lock] = {}
        self._due: dict[str, asyncio.TimerHandle] = {}
        self._reloading: set[asyncio.Task[None]] = set()
        self._check_settings()

    async def open(self) -> None:
        """Make all policies ready and follow their changes.

        A tenant whose policies cannot be made ready passes nothing until they can.
        """
        tenants = {DEFAULT_TENANT}
        if self._store is not None:
            self._store.add_record_listener(self._on_records_changed)
            for kind in ("policy", "policy_group", "binding"):
                tenants.update(record.tenant for record in await self._store.list_records(kind))
        for tenant in sorted(tenants):
            await self.reload(tenant)

    def find(self, tenant: str) -> PolicyEvaluator | None:
        """The tenant's inspector; None if its policies are not ready, so that nothing may pass."""
        found = self._ready.get(tenant)
        return None if found is None else found.inspector

    async def inspector(self, tenant: str) -> PolicyEvaluator | None:
        """The same, read first if the tenant was never met before."""
        if tenant not in self._ready and tenant not in self._failures:
            await self.reload(tenant)
        return self.find(tenant)

    @property
    def failures(self) -> Mapping[str, str]:
        """Tenants whose newest policies are not in force, and why."""
        return self._failures

    async def reload(self, tenant: str) -> None:
        """Return when the tenant's newest policies are in force, or the failure is told."""
        async with self._locks.setdefault(tenant, asyncio.Lock()):
            try:
                await self._load(tenant)
            except Exception as error:
                self._report_failure(tenant, error)
            else:
                if self._failures.pop(tenant, None) is not None:
                    log.warning("policy_load_recovered tenant=%s", tenant)

    async def aclose(self) -> None:
        """Stop following changes."""
        for due in self._due.values():
            due.cancel()
        for task in self._reloading:
            task.cancel()
        await asyncio.gather(*self._reloading, return_exceptions=True)

    async def _load(self, tenant: str) -> None:
        known = self._ready.get(tenant)
        rev = 0 if self._store is None else await read_policy_revision(self._store, tenant)
        if known is not None and known.rev == rev and tenant not in self._failures:
            return
        library = await self._library(tenant)
        bound = library.select_bound()
        if known is None or known.bound != bound:
            made = await asyncio.to_thread(self._build_evaluator, tenant, library)
        else:
            made = known.inspector  # what changed is bound to nothing
        self._ready[tenant] = _CachedPolicies(rev=library.rev, bound=bound, inspector=made)

    async def _library(self, tenant: str) -> PolicySnapshot:
        if self._store is None:
            return PolicySnapshot()
        return await (read_policy_snapshot(self._store, tenant) if self._read is None else self._read(tenant))

    def _build_evaluator(self, tenant: str, library: PolicySnapshot) -> PolicyEvaluator:
        policies = library.in_force()
        groups = [one.value for one in library.groups.values()]
        bindings = [one.value for one in library.bindings.values()]
        if tenant == DEFAULT_TENANT and self._of_settings:
            group, binding = self._build_settings_binding()
            policies, groups, bindings = (
                (*policies, *self._of_settings),
                [*groups, group],
                [*bindings, binding],
            )
        return PolicyEvaluator(
            PolicySet(policies=policies, groups=groups, bindings=bindings), self._detectors
        )

    def _build_settings_binding(self) -> tuple[PolicyGroup, Binding]:
        now = self._of_settings[0].created_at
        entries = tuple(
            GroupEntry(order_index=place, policy=PolicyRef(policy_id=one.policy_id))
            for place, one in enumerate(self._of_settings)
        )
        return (
            PolicyGroup(id=SETTINGS_GROUP, name=SETTINGS_GROUP, policies=entries, created_at=now),
            Binding(
                id=SETTINGS_GROUP, group_id=SETTINGS_GROUP, binding_level=BindingLevel.TENANT, created_at=now
            ),
        )

    def _check_settings(self) -> None:
        for one in self._of_settings:
            try:
                self._detectors.check_config(one.config, one.name)
            except ValidationFailed as refusal:
                raise SettingsError(f"relay.policies: {refusal.message}") from refusal

    def _on_records_changed(self, tenant: str | None) -> None:
        """Records changed: have everyone's, or one tenant's, looked at beside the traffic."""
        for one in list(self._ready) if tenant is None else [tenant]:
            self._schedule_reload(one, after_s=0.0)

    def _schedule_reload(self, tenant: str, *, after_s: float) -> None:
        """Have a tenant's policies read again; what was to happen later happens at this time instead."""
        if (earlier := self._due.pop(tenant, None)) is not None:
            earlier.cancel()
        self._due[tenant] = asyncio.get_running_loop().call_later(after_s, self._start_reload, tenant)

    def _start_reload(self, tenant: str) -> None:
        del self._due[tenant]
        task = asyncio.create_task(self.reload(tenant))
        self._reloading.add(task)
        task.add_done_callback(self._reloading.discard)

    def _report_failure(self, tenant: str, error: Exception) -> None:
        old = tenant in self._ready
        told = "the earlier ones stay in force" if old else "nothing passes until they can"
        reason = error.message if isinstance(error, PlacetError) else type(error).__name__
        self._failures[tenant] = f"The policies cannot be made ready, so {told}: {reason}"
        log.error("policy_load_failed tenant=%s effect=%s", tenant, told, exc_info=error, stacklevel=2)
        self._schedule_reload(tenant, after_s=RETRY_AFTER_S)


def read_settings_policies(file: str, *, now: datetime) -> list[Policy]:
    """The policies of a file that the settings name; raises SettingsError."""
    path = Path(file)
    try:
        return parse_policy_file(path.read_bytes(), name=file, is_toml=path.suffix == ".toml", now=now)
    except OSError as error:
        raise SettingsError(f"relay.policies: {file} cannot be read: {error.strerror}.") from error
    except ValidationFailed as refusal:
        raise SettingsError(f"relay.policies: {refusal.message}") from refusal
