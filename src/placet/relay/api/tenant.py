"""`/relay/v1/tenant`: get and change the retention of a tenant's audit log."""

from typing import Annotated

from msgspec import Meta, Struct

from placet.errors import RelayConflict
from placet.http.conditional import check_if_match
from placet.http.route import HttpApi
from placet.protocol.duration import MAX_TEXT_LENGTH
from placet.relay.api.access import RelayRequest
from placet.relay.api.audit import audit
from placet.relay.api.registry_records import RecordOrigin, Rev
from placet.relay.audit.audit_log import AuditLog
from placet.relay.audit.retention import TenantRetention
from placet.relay.route_addresses import OPERATIONS
from placet.relay.tenants import PayloadMode, RetentionPolicy

Duration = Annotated[str, Meta(max_length=MAX_TEXT_LENGTH, examples=["30d"])]


class TenantRequest(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """The retention of a tenant's audit log. Omitted fields get the default of the server."""

    keep_events_for: Annotated[
        Duration, Meta(description="How long events, decided holds and tasks are stored.")
    ] = RetentionPolicy().keep_events_for
    keep_payloads_for: Annotated[
        Duration, Meta(description="How long the bodies of messages are stored in events.")
    ] = RetentionPolicy().keep_payloads_for
    payloads: Annotated[
        PayloadMode,
        Meta(description="Whether to store no bodies, bodies with masked findings, or full bodies."),
    ] = RetentionPolicy().payloads


class TenantView(TenantRequest, frozen=True, kw_only=True, rename="camel"):
    """The retention of a tenant's audit log, and where it is set."""

    tenant_id: str
    origin: RecordOrigin
    rev: Rev


class TenantApi(HttpApi):
    """Handles the routes of a tenant's retention."""

    def __init__(self, retention: TenantRetention, audit_log: AuditLog) -> None:
        self._retention = retention
        self._audit_log = audit_log

    @audit.declare(OPERATIONS["getTenant"], reply=TenantView)
    async def get_tenant(self, request: RelayRequest) -> TenantView:
        """Get the retention of the audit log."""
        return self._view(request.member.tenant)

    @audit.declare(
        OPERATIONS["changeTenant"],
        description="Bodies that are older than `keepPayloadsFor`, and events that are older than "
        "`keepEventsFor`, are deleted permanently within minutes.",
        body=TenantRequest,
        reply=TenantView,
        errors=(RelayConflict,),
    )
    async def change_tenant(self, request: RelayRequest) -> TenantView:
        """Change the retention of the audit log."""
        body = request.read_body(TenantRequest)
        policy = RetentionPolicy(
            keep_events_for=body.keep_events_for,
            keep_payloads_for=body.keep_payloads_for,
            payloads=body.payloads,
        )
        await self._retention.save(
            request.member, policy, self._audit_log, check=lambda rev: check_if_match(request.if_match, rev)
        )
        return self._view(request.member.tenant)

    def _view(self, tenant: str) -> TenantView:
        policy, is_in_settings = self._retention.get_policy(tenant), self._retention.is_in_settings(tenant)
        return TenantView(
            tenant_id=tenant,
            origin="settings" if is_in_settings else "store",
            rev=None if is_in_settings else self._retention.get_rev(tenant),
            keep_events_for=policy.keep_events_for,
            keep_payloads_for=policy.keep_payloads_for,
            payloads=policy.payloads,
        )
