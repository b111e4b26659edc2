"""`/relay/v1/tenant`: what a tenant keeps of its audit, and for how long."""

from typing import Annotated

from msgspec import Meta, Struct

from placet.errors import RelayConflict
from placet.http.conditional import check_if_match
from placet.http.route import HttpApi
from placet.protocol.duration import LONGEST_TEXT
from placet.relay.api.access import RelayRequest
from placet.relay.api.audit import audit
from placet.relay.api.registry_records import Rev
from placet.relay.audit.audit_log import AuditLog
from placet.relay.audit.retention_policy import PayloadMode, RetentionPolicy
from placet.relay.audit.tenant_retention import TenantRetention

PATH = "/relay/v1/tenant"
Duration = Annotated[str, Meta(max_length=LONGEST_TEXT, examples=["30d"])]


class TenantRequest(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """What a tenant wants of its audit; what is left out is as it is for everyone."""

    keep_events_for: Annotated[
        Duration, Meta(description="How long events, settled holds and tasks are kept.")
    ] = RetentionPolicy().keep_events_for
    keep_payloads_for: Annotated[
        Duration, Meta(description="How long the bodies of messages stand in events.")
    ] = RetentionPolicy().keep_payloads_for
    payloads: Annotated[
        PayloadMode,
        Meta(description="No bodies, bodies without what policies found, or bodies as they were."),
    ] = RetentionPolicy().payloads


class TenantView(TenantRequest, frozen=True, kw_only=True, rename="camel"):
    """What is kept of a tenant's audit."""

    tenant_id: str
    settled: Annotated[bool, Meta(description="Whether the server's settings file says so, and only it.")]
    rev: Rev


class TenantApi(HttpApi):
    """Handles these routes."""

    def __init__(self, keeping: TenantRetention, trail: AuditLog) -> None:
        self._keeping = keeping
        self._trail = trail

    @audit.get(PATH, "getTenant", reply=TenantView)
    async def get_tenant(self, request: RelayRequest) -> TenantView:
        """Look at what is kept of the audit."""
        return self._view(request.member.tenant)

    @audit.put(
        PATH,
        "changeTenant",
        description="Bodies that are older than `keepPayloadsFor` are taken out of their events, and "
        "older events removed, within minutes; both are gone for good.",
        body=TenantRequest,
        reply=TenantView,
        errors=(RelayConflict,),
    )
    async def change_tenant(self, request: RelayRequest) -> TenantView:
        """Say what is kept of the audit, and for how long."""
        asked = request.read_body(TenantRequest)
        keeping = RetentionPolicy(
            keep_events_for=asked.keep_events_for,
            keep_payloads_for=asked.keep_payloads_for,
            payloads=asked.payloads,
        )
        await self._keeping.save(
            request.member, keeping, self._trail, check=lambda rev: check_if_match(request.if_match, rev)
        )
        return self._view(request.member.tenant)

    def _view(self, tenant: str) -> TenantView:
        keeping, settled = self._keeping.of(tenant), self._keeping.is_settled(tenant)
        return TenantView(
            tenant_id=tenant,
            settled=settled,
            rev=None if settled else self._keeping.rev_of(tenant),
            keep_events_for=keeping.keep_events_for,
            keep_payloads_for=keeping.keep_payloads_for,
            payloads=keeping.payloads,
        )
