"""The policies, groups and bindings of one tenant in force, and the records they are stored as."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any, TypeVar

import msgspec
from msgspec import Struct, field

from placet.errors import Unavailable, ValidationFailed
from placet.ports.config_store import ConfigKind, ConfigRecord
from placet.protocol.conversion import quote
from placet.protocol.timestamp import Timestamp
from placet.relay.policy.binding import (
    Binding,
    BindingLevel,
    GroupEntry,
    PolicyGroup,
    PolicyRef,
)
from placet.relay.policy.policy import Leg, Policy, is_in_window, parse_policy, raise_invalid
from placet.relay.record_changes import Versioned

REVISION_ID = "policies"
KINDS: tuple[ConfigKind, ...] = ("policy", "policy_group", "binding")
T = TypeVar("T")


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
        return is_in_window(self.since, self.until, at)


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
        group, binding = bind_for_everyone(ordered, id="everyone", now=now)
        return cls(policies=ordered, groups=(group,), bindings=(binding,))

    def list_bound(self, leg: Leg) -> tuple[Policy, ...]:
        """Return every policy version that can apply to a message on this leg, now or later."""
        all_bindings = (binding for bindings in self._bindings.values() for binding in bindings)
        groups = dict.fromkeys(binding.group_id for binding in all_bindings)
        found = (policy for group_id in groups for policy in self._list_group_policies(group_id))
        return tuple({one.key: one for one in found if leg in one.config.enabled_legs}.values())

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
                    found.setdefault(policy.key, applied)
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


def bind_for_everyone(policies: Iterable[Policy], *, id: str, now: datetime) -> tuple[PolicyGroup, Binding]:
    """Return a group with these policies, and a binding that applies it to every message of the tenant."""
    entries = tuple(
        GroupEntry(order_index=index, policy=PolicyRef(policy_id=policy.policy_id))
        for index, policy in enumerate(policies)
    )
    return (
        PolicyGroup(id=id, name=id, policies=entries, created_at=now),
        Binding(id=id, group_id=id, binding_level=BindingLevel.TENANT, created_at=now),
    )


def _index_versions(
    policies: Iterable[Policy],
) -> tuple[Mapping[str, Policy], Mapping[tuple[str, str], Policy]]:
    newest: dict[str, Policy] = {}
    versions: dict[tuple[str, str], Policy] = {}
    for policy in policies:
        versions[policy.key] = policy
        known = newest.get(policy.policy_id)
        if known is None or int(known.version) < int(policy.version):
            newest[policy.policy_id] = policy
    return newest, versions


def _group_by_scope(bindings: Iterable[Binding]) -> Mapping[tuple[str | None, ...], list[Binding]]:
    scopes: dict[tuple[str | None, ...], list[Binding]] = defaultdict(list)
    for binding in bindings:
        scopes[binding.scope].append(binding)
    return dict(scopes)


def _list_bounds(*bounds: datetime | None) -> Iterator[datetime]:
    return (bound for bound in bounds if bound is not None)


class StoredPolicy(Struct, frozen=True, kw_only=True, rename="camel"):
    """One stored version of a policy, with its author and its retirement."""

    policy: Policy
    created_by: str
    retired_at: Timestamp | None = None
    retired_by: str | None = None


PolicyVersions = tuple[Versioned[StoredPolicy], ...]
"""The versions of one policy, oldest first."""


class PolicySnapshot(Struct, frozen=True, kw_only=True):
    """A tenant's stored policies, groups and bindings at one revision."""

    rev: int = 0
    policies: Mapping[str, PolicyVersions] = field(default_factory=dict)
    """By id."""
    groups: Mapping[str, Versioned[PolicyGroup]] = field(default_factory=dict)
    bindings: Mapping[str, Versioned[Binding]] = field(default_factory=dict)

    def in_force(self) -> tuple[Policy, ...]:
        """Return every version of every policy that is not retired."""
        return tuple(
            one.value.policy
            for versions in self.policies.values()
            if versions[-1].value.retired_at is None
            for one in versions
        )

    def select_bound(self) -> "PolicySnapshot":
        """Return only what can apply to messages: the bindings, their groups, and the groups' policies."""
        bound = {one.value.group_id for one in self.bindings.values()}
        groups = {group_id: self.groups[group_id] for group_id in sorted(bound) if group_id in self.groups}
        policies = {entry.policy.policy_id for one in groups.values() for entry in one.value.policies}
        return PolicySnapshot(
            policies={one: self.policies[one] for one in sorted(policies) if one in self.policies},
            groups=groups,
            bindings=self.bindings,
        )

    def build_policy_set(self) -> PolicySet:
        """Return the policy set; raise `ValidationFailed` if a group or binding has a dangling reference."""
        return PolicySet(
            policies=self.in_force(),
            groups=(one.value for one in self.groups.values()),
            bindings=(one.value for one in self.bindings.values()),
        )


class _StoredPolicyBody(Struct, frozen=True, kw_only=True, rename="camel"):
    policy: dict[str, Any]
    created_by: str
    retired_at: Timestamp | None = None
    retired_by: str | None = None


