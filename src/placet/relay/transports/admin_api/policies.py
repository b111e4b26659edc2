"""`/relay/v1/policies`: create, change, list and retire policies."""

import asyncio
from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, Struct
from msgspec.structs import asdict, replace

from placet.desk import random_values
from placet.errors import CaseNotFound, RelayConflict, ValidationFailed
from placet.http.conditional import check_if_match
from placet.http.paging import Page, PageQuery
from placet.http.route import HttpApi
from placet.protocol.timestamp import Timestamp
from placet.relay.detectors.registry import DetectorRegistry
from placet.relay.inspection.policy_repository import PolicyRepository
from placet.relay.policy.policy import (
    Config,
    Policy,
    PolicyDraft,
    PolicyRequest,
    Streaming,
    create_next_version,
    create_policy,
    parse_policy_draft,
)
from placet.relay.policy.policy_set import PolicySnapshot, PolicyVersions, StoredPolicy, build_policy_record
from placet.relay.record_changes import RecordChange, Versioned
from placet.relay.route_addresses import OPERATIONS
from placet.relay.transports.admin_api.access import IN_SETTINGS, RelayRequest, RelayRouteGroup

CHANGE_ERRORS = (CaseNotFound, RelayConflict)
MAX_POLICIES = 10_000
MAX_VERSIONS = 10_000
PolicyOrigin = Annotated[
    Literal["settings", "store"],
    Meta(
        description="`settings` for a policy in the file that the server's settings name, which applies to "
        "every message. `store` for a policy created with this API."
    ),
]
policies = RelayRouteGroup(
    tag="Policies",
    description="Policies define what the relay searches for in messages and what it does with a match.",
    read="POLICIES:READ",
    write="POLICIES:WRITE",
)


class PolicyView(Struct, frozen=True, kw_only=True, rename="camel"):
    """One version of a policy."""

    policy_id: str
    version: str
    name: str
    description: str
    policy_type: str
    config: Config
    streaming: Streaming
    valid_from: Timestamp | None
    valid_to: Timestamp | None
    created_at: Annotated[
        Timestamp, Meta(description="For a policy of the settings, when the server read it.")
    ]
    created_by: str
    origin: PolicyOrigin
    retired_at: Annotated[
        Timestamp | None, Meta(description="When the policy was retired. No version is in force since then.")
    ] = None


