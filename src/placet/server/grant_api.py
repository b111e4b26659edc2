"""The grants API: what people allowed in advance, for the owner of their cases: list, show, use, revoke."""

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from placet.cases.grant import Grant, GrantState
from placet.desk.grants import GrantedCall, Grants
from placet.ports.identity import Principal
from placet.protocol.moment import Moment
from placet.server.case_api import id_of, page_limit, require_caller
from placet.server.wire import decode

Key = Annotated[str, Meta(min_length=1, max_length=1_000)]
Name = Annotated[str, Meta(min_length=1, max_length=500)]


class UseRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A call that would like to run without asking."""

    key: Annotated[
        Key,
        Meta(
            description="Your name for this one call, such as its thread, turn and id. A retry under it "
            "is not counted again; another call under it is refused."
        ),
    ]
    call_id: Name
    tool: Name
    arguments: dict[str, Any]
    agent: Name | None = None
    thread_id: Name | None = None


class GrantView(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a person allowed, and what is left of it."""

    id: str
    state: GrantState
    tool: str
    agent: str | None = None
    patterns: Annotated[
        dict[str, dict[str, Any]] | None,
        Meta(description='By argument: `{"exact": …}`, `{"glob": "…"}` or `{"from": …, "to": …}`.'),
    ] = None
    uses: int
    uses_left: int
    holds: Annotated[
        bool,
        Meta(description="Whether a call that it covered, and that waited with others, may still run."),
    ]
    granted_at: Moment
    expires_at: Moment
    granted_by: Annotated[
        str, Meta(description="The person, as far as the server knows them; otherwise the link they used.")
    ]
    owner: Annotated[str, Meta(description="Whose calls it covers: the principal that opened the case.")]
    case_id: str
    call_id: Annotated[str, Meta(description="The call that the person had before them.")]
    revoked_at: Moment | None = None
    revoked_by: str | None = None


class UseReply(Struct, frozen=True, kw_only=True):
    """The grant that covers the call, with this use counted; null: nobody allowed it, so ask a person."""

    grant: GrantView | None


class GrantList(Struct, frozen=True, kw_only=True):
    """A page of grants; `next` asks for the page after it."""

    grants: tuple[GrantView, ...]
    next: str | None = None


_decoder = msgspec.json.Decoder(UseRequest)


class GrantApi:
    """What the API does, once HTTP has been read and before it is written."""

    def __init__(self, grants: Grants) -> None:
        self._grants = grants

    async def use(self, body: bytes, principal: Principal) -> UseReply:
        """Spend one use on a call, if somebody allowed it."""
        require_caller(principal, "cases:write")
        asked = decode(_decoder, body)
        call = GrantedCall(
            key=asked.key,
            id=asked.call_id,
            tool=asked.tool,
            arguments=asked.arguments,
            agent=asked.agent,
            thread_id=asked.thread_id,
        )
        grant = await self._grants.use(call, principal)
        return UseReply(grant=None if grant is None else self._view(grant))

    async def list(self, query: Mapping[str, str], principal: Principal) -> GrantList:
        """The caller's grants, newest first; an administrator's are everyone's."""
        require_caller(principal, "cases:read")
        limit = page_limit(query.get("limit"))
        found = await self._grants.listed(principal, before=id_of(query, "before"), limit=limit)
        return GrantList(
            grants=tuple(map(self._view, found)), next=found[-1].id if len(found) == limit else None
        )

    async def show(self, grant_id: str, principal: Principal) -> GrantView:
        """One grant."""
        require_caller(principal, "cases:read")
        return self._view(await self._grants.owned(grant_id, principal))

    async def revoke(self, grant_id: str, principal: Principal) -> GrantView:
        """End a grant; again changes nothing."""
        require_caller(principal, "cases:write")
        return self._view(await self._grants.revoke(grant_id, principal))

    def _view(self, grant: Grant) -> GrantView:
        return grant_view(grant, now=self._grants.now())


def grant_view(grant: Grant, *, now: datetime) -> GrantView:
    """A grant as the API shows it."""
    patterns = grant.patterns
    return GrantView(
        id=grant.id,
        state=grant.state(now),
        tool=grant.tool,
        agent=grant.agent,
        patterns=None if patterns is None else {name: dict(one) for name, one in patterns.items()},
        uses=grant.uses,
        uses_left=grant.uses_left,
        holds=grant.holds(now),
        granted_at=grant.granted_at,
        expires_at=grant.expires_at,
        granted_by=grant.granted_by,
        owner=grant.owner,
        case_id=grant.case_id,
        call_id=grant.call_id,
        revoked_at=grant.revoked_at,
        revoked_by=grant.revoked_by,
    )
