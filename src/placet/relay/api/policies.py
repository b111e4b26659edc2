"""`/relay/v1/policies`: write policies, change them, look at every version, retire them."""

import asyncio
from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import replace

from placet.desk import random_values
from placet.errors import CaseNotFound, RelayConflict, ValidationFailed
from placet.http.conditional import check_if_match
from placet.http.paging import Page, PageQuery
from placet.http.route import HttpApi
from placet.protocol.timestamp import Timestamp
from placet.relay.api.access import IN_SETTINGS, RelayRequest, RelayRouteGroup
from placet.relay.detectors.registry import DetectorRegistry
from placet.relay.policies.policy import (
    MAX_DESCRIPTION,
    MAX_NAME,
    Policy,
    PolicyDraft,
    create_next_version,
    create_policy,
    parse_policy_draft,
)
from placet.relay.policies.records import PolicySnapshot, PolicyVersions, StoredPolicy, build_policy_record
from placet.relay.policies.repository import PolicyRepository
from placet.relay.record_changes import RecordChange, Versioned

PATH = "/relay/v1/policies"
ONE = f"{PATH}/{{policyId}}"
VERSIONS = f"{ONE}/versions"
UNCHANGEABLE = (CaseNotFound, RelayConflict)
MAX_POLICIES = 10_000
MAX_VERSIONS = 10_000
Config = Annotated[
    dict[str, Any],
    Meta(
        description="`type`, `enabledLegs`, and what the type asks for: `pattern` {`regex`, `action`} with "
        "`REGEX_DETECTION`; `entity` {`type`, `scoreThreshold`, `action`} with `PRESIDIO_DETECTION` and "
        "`COMPREHEND_DETECTION`; `action`, `scoreThreshold` and `options` with a plug-in's `x-…`.",
        examples=[
            {
                "type": "REGEX_DETECTION",
                "enabledLegs": {"requestToSink": True},
                "pattern": {"regex": "secret", "action": "BLOCK"},
            }
        ],
    ),
]
Origin = Annotated[
    Literal["settings", "store"],
    Meta(
        description="Whether it stands in the file that the server's settings name, and applies to every "
        "message, or was written here."
    ),
]

policies = RelayRouteGroup(
    tag="Policies",
    description="What the relay looks for in messages, and what it does when it finds it.",
    read="POLICIES:READ",
    write="POLICIES:WRITE",
)


