"""Policies, groups and bindings as the records of a tenant: what is kept where, and what it makes together.

| kind           | id                 | body                                              |
|----------------|--------------------|---------------------------------------------------|
| `policy`       | `policyId:version` | `StoredPolicy`; written once, and never removed     |
| `policy_group` | its id             | `PolicyGroup`                                     |
| `binding`      | its id             | `Binding`                                         |
| `book`         | `book`             | nothing; its `rev` counts the changes of the rest |

Bodies are JSON in the words of the wire. A policy is retired as soon as the record of its newest version has
a `retiredAt`, which is the only change a version ever sees: from then on none of its versions is in force.

Every change writes the next `book` in its own transaction. So whoever read the records at one `rev` and
writes the next knows that nothing came between, and whoever made something of them learns from this one
record whether it is still true.
"""

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any, TypeVar

import msgspec
from msgspec import Struct, field

from placet.errors import Unavailable, ValidationFailed
from placet.ports.config_store import ConfigKind, ConfigRecord
from placet.protocol.timestamp import Timestamp
from placet.relay.policies.binding import Binding, PolicyGroup
from placet.relay.policies.policy import Policy, parse_policy
from placet.relay.policies.policy_set import PolicySet
from placet.relay.record_changes import Versioned

REVISION_ID = "book"
KINDS: tuple[ConfigKind, ...] = ("policy", "policy_group", "binding")
T = TypeVar("T")


class StoredPolicy(Struct, frozen=True, kw_only=True, rename="camel"):
    """One version of a policy, and what became of it."""

    policy: Policy
    created_by: str
    retired_at: Timestamp | None = None
    retired_by: str | None = None


PolicyVersions = tuple[Versioned[StoredPolicy], ...]
"""Those of one policy, the oldest first."""


class PolicySnapshot(Struct, frozen=True, kw_only=True):
    """A tenant's stored policies, groups and bindings at one revision."""

    rev: int = 0
    policies: Mapping[str, PolicyVersions] = field(default_factory=dict)
    """By id."""
    groups: Mapping[str, Versioned[PolicyGroup]] = field(default_factory=dict)
    bindings: Mapping[str, Versioned[Binding]] = field(default_factory=dict)

    def in_force(self) -> tuple[Policy, ...]:
        """Every version of every policy that is not retired."""
        return tuple(
            one.value.policy
            for versions in self.policies.values()
            if versions[-1].value.retired_at is None
            for one in versions
        )

    def select_bound(self) -> "PolicySnapshot":
        """Only what messages can meet: the bindings, their groups, and the policies of those."""
        named = {one.value.group_id for one in self.bindings.values()}
        groups = {group_id: self.groups[group_id] for group_id in sorted(named) if group_id in self.groups}
        policies = {entry.policy.policy_id for one in groups.values() for entry in one.value.policies}
        return PolicySnapshot(
            policies={one: self.policies[one] for one in sorted(policies) if one in self.policies},
            groups=groups,
            bindings=self.bindings,
        )

    def book(self) -> PolicySet:
        """What applies when; raises `ValidationFailed` if a group or a binding names what is not there."""
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
    """The name of a version's record."""
    return f"{policy_id}:{version}"


def decode_policy_record(record: ConfigRecord) -> StoredPolicy:
    """What the record of a version says; raises `Unavailable` for one that is not sound."""
    return _decode_record(record, _stored_policy_from_body)


def _stored_policy_from_body(content: bytes) -> StoredPolicy:
    body = _decode_policy(content)
    return StoredPolicy(
        policy=parse_policy(body.policy),
        created_by=body.created_by,
        retired_at=body.retired_at,
        retired_by=body.retired_by,
    )


def _decode_record(record: ConfigRecord, read: Callable[[bytes], T]) -> T:
    """What a record says. One that cannot be read is not left out: the rest would protect less."""
    try:
        return read(record.body)
    except (msgspec.DecodeError, ValidationFailed) as error:
        raise Unavailable(f"The {record.kind} {record.id} in the store cannot be read: {error}") from error


def snapshot_from_records(
    rev: int,
    *,
    policies: Iterable[ConfigRecord],
    groups: Iterable[ConfigRecord],
    bindings: Iterable[ConfigRecord],
) -> PolicySnapshot:
    """Everything in the records; raises `Unavailable` for one that is not sound."""
    versions: dict[str, list[Versioned[StoredPolicy]]] = {}
    for record in policies:
        kept = decode_policy_record(record)
        versions.setdefault(kept.policy.policy_id, []).append(Versioned(value=kept, rev=record.rev))
    return PolicySnapshot(
        rev=rev,
        policies={
            policy_id: tuple(sorted(listed, key=lambda one: int(one.value.policy.version)))
            for policy_id, listed in versions.items()
        },
        groups={one.id: Versioned(value=_decode_record(one, _decode_group), rev=one.rev) for one in groups},
        bindings={
            one.id: Versioned(value=_decode_record(one, _decode_binding), rev=one.rev) for one in bindings
        },
    )


def apply_changes(
    library: PolicySnapshot, *, save: Iterable[ConfigRecord], delete: Iterable[ConfigRecord] = ()
) -> PolicySnapshot:
    """The library once these groups and bindings are removed and those records are written."""
    policies, groups, bindings = dict(library.policies), dict(library.groups), dict(library.bindings)
    for record in delete:
        (groups if record.kind == "policy_group" else bindings).pop(record.id)
    for record in save:
        if record.kind == "policy":
            kept = decode_policy_record(record)
            others = policies.get(kept.policy.policy_id, ())
            policies[kept.policy.policy_id] = _add_version(others, Versioned(value=kept, rev=record.rev))
        elif record.kind == "policy_group":
            groups[record.id] = Versioned(value=_decode_record(record, _decode_group), rev=record.rev)
        else:
            bindings[record.id] = Versioned(value=_decode_record(record, _decode_binding), rev=record.rev)
    return PolicySnapshot(rev=library.rev + 1, policies=policies, groups=groups, bindings=bindings)


def build_policy_record(tenant: str, kept: StoredPolicy, *, rev: int, now: datetime) -> ConfigRecord:
    """A version as it is written."""
    name = get_policy_record_id(kept.policy.policy_id, kept.policy.version)
    return _build_record(tenant, "policy", name, kept, rev=rev, now=now)


def build_group_record(tenant: str, group: PolicyGroup, *, rev: int, now: datetime) -> ConfigRecord:
    """A group as it is written."""
    return _build_record(tenant, "policy_group", group.id, group, rev=rev, now=now)


def build_binding_record(tenant: str, binding: Binding, *, rev: int, now: datetime) -> ConfigRecord:
    """A binding as it is written."""
    return _build_record(tenant, "binding", binding.id, binding, rev=rev, now=now)


def build_revision_record(tenant: str, *, rev: int, now: datetime) -> ConfigRecord:
    """The count of changes as it is written with each of them."""
    return _build_record(tenant, "book", REVISION_ID, {}, rev=rev, now=now)


def _add_version(others: PolicyVersions, one: Versioned[StoredPolicy]) -> PolicyVersions:
    number = one.value.policy.version
    return (*(other for other in others if other.value.policy.version != number), one)


def _build_record(
    tenant: str, kind: ConfigKind, id: str, body: object, *, rev: int, now: datetime
) -> ConfigRecord:
    return ConfigRecord(
        tenant=tenant, kind=kind, id=id, rev=rev, body=msgspec.json.encode(body), saved_at=now
    )