_decode_policy = msgspec.json.Decoder(_StoredPolicyBody).decode
_decode_group = msgspec.json.Decoder(PolicyGroup).decode
_decode_binding = msgspec.json.Decoder(Binding).decode


def get_policy_record_id(policy_id: str, version: str) -> str:
    """Return the id of a policy version's record."""
    return f"{policy_id}:{version}"


def decode_policy_record(record: ConfigRecord) -> StoredPolicy:
    """Return the policy version in a record; raise `Unavailable` if the record is damaged."""
    return _decode_record(record, _stored_policy_from_body)


def _stored_policy_from_body(content: bytes) -> StoredPolicy:
    body = _decode_policy(content)
    return StoredPolicy(
        policy=parse_policy(body.policy),
        created_by=body.created_by,
        retired_at=body.retired_at,
        retired_by=body.retired_by,
    )


def _decode_record(record: ConfigRecord, decode: Callable[[bytes], T]) -> T:
    """Return the decoded body. A damaged record raises, because skipping it would weaken the protection."""
    try:
        return decode(record.body)
    except (msgspec.DecodeError, ValidationFailed) as error:
        raise Unavailable(f"The {record.kind} {record.id} in the store cannot be read: {error}") from error


def snapshot_from_records(
    rev: int,
    *,
    policies: Iterable[ConfigRecord],
    groups: Iterable[ConfigRecord],
    bindings: Iterable[ConfigRecord],
) -> PolicySnapshot:
    """Return the snapshot of these records; raise `Unavailable` if a record is damaged."""
    versions: dict[str, list[Versioned[StoredPolicy]]] = {}
    for record in policies:
        stored = decode_policy_record(record)
        versions.setdefault(stored.policy.policy_id, []).append(Versioned(value=stored, rev=record.rev))
    return PolicySnapshot(
        rev=rev,
        policies={
            policy_id: tuple(sorted(unsorted, key=lambda one: int(one.value.policy.version)))
            for policy_id, unsorted in versions.items()
        },
        groups={one.id: Versioned(value=_decode_record(one, _decode_group), rev=one.rev) for one in groups},
        bindings={
            one.id: Versioned(value=_decode_record(one, _decode_binding), rev=one.rev) for one in bindings
        },
    )


def apply_changes(
    snapshot: PolicySnapshot, *, save: Iterable[ConfigRecord], delete: Iterable[ConfigRecord] = ()
) -> PolicySnapshot:
    """Return the snapshot after these groups and bindings are deleted and these records are saved."""
    policies, groups, bindings = dict(snapshot.policies), dict(snapshot.groups), dict(snapshot.bindings)
    for record in delete:
        (groups if record.kind == "policy_group" else bindings).pop(record.id)
    for record in save:
        if record.kind == "policy":
            stored = decode_policy_record(record)
            versions = policies.get(stored.policy.policy_id, ())
            policies[stored.policy.policy_id] = _add_version(
                versions, Versioned(value=stored, rev=record.rev)
            )
        elif record.kind == "policy_group":
            groups[record.id] = Versioned(value=_decode_record(record, _decode_group), rev=record.rev)
        else:
            bindings[record.id] = Versioned(value=_decode_record(record, _decode_binding), rev=record.rev)
    return PolicySnapshot(rev=snapshot.rev + 1, policies=policies, groups=groups, bindings=bindings)


def build_policy_record(tenant: str, stored: StoredPolicy, *, rev: int, now: datetime) -> ConfigRecord:
    """Return the record of a policy version."""
    record_id = get_policy_record_id(stored.policy.policy_id, stored.policy.version)
    return _build_record(tenant, "policy", record_id, stored, rev=rev, now=now)


def build_group_record(tenant: str, group: PolicyGroup, *, rev: int, now: datetime) -> ConfigRecord:
    """Return the record of a policy group."""
    return _build_record(tenant, "policy_group", group.id, group, rev=rev, now=now)


def build_binding_record(tenant: str, binding: Binding, *, rev: int, now: datetime) -> ConfigRecord:
    """Return the record of a binding."""
    return _build_record(tenant, "binding", binding.id, binding, rev=rev, now=now)


def build_revision_record(tenant: str, *, rev: int, now: datetime) -> ConfigRecord:
    """Return the record that counts the tenant's changes. Each change writes it."""
    return _build_record(tenant, "policies", REVISION_ID, {}, rev=rev, now=now)


def _add_version(versions: PolicyVersions, new: Versioned[StoredPolicy]) -> PolicyVersions:
    number = new.value.policy.version
    return (*(one for one in versions if one.value.policy.version != number), new)


def _build_record(
    tenant: str, kind: ConfigKind, id: str, body: object, *, rev: int, now: datetime
) -> ConfigRecord:
    return ConfigRecord(
        tenant=tenant, kind=kind, id=id, rev=rev, body=msgspec.json.encode(body), saved_at=now
    )
