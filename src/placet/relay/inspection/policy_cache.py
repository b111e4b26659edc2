"""Cache the compiled policies of every tenant, and reload them when they change."""

import asyncio
import logging
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path

from msgspec import Struct

from placet.errors import PlacetError, SettingsError, ValidationFailed
from placet.relay.detectors.policy_evaluator import PolicyEvaluator
from placet.relay.detectors.registry import DetectorRegistry
from placet.relay.inspection.policy_repository import PolicyRepository
from placet.relay.policy.policy import Policy, parse_policy_file
from placet.relay.policy.policy_set import PolicySet, PolicySnapshot, bind_for_everyone
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

    Raises SettingsError for a policy of the settings whose detector is not installed or rejects it.
    """

    def __init__(self, policy_repository: PolicyRepository, detectors: DetectorRegistry) -> None:
        self._policy_repository = policy_repository
        self._detectors = detectors
        self._settings_policies = [
            versions[-1].value.policy
            for versions in policy_repository.list_settings_policies(DEFAULT_TENANT).values()
        ]
        self._cached: dict[str, _CachedPolicies] = {}
        self._failures: dict[str, str] = {}
        self._locks: dict[str, asyncio.Lock] = {}
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._reloading: set[asyncio.Task[None]] = set()
        self._check_settings()
        policy_repository.add_change_listener(self.reload)

    async def open(self) -> None:
        """Load the policies of all tenants and watch for changes.

        The relay forwards no messages of a tenant until its policies are loaded.
        """
        self._policy_repository.store.add_record_listener(self._on_records_changed)
        for tenant in sorted(await self._policy_repository.list_tenants()):
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
        snapshot = await self._policy_repository.get_snapshot(tenant)
        if cached is not None and cached.rev == snapshot.rev and tenant not in self._failures:
            return
        bound = snapshot.select_bound()
        if cached is None or cached.bound != bound:
            evaluator = await asyncio.to_thread(self._build_evaluator, tenant, snapshot)
        else:
            evaluator = cached.evaluator  # only unbound policies have changed
        self._cached[tenant] = _CachedPolicies(rev=snapshot.rev, bound=bound, evaluator=evaluator)

    def _build_evaluator(self, tenant: str, snapshot: PolicySnapshot) -> PolicyEvaluator:
        policies = snapshot.in_force()
        groups = [group.value for group in snapshot.groups.values()]
        bindings = [binding.value for binding in snapshot.bindings.values()]
        if tenant == DEFAULT_TENANT and self._settings_policies:
            created_at = self._settings_policies[0].created_at
            group, binding = bind_for_everyone(self._settings_policies, id=SETTINGS_GROUP, now=created_at)
            policies, groups, bindings = (
                (*policies, *self._settings_policies),
                [*groups, group],
                [*bindings, binding],
            )
        return PolicyEvaluator(
            PolicySet(policies=policies, groups=groups, bindings=bindings), self._detectors
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