class PolicyQuery(PageQuery, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """The filter and page of a list of policies."""

    type: Annotated[str | None, Meta(description="Only policies of this type.")] = None
    name: Annotated[str | None, Meta(description="Only policies whose name contains this text.")] = None
    retired: Annotated[bool, Meta(description="Include retired policies.")] = False


class PolicyApi(HttpApi):
    """Handles the routes of policies."""

    def __init__(self, policy_repository: PolicyRepository, detectors: DetectorRegistry) -> None:
        self._policy_repository = policy_repository
        self._detectors = detectors

    @policies.declare(
        OPERATIONS["createPolicy"],
        created=True,
        body=PolicyRequest,
        reply=PolicyView,
        errors=(RelayConflict,),
    )
    async def create(self, request: RelayRequest) -> PolicyView:
        """Create a policy. It applies when a policy group that contains it is bound."""
        draft = await self._parse_draft(request)
        member, now = request.member, self._policy_repository.now()

        def plan(snapshot: PolicySnapshot) -> RecordChange[PolicyView]:
            active = sum(not _is_retired(versions) for versions in snapshot.policies.values())
            if active >= MAX_POLICIES:
                raise ValidationFailed(
                    f"The tenant has {MAX_POLICIES} policies, which is the limit. Retire one first."
                )
            policy = create_policy(draft, policy_id=random_values.generate_record_id("policy", now), now=now)
            message = f"{member.name} created the policy {policy.name}."
            return self._build_save(request, policy, "CREATED", message)

        return await self._policy_repository.change(member, plan)

    @policies.declare(OPERATIONS["listPolicies"], query=PolicyQuery, reply=Page[PolicyView])
    async def list_policies(self, request: RelayRequest) -> Page[PolicyView]:
        """List the newest version of each policy, the newest policy first, then those of the settings."""
        query, tenant = request.read_query(PolicyQuery), request.member.tenant
        snapshot = await self._policy_repository.get_snapshot(tenant)
        from_settings = self._policy_repository.list_settings_policies(tenant)
        stored = sorted(snapshot.policies.values(), key=_get_creation_order, reverse=True)
        found = [
            versions for versions in (*stored, *from_settings.values()) if _matches(versions[-1].value, query)
        ]
        return query.cut_page(found).map(lambda versions: self._build_view(request, versions))

    @policies.declare(OPERATIONS["getPolicy"], reply=PolicyView, errors=(CaseNotFound,))
    async def get_policy(self, request: RelayRequest) -> PolicyView:
        """Get the newest version of a policy, also of a retired one."""
        return self._build_view(request, await self._find_versions(request))

    @policies.declare(OPERATIONS["updatePolicy"], body=PolicyRequest, reply=PolicyView, errors=CHANGE_ERRORS)
    async def update(self, request: RelayRequest) -> PolicyView:
        """Create the next version of a policy. Groups that name no version use it at once.

        Earlier versions do not change.
        """
        draft = await self._parse_draft(request)
        member = request.member

        def plan(snapshot: PolicySnapshot) -> RecordChange[PolicyView]:
            versions = self._get_changeable(snapshot, request)
            if len(versions) >= MAX_VERSIONS:
                raise ValidationFailed(
                    f"This policy has {MAX_VERSIONS} versions, which is the limit. Create another policy."
                )
            policy = create_next_version(versions[-1].value.policy, draft, now=self._policy_repository.now())
            message = f"{member.name} created version {policy.version} of the policy {policy.name}."
            return self._build_save(request, policy, "UPDATED", message)

        return await self._policy_repository.change(member, plan)

    @policies.declare(OPERATIONS["retirePolicy"], errors=CHANGE_ERRORS)
    async def retire(self, request: RelayRequest) -> None:
        """Retire a policy. No version of it applies any more, but all of them stay readable.

        Fails while a policy group contains it.
        """
        member, now = request.member, self._policy_repository.now()

        def plan(snapshot: PolicySnapshot) -> RecordChange[None]:
            newest = self._get_changeable(snapshot, request)[-1]
            policy = newest.value.policy
            _check_unused(snapshot, policy)
            retired = replace(newest.value, retired_at=now, retired_by=member.name)
            return RecordChange(
                save=(build_policy_record(member.tenant, retired, rev=newest.rev + 1, now=now),),
                message=f"{member.name} retired the policy {policy.name}.",
                metadata=_build_metadata(policy, "RETIRED"),
                result=None,
            )

        await self._policy_repository.change(member, plan)

    @policies.declare(
        OPERATIONS["listPolicyVersions"], query=PageQuery, reply=Page[PolicyView], errors=(CaseNotFound,)
    )
    async def versions(self, request: RelayRequest) -> Page[PolicyView]:
        """List the versions of a policy, the newest first. They are never deleted."""
        query = request.read_query(PageQuery)
        versions = await self._find_versions(request)
        indexes = list(reversed(range(len(versions))))
        return query.cut_page(indexes).map(lambda index: self._build_view(request, versions, index))

    @policies.declare(OPERATIONS["getPolicyVersion"], reply=PolicyView, errors=(CaseNotFound,))
    async def version(self, request: RelayRequest) -> PolicyView:
        """Get one version of a policy."""
        versions = await self._find_versions(request)
        for index, stored in enumerate(versions):
            if stored.value.policy.version == request.path["version"]:
                return self._build_view(request, versions, index)
        raise CaseNotFound("Policy version not found.")

    async def _parse_draft(self, request: RelayRequest) -> PolicyDraft:
        """Return the policy in the body if its detector accepts it."""
        draft = parse_policy_draft(request.read_body(dict[str, Any]))
        await asyncio.to_thread(self._detectors.check, draft)  # a pattern may take a while to compile
        return draft

    def _build_view(self, request: RelayRequest, versions: PolicyVersions, index: int = -1) -> PolicyView:
        from_settings = self._policy_repository.list_settings_policies(request.member.tenant)
        is_in_settings = versions[-1].value.policy.policy_id in from_settings
        return view_policy(versions, index, origin="settings" if is_in_settings else "store")

    async def _find_versions(self, request: RelayRequest) -> PolicyVersions:
        return find_versions(await self._policy_repository.list_policies(request.member.tenant), request)

    def _get_changeable(self, snapshot: PolicySnapshot, request: RelayRequest) -> PolicyVersions:
        """Return the versions of a policy that is not retired and whose version matches `If-Match`."""
        if request.path["policyId"] in self._policy_repository.list_settings_policies(request.member.tenant):
            raise RelayConflict(IN_SETTINGS)
        versions = find_versions(snapshot.policies, request)
        if _is_retired(versions):
            raise RelayConflict("This policy is retired. Create another policy.")
        check_if_match(request.if_match, versions[-1].value.policy.version)
        return versions

    def _build_save(
        self, request: RelayRequest, policy: Policy, operation: str, message: str
    ) -> RecordChange[PolicyView]:
        member = request.member
        stored = StoredPolicy(policy=policy, created_by=member.name)
        record = build_policy_record(member.tenant, stored, rev=1, now=policy.created_at)
        return RecordChange(
            save=(record,),
            message=message,
            metadata=_build_metadata(policy, operation),
            result=view_policy((Versioned(value=stored, rev=1),)),
        )


def view_policy(versions: PolicyVersions, index: int = -1, *, origin: PolicyOrigin = "store") -> PolicyView:
    """Return one version as the API shows it. The newest version says whether the policy is retired."""
    stored = versions[index].value
    policy = stored.policy
    fields = asdict(policy) | {
        "config": msgspec.to_builtins(policy.config),
        "streaming": None if policy.streaming is UNSET else policy.streaming,
    }
    return PolicyView(
        **fields,
        created_by=stored.created_by,
        origin=origin,
        retired_at=versions[-1].value.retired_at,
    )


def find_versions(policies: Mapping[str, PolicyVersions], request: RelayRequest) -> PolicyVersions:
    """Return the versions of the policy in the path. Raises CaseNotFound."""
    versions = policies.get(request.path["policyId"])
    if versions is None:
        raise CaseNotFound("Policy not found.")
    return versions


def _check_unused(snapshot: PolicySnapshot, policy: Policy) -> None:
    users = [
        group.value
        for group in snapshot.groups.values()
        if any(entry.policy.policy_id == policy.policy_id for entry in group.value.policies)
    ]
    if users:
        raise RelayConflict(
            f"The policy group {users[0].name} ({users[0].id}) contains this policy. "
            "Remove it from the group first.",
            groups=[group.id for group in users[:20]],
        )


def _is_retired(versions: PolicyVersions) -> bool:
    return versions[-1].value.retired_at is not None


def _matches(newest: StoredPolicy, query: PolicyQuery) -> bool:
    policy = newest.policy
    return (
        (query.retired or newest.retired_at is None)
        and (query.type is None or policy.policy_type == query.type)
        and (query.name is None or query.name.casefold() in policy.name.casefold())
    )


def _get_creation_order(versions: PolicyVersions) -> str:
    return versions[-1].value.policy.policy_id  # starts with the time of creation


def _build_metadata(policy: Policy, operation: str) -> dict[str, Any]:
    return {
        "operation": operation,
        "policyId": policy.policy_id,
        "policyName": policy.name,
        "policyVersion": policy.version,
        "policyType": policy.policy_type,
    }
