"""The policy set of a tenant. It selects the policies that apply to a message, in order."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime

from msgspec import Struct

from placet.protocol.conversion import quote
from placet.relay.policies.binding import (
    Binding,
    BindingLevel,
    GroupEntry,
    PolicyGroup,
    PolicyRef,
)
from placet.relay.policies.policy import Leg, Policy, raise_invalid


class AppliedPolicy(Struct, frozen=True, kw_only=True):
    """A policy version with the binding and the group through which it applies."""

    policy: Policy
    level: BindingLevel
    binding_id: str
    group_id: str


class ApplicablePolicies(Struct, frozen=True, kw_only=True):
    """The policies that apply from `since` until `until`. None means unlimited."""

    policies: tuple[AppliedPolicy, ...]
    since: datetime | None
    until: datetime | None

    def is_current(self, at: datetime) -> bool:
        """Return whether the selection is valid at this time."""
        return (self.since is None or self.since <= at) and (self.until is None or at < self.until)


class PolicySet:
    """A tenant's policies in force. Immutable: each change creates a new set.

    Raises `ValidationFailed` if a group or binding refers to something that does not exist, because it would
    protect nothing.
    """

    def __init__(
        self,
        *,
        policies: Iterable[Policy] = (),
        groups: Iterable[PolicyGroup] = (),
        bindings: Iterable[Binding] = (),
    ) -> None:
        self._newest, self._versions = _index_versions(policies)
        self._groups = {group.id: group for group in groups}
        self._bindings = _group_by_scope(bindings)
        self._check_references()

    @classmethod
    def for_everyone(cls, policies: Iterable[Policy], *, now: datetime) -> "PolicySet":
        """Return a set whose policies apply to every message of the tenant, in this order."""
        ordered = tuple(policies)
        entries = tuple(
            GroupEntry(order_index=index, policy=PolicyRef(policy_id=policy.policy_id))
            for index, policy in enumerate(ordered)
        )
        group = PolicyGroup(id="everyone", name="everyone", policies=entries, created_at=now)
        binding = Binding(id="everyone", group_id=group.id, binding_level=BindingLevel.TENANT, created_at=now)
        return cls(policies=ordered, groups=(group,), bindings=(binding,))

    def list_bound(self, leg: Leg) -> tuple[Policy, ...]:
        """Return every policy version that can apply to a message on this leg, now or later."""
        all_bindings = (binding for bindings in self._bindings.values() for binding in bindings)
        groups = dict.fromkeys(binding.group_id for binding in all_bindings)
        found = (policy for group_id in groups for policy in self._list_group_policies(group_id))
        return tuple({_get_version_key(one): one for one in found if leg in one.config.enabled_legs}.values())

    def find_applicable(self, *, source: str, sink: str, leg: Leg, at: datetime) -> ApplicablePolicies:
        """Return the policies that apply to a message.

        They are sorted by level from wide to narrow, then by priority, then by position in the group. A
        policy that several bindings include applies once, at its first position.
        """
        found: dict[tuple[str, str], AppliedPolicy] = {}
        bounds: set[datetime] = set()
        for binding in self._list_bindings(source, sink):
            bounds.update(_list_bounds(binding.valid_from, binding.valid_to))
            for policy in self._list_group_policies(binding.group_id):
                if leg not in policy.config.enabled_legs:
                    continue
                bounds.update(_list_bounds(policy.valid_from, policy.valid_to))
                if binding.is_valid(at) and policy.is_valid(at):
                    applied = AppliedPolicy(
                        policy=policy,
                        level=binding.binding_level,
                        binding_id=binding.id,
                        group_id=binding.group_id,
                    )
                    found.setdefault(_get_version_key(policy), applied)
        return ApplicablePolicies(
            policies=tuple(found.values()),
            since=max((bound for bound in bounds if bound <= at), default=None),
            until=min((bound for bound in bounds if bound > at), default=None),
        )

    def _list_bindings(self, source: str, sink: str) -> list[Binding]:
        scopes = dict.fromkeys(
            (
                (BindingLevel.TENANT, None, None, None),
                (BindingLevel.AGENT, source, None, None),
                (BindingLevel.AGENT, sink, None, None),
                (BindingLevel.SUBSCRIPTION, None, source, sink),
            )
        )
        found = (binding for scope in scopes for binding in self._bindings.get(scope, ()))
        return sorted(found, key=lambda binding: binding.order)

    def _list_group_policies(self, group_id: str) -> Iterator[Policy]:
        entries = sorted(self._groups[group_id].policies, key=lambda entry: entry.order_index)
        return (self._resolve(entry.policy) for entry in entries)

    def _resolve(self, ref: PolicyRef) -> Policy:
        if ref.version is None:
            return self._newest[ref.policy_id]
        return self._versions[ref.policy_id, ref.version]

    def _check_references(self) -> None:
        for group in self._groups.values():
            for entry in group.policies:
                try:
                    self._resolve(entry.policy)
                except KeyError:
                    version = f" in version {quote(entry.policy.version)}" if entry.policy.version else ""
                    raise_invalid(
                        "group.policies",
                        f"names {quote(entry.policy.policy_id)}{version}, which does not exist",
                    )
        for binding in (one for bindings in self._bindings.values() for one in bindings):
            if binding.group_id not in self._groups:
                raise_invalid("binding.groupId", f"names {quote(binding.group_id)}, which does not exist")


def _index_versions(
    policies: Iterable[Policy],
) -> tuple[Mapping[str, Policy], Mapping[tuple[str, str], Policy]]:
    newest: dict[str, Policy] = {}
    versions: dict[tuple[str, str], Policy] = {}
    for policy in policies:
        versions[_get_version_key(policy)] = policy
        known = newest.get(policy.policy_id)
        if known is None or int(known.version) < int(policy.version):
            newest[policy.policy_id] = policy
    return newest, versions


def _group_by_scope(bindings: Iterable[Binding]) -> Mapping[tuple[str | None, ...], list[Binding]]:
    scopes: dict[tuple[str | None, ...], list[Binding]] = defaultdict(list)
    for binding in bindings:
        scopes[binding.scope].append(binding)
    return dict(scopes)


def _get_version_key(policy: Policy) -> tuple[str, str]:
    return (policy.policy_id, policy.version)


def _list_bounds(*bounds: datetime | None) -> Iterator[datetime]:
    return (bound for bound in bounds if bound is not None)