class PolicyRequest(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """A policy as somebody asks for it."""

    name: Annotated[str, Meta(min_length=1, max_length=MAX_NAME)]
    description: Annotated[str, Meta(max_length=MAX_DESCRIPTION)] | None = None
    config: Config
    valid_from: Timestamp | None = None
    valid_to: Annotated[
        Timestamp | None, Meta(description="The first moment at which it is not in force.")
    ] = None


class PolicyView(Struct, frozen=True, kw_only=True, rename="camel"):
    """One version of a policy."""

    policy_id: str
    version: str
    name: str
    description: str
    policy_type: str
    config: Config
    valid_from: Timestamp | None
    valid_to: Timestamp | None
    created_at: Annotated[Timestamp, Meta(description="Of one in the settings: when the server read it.")]
    created_by: str
    origin: Origin
    retired_at: Annotated[
        Timestamp | None, Meta(description="Since when no version of the policy is in force any more.")
    ] = None


class PolicyQuery(PageQuery, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """Which policies are listed."""

    type: Annotated[str | None, Meta(description="Only those of this type.")] = None
    name: Annotated[str | None, Meta(description="Only those with this in their name.")] = None
    retired: Annotated[bool, Meta(description="Also those that were retired.")] = False


class PolicyApi(HttpApi):
    """Handles these routes."""

    def __init__(self, policy_repository: PolicyRepository, detectors: DetectorRegistry) -> None:
        self._books = policy_repository
        self._detectors = detectors

    @policies.create(PATH, "createPolicy", body=PolicyRequest, reply=PolicyView, errors=(RelayConflict,))
    async def create(self, request: RelayRequest) -> PolicyView:
        """Write a policy; it applies as soon as a group that names it is bound."""
        draft = await self._draft(request)
        member, now = request.member, self._books.now()

        def plan(library: PolicySnapshot) -> RecordChange[PolicyView]:
            if sum(_is_retired(one) is False for one in library.policies.values()) >= MAX_POLICIES:
                raise ValidationFailed(f"There are {MAX_POLICIES} policies already; retire some first.")
            policy = create_policy(draft, policy_id=random_values.generate_record_id("policy", now), now=now)
            return self._saving(request, policy, "CREATED", f"{member.name} wrote the policy {policy.name}.")

        return await self._books.change(member, plan)

    @policies.get(PATH, "listPolicies", query=PolicyQuery, reply=Page[PolicyView])
    async def list_policies(self, request: RelayRequest) -> Page[PolicyView]:
        """List policies, each in its newest version, the newest policy first; then those of the settings."""
        asked, tenant = request.read_query(PolicyQuery), request.member.tenant
        library, settled = await self._books.library(tenant), self._books.list_settings_policies(tenant)
        kept = sorted(library.policies.values(), key=_first_written, reverse=True)
        found = [one for one in (*kept, *settled.values()) if _fits(one[-1].value, asked)]
        return asked.cut_page(found).map(lambda versions: self._view(request, versions))

    @policies.get(ONE, "getPolicy", reply=PolicyView, errors=(CaseNotFound,))
    async def newest(self, request: RelayRequest) -> PolicyView:
        """Look at the newest version of a policy, retired or not."""
        return self._view(request, await self._versions(request))

    @policies.put(ONE, "updatePolicy", body=PolicyRequest, reply=PolicyView, errors=UNCHANGEABLE)
    async def update(self, request: RelayRequest) -> PolicyView:
        """Write the next version of a policy; groups that name no version use it from now on.

        Earlier versions stay as they are.
        """
        draft = await self._draft(request)
        member = request.member

        def plan(library: PolicySnapshot) -> RecordChange[PolicyView]:
            versions = self._present(library, request)
            if len(versions) >= MAX_VERSIONS:
                raise ValidationFailed(f"This policy has {MAX_VERSIONS} versions already; write another one.")
            policy = create_next_version(versions[-1].value.policy, draft, now=self._books.now())
            said = f"{member.name} wrote version {policy.version} of the policy {policy.name}."
            return self._saving(request, policy, "UPDATED", said)

        return await self._books.change(member, plan)

    @policies.delete(ONE, "retirePolicy", errors=UNCHANGEABLE)
    async def retire(self, request: RelayRequest) -> None:
        """Retire a policy: no version of it is ever in force again, and all of them stay readable.

        Refused while a group names it.
        """
        member, now = request.member, self._books.now()

        def plan(library: PolicySnapshot) -> RecordChange[None]:
            newest = self._present(library, request)[-1]
            policy = newest.value.policy
            _check_unused(library, policy)
            kept = replace(newest.value, retired_at=now, retired_by=member.name)
            return RecordChange(
                save=(build_policy_record(member.tenant, kept, rev=newest.rev + 1, now=now),),
                message=f"{member.name} retired the policy {policy.name}.",
                metadata=_metadata(policy, "RETIRED"),
                result=None,
            )

        await self._books.change(member, plan)

    @policies.get(
        VERSIONS, "listPolicyVersions", query=PageQuery, reply=Page[PolicyView], errors=(CaseNotFound,)
    )
    async def versions(self, request: RelayRequest) -> Page[PolicyView]:
        """List the versions of a policy, the newest first; they are kept for ever."""
        asked = request.read_query(PageQuery)
        versions = await self._versions(request)
        places = list(reversed(range(len(versions))))
        return asked.cut_page(places).map(lambda place: self._view(request, versions, place))

    @policies.get(f"{VERSIONS}/{{version}}", "getPolicyVersion", reply=PolicyView, errors=(CaseNotFound,))
    async def version(self, request: RelayRequest) -> PolicyView:
        """Look at one version of a policy."""
        versions = await self._versions(request)
        for place, one in enumerate(versions):
            if one.value.policy.version == request.path["version"]:
                return self._view(request, versions, place)
        raise CaseNotFound("There is no such version of this policy.")

    async def _draft(self, request: RelayRequest) -> PolicyDraft:
        """What is asked for, once it is sure that its detector can look for it."""
        draft = parse_policy_draft(request.read_body(dict[str, Any]))
        await asyncio.to_thread(self._detectors.check, draft)  # a pattern may take a while to compile
        return draft

    def _view(self, request: RelayRequest, versions: PolicyVersions, place: int = -1) -> PolicyView:
        settled = versions[-1].value.policy.policy_id in self._books.list_settings_policies(
            request.member.tenant
        )
        return view_of(versions, place, origin="settings" if settled else "store")

    async def _versions(self, request: RelayRequest) -> PolicyVersions:
        return find_versions(await self._books.policies(request.member.tenant), request)

    def _present(self, library: PolicySnapshot, request: RelayRequest) -> PolicyVersions:
        """The versions of a policy that may still be changed, and is as the caller saw it."""
        if request.path["policyId"] in self._books.list_settings_policies(request.member.tenant):
            raise RelayConflict(IN_SETTINGS)
        versions = find_versions(library.policies, request)
        if _is_retired(versions):
            raise RelayConflict("This policy was retired; write another one.")
        check_if_match(request.if_match, versions[-1].value.policy.version)
        return versions

    def _saving(
        self, request: RelayRequest, policy: Policy, what: str, said: str
    ) -> RecordChange[PolicyView]:
        member = request.member
        kept = StoredPolicy(policy=policy, created_by=member.name)
        record = build_policy_record(member.tenant, kept, rev=1, now=policy.created_at)
        return RecordChange(
            save=(record,),
            message=said,
            metadata=_metadata(policy, what),
            result=view_of((Versioned(value=kept, rev=1),)),
        )


def view_of(versions: PolicyVersions, place: int = -1, *, origin: Origin = "store") -> PolicyView:
    """A version as the API shows it; the newest says whether all of them are retired."""
    kept = versions[place].value
    policy = kept.policy
    return PolicyView(
        policy_id=policy.policy_id,
        version=policy.version,
        name=policy.name,
        description=policy.description,
        policy_type=policy.policy_type,
        config=msgspec.to_builtins(policy.config),
        valid_from=policy.valid_from,
        valid_to=policy.valid_to,
        created_at=policy.created_at,
        created_by=kept.created_by,
        origin=origin,
        retired_at=versions[-1].value.retired_at,
    )


def find_versions(policies: Mapping[str, PolicyVersions], request: RelayRequest) -> PolicyVersions:
    versions = policies.get(request.path["policyId"])
    if versions is None:
        raise CaseNotFound("There is no such policy.")
    return versions


def _check_unused(library: PolicySnapshot, policy: Policy) -> None:
    users = [
        group.value
        for group in library.groups.values()
        if any(entry.policy.policy_id == policy.policy_id for entry in group.value.policies)
    ]
    if users:
        raise RelayConflict(
            f"The group {users[0].name} ({users[0].id}) names this policy; take it out of there first.",
            groups=[group.id for group in users[:20]],
        )


def _is_retired(versions: PolicyVersions) -> bool:
    return versions[-1].value.retired_at is not None


def _fits(newest: StoredPolicy, asked: PolicyQuery) -> bool:
    policy = newest.policy
    return (
        (asked.retired or newest.retired_at is None)
        and (asked.type is None or policy.policy_type == asked.type)
        and (asked.name is None or asked.name.casefold() in policy.name.casefold())
    )


def _first_written(versions: PolicyVersions) -> str:
    return versions[-1].value.policy.policy_id  # which begins with the millisecond


def _metadata(policy: Policy, what: str) -> dict[str, Any]:
    return {
        "operation": what,
        "policyId": policy.policy_id,
        "policyName": policy.name,
        "policyVersion": policy.version,
        "policyType": policy.policy_type,
    }
