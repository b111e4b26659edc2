"""Cache the compiled policies of every tenant, and reload them when they change."""

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
from placet.relay.inspection.policy_repository import read_policy_revision, read_policy_snapshot
from placet.relay.policy.binding import Binding, BindingLevel, GroupEntry, PolicyGroup, PolicyRef
from placet.relay.policy.policy import Policy, parse_policy_file
from placet.relay.policy.policy_set import PolicySet, PolicySnapshot
from placet.relay.tenants import DEFAULT_TENANT

SETTINGS_GROUP = "settings"
"""The id of the policy group and the binding of the policies in the settings."""
RETRY_AFTER_S = 5.0
"""The time between a failure to load policies and the next attempt."""

log = logging.getLogger("placet.relay")


class _CachedPolicies(Struct, frozen=True, kw_only=True):
    """The evaluator of a tenant, and the revision and bound policies that it was built from."""

    rev: int
    bound: PolicySnapshot
    evaluator: PolicyEvaluator


class PolicyCache:
    """Returns each tenant's evaluator. The old one stays in use until the new one is compiled.

    `read` returns a tenant's policies; without it, they are read from the store. Raises SettingsError for a
    policy of the settings whose detector is not installed or rejects it.
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
        self._settings_policies = tuple({policy.policy_id: policy for policy in settings_policies}.values())
        self._cached: dict[str, _CachedPolicies] = {}
        self._failures: dict[str, str] = {}
        self._locks: dict[str, asyncio.Lock] = {}
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._reloading: set[asyncio.Task[None]] = set()
        self._check_settings()

    async def open(self) -> None:
        """Load the policies of all tenants and watch for changes.

        The relay forwards no messages of a tenant until its policies are loaded.
        """
        tenants = {DEFAULT_TENANT}
        if self._store is not None:
            self._store.add_record_listener(self._on_records_changed)
            for kind in ("policy", "policy_group", "binding"):
                tenants.update(record.tenant for record in await self._store.list_records(kind))
        for tenant in sorted(tenants):
            await self.reload(tenant)

    def find(self, tenant: str) -> PolicyEvaluator | None:
        """Return the tenant's evaluator, or None if its policies are not loaded and no message may pass."""
        cached = self._cached.get(tenant)
        return None if cached is None else cached.evaluator

    async def load_evaluator(self, tenant: str) -> PolicyEvaluator | None:
        """Return the tenant's evaluator, loading it if necessary, or None if it cannot be loaded."""
        if tenant not in self._cached and tenant not in self._failures:
            await self.reload(tenant)
        return self.find(tenant)

    @property
    def failures(self) -> Mapping[str, str]:
        """The reasons why the newest policies of some tenants are not in force, by tenant."""
        return self._failures

    async def reload(self, tenant: str) -> None:
        """Load the tenant's newest policies. Log and record a failure."""
        async with self._locks.setdefault(tenant, asyncio.Lock()):
            try:
                await self._load(tenant)
            except Exception as error:
                self._report_failure(tenant, error)
            else:
                if self._failures.pop(tenant, None) is not None:
                    log.warning("policy_load_recovered tenant=%s", tenant)

    async def aclose(self) -> None:
        """Cancel all reloads."""
        for timer in self._timers.values():
            timer.cancel()
        for task in self._reloading:
            task.cancel()
        await asyncio.gather(*self._reloading, return_exceptions=True)

    async def _load(self, tenant: str) -> None:
        cached = self._cached.get(tenant)
        rev = 0 if self._store is None else await read_policy_revision(self._store, tenant)
        if cached is not None and cached.rev == rev and tenant not in self._failures:
            return
        snapshot = await self._read_snapshot(tenant)
        bound = snapshot.select_bound()
        if cached is None or cached.bound != bound:
            evaluator = await asyncio.to_thread(self._build_evaluator, tenant, snapshot)
        else:
            evaluator = cached.evaluator  # only unbound policies have changed
        self._cached[tenant] = _CachedPolicies(rev=snapshot.rev, bound=bound, evaluator=evaluator)

    async def _read_snapshot(self, tenant: str) -> PolicySnapshot:
        if self._store is None:
            return PolicySnapshot()
        return await (read_policy_snapshot(self._store, tenant) if self._read is None else self._read(tenant))

    def _build_evaluator(self, tenant: str, snapshot: PolicySnapshot) -> PolicyEvaluator:
        policies = snapshot.in_force()
        groups = [group.value for group in snapshot.groups.values()]
        bindings = [binding.value for binding in snapshot.bindings.values()]
        if tenant == DEFAULT_TENANT and self._settings_policies:
            group, binding = self._build_settings_binding()
            policies, groups, bindings = (
                (*policies, *self._settings_policies),
                [*groups, group],
                [*bindings, binding],
            )
        return PolicyEvaluator(
            PolicySet(policies=policies, groups=groups, bindings=bindings), self._detectors
        )

    def _build_settings_binding(self) -> tuple[PolicyGroup, Binding]:
        created_at = self._settings_policies[0].created_at
        entries = tuple(
            GroupEntry(order_index=index, policy=PolicyRef(policy_id=policy.policy_id))
            for index, policy in enumerate(self._settings_policies)
        )
        return (
            PolicyGroup(id=SETTINGS_GROUP, name=SETTINGS_GROUP, policies=entries, created_at=created_at),
            Binding(
                id=SETTINGS_GROUP,
                group_id=SETTINGS_GROUP,
                binding_level=BindingLevel.TENANT,
                created_at=created_at,
            ),
        )

    def _check_settings(self) -> None:
        for policy in self._settings_policies:
            try:
                self._detectors.check_config(policy.config, policy.name)
            except ValidationFailed as refusal:
                raise SettingsError(f"relay.policies: {refusal.message}") from refusal

    def _on_records_changed(self, tenant: str | None) -> None:
        """Reload the policies of a tenant, or of all tenants if it is None, in the background."""
        for changed in list(self._cached) if tenant is None else [tenant]:
            self._schedule_reload(changed, after_s=0.0)

    def _schedule_reload(self, tenant: str, *, after_s: float) -> None:
        """Reload a tenant's policies after a delay. Replaces a reload that is already scheduled."""
        if (scheduled := self._timers.pop(tenant, None)) is not None:
            scheduled.cancel()
        self._timers[tenant] = asyncio.get_running_loop().call_later(after_s, self._start_reload, tenant)

    def _start_reload(self, tenant: str) -> None:
        del self._timers[tenant]
        task = asyncio.create_task(self.reload(tenant))
        self._reloading.add(task)
        task.add_done_callback(self._reloading.discard)

    def _report_failure(self, tenant: str, error: Exception) -> None:
        if tenant in self._cached:
            effect, consequence = "earlier_policies", "the earlier policies stay in force"
        else:
            effect, consequence = "no_messages_pass", "no messages pass until they can be loaded"
        reason = error.message if isinstance(error, PlacetError) else type(error).__name__
        self._failures[tenant] = f"The policies cannot be loaded, so {consequence}: {reason}"
        log.error("policy_load_failed tenant=%s effect=%s", tenant, effect, exc_info=error, stacklevel=2)
        self._schedule_reload(tenant, after_s=RETRY_AFTER_S)


def read_settings_policies(file: str, *, now: datetime) -> list[Policy]:
    """Return the policies in the file that `relay.policies` names. Raises SettingsError."""
    path = Path(file)
    try:
        return parse_policy_file(path.read_bytes(), name=file, is_toml=path.suffix == ".toml", now=now)
    except OSError as error:
        raise SettingsError(f"relay.policies: {file} cannot be read: {error.strerror}.") from error
    except ValidationFailed as refusal:
        raise SettingsError(f"relay.policies: {refusal.message}") from refusal
