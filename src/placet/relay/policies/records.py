"""Convert policies, groups and bindings to and from a tenant's stored records.

| kind           | id                 | body                                             |
|----------------|--------------------|--------------------------------------------------|
| `policy`       | `policyId:version` | `StoredPolicy`; never deleted                    |
| `policy_group` | its id             | `PolicyGroup`                                    |
| `binding`      | its id             | `Binding`                                        |
| `policies`     | `policies`         | empty; its `rev` counts changes of all the rest  |

Bodies are JSON with the API's field names. A policy is retired when the record of its newest version has a
`retiredAt`; then none of its versions is in force. Nothing else of a version ever changes.

Each change increments the `rev` of the `policies` record in the same transaction. A writer that read the
records at one `rev` and writes the next one knows that nothing changed in between. A cache compares only this
record.
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

REVISION_ID = "policies"
KINDS: tuple[ConfigKind, ...] = ("policy", "policy_group", "binding")
T = TypeVar("T")


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
