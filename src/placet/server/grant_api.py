"""The grants API: list, show, use and revoke the caller's grants."""

from datetime import datetime
from typing import Annotated, Any

from msgspec import Meta, Struct
from msgspec.structs import replace

from placet.cases.grant import Grant, GrantState
from placet.desk.draft import CaseId
from placet.desk.grants import GrantedCall, GrantService
from placet.errors import CaseNotFound
from placet.http.client_operations import LIST_GRANTS, REVOKE_GRANT, SHOW_GRANT, USE_GRANT
from placet.http.paging import PageLimit
from placet.http.route import ApiRequest, HttpApi, Parameter, RequestBody, RouteGroup, RouteReply
from placet.protocol.timestamp import Timestamp
from placet.server.api_examples import ANSWERED_AT, CASE, ENDS_AT, as_examples

CallKey = Annotated[str, Meta(min_length=1, max_length=1_000)]
LongName = Annotated[str, Meta(min_length=1, max_length=500)]


GRANT_ID = Parameter(name="grant_id", location="path", type=CaseId, description="The grant's id.")

grants = RouteGroup(
    tag="GrantService",
    description="Calls that people approved in advance: a number of calls of one tool, for a limited time.",
    read="cases:read",
    write="cases:write",
)


class UseRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A call that may be covered by a grant."""

    key: Annotated[
        CallKey,
        Meta(
            description="Your name for this one call, such as its thread, turn and id. A retry under it "
            "is not counted again; another call under it is refused."
        ),
    ]
    call_id: LongName
    tool: LongName
    arguments: dict[str, Any]
    agent: LongName | None = None
    thread_id: LongName | None = None


class GrantView(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A grant and how many uses are left."""

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
    granted_at: Timestamp
    expires_at: Timestamp
    granted_by: Annotated[
        str, Meta(description="The person, as far as the server knows them; otherwise the link they used.")
    ]
    owner: Annotated[str, Meta(description="Whose calls it covers: the principal that opened the case.")]
    case_id: str
    call_id: Annotated[str, Meta(description="The call that the person approved.")]
    revoked_at: Timestamp | None = None
    revoked_by: str | None = None


class UseReply(Struct, frozen=True, kw_only=True):
    """The grant that covers the call, with this use counted; null if none does, so open a case."""

    grant: GrantView | None


class GrantList(Struct, frozen=True, kw_only=True):
    """A page of grants; `next` asks for the page after it."""

    grants: tuple[GrantView, ...]
    next: str | None = None


class GrantQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which grants to list."""

    before: Annotated[CaseId | None, Meta(description="The `next` of the page before.")] = None
    limit: PageLimit = 50


_GRANT = GrantView(
    id="grant_019e1f3a5b7cd1e2f3a4b5c6d7e8f9",
    state="live",
    tool="send_email",
    agent="mailer",
    patterns={"to": {"glob": "*@acme.example"}, "template": {"exact": "weekly-report"}},
    uses=20,
    uses_left=19,
    holds=True,
    granted_at=ANSWERED_AT,
    expires_at=ENDS_AT,
    granted_by="mara@acme.example",
    owner="reports",
    case_id=CASE,
    call_id="call_7d1",
)
_REVOKED = replace(_GRANT, state="revoked", holds=False, revoked_at=ENDS_AT, revoked_by="key:reports")
_CALL = UseRequest(
    key="thread-12/3/call_9f2",
    call_id="call_9f2",
    tool="send_email",
    arguments={"to": "ola@acme.example", "template": "weekly-report"},
    agent="mailer",
    thread_id="thread-12",
)


class GrantApi(HttpApi):
    """Handles the routes about grants."""

    def __init__(self, grants: GrantService) -> None:
        self._grants = grants

    @grants.declare(
        LIST_GRANTS,
        query=GrantQuery,
        reply=RouteReply(
            description="A page of grants.",
            model=GrantList,
            examples=as_examples(two=GrantList(grants=(_GRANT, _REVOKED))),
        ),
    )
    async def list_grants(self, request: ApiRequest) -> GrantList:
        """List your grants.

        Newest first, including used, expired and revoked ones. A key with the scope `admin` lists all grants.
        """
        query = request.read_query(GrantQuery)
        found = await self._grants.list_grants(request.principal, before=query.before, limit=query.limit)
        return GrantList(
            grants=tuple(map(self._build_view, found)),
            next=found[-1].id if len(found) == query.limit else None,
        )

    @grants.declare(
        USE_GRANT,
        body=RequestBody(
            model=UseRequest,
            description="The call, exactly as it would run.",
            examples=as_examples(call=_CALL),
        ),
        reply=RouteReply(
            description="The grant that covers the call, or null.",
            model=UseReply,
            examples=as_examples(covered=UseReply(grant=_GRANT), not_covered=UseReply(grant=None)),
        ),
        errors=(CaseNotFound,),
    )
    async def use_grant(self, request: ApiRequest) -> UseReply:
        """Use a grant for a call.

        If a grant covers the call, one use is counted and the grant is returned: run the call. If `grant` is
        null, and after any error, open a case. Do not use grants for high-risk calls.
        """
        wanted = request.read_body(UseRequest)
        call = GrantedCall(
            key=wanted.key,
            id=wanted.call_id,
            tool=wanted.tool,
            arguments=wanted.arguments,
            agent=wanted.agent,
            thread_id=wanted.thread_id,
        )
        grant = await self._grants.use(call, request.principal)
        return UseReply(grant=None if grant is None else self._build_view(grant))

    @grants.declare(
        SHOW_GRANT,
        parameters=(GRANT_ID,),
        reply=RouteReply(description="The grant.", model=GrantView, examples=as_examples(live=_GRANT)),
        errors=(CaseNotFound,),
    )
    async def show_grant(self, request: ApiRequest) -> GrantView:
        """Get a grant.

        It says what it covers, who gave it, and how many uses are left.
        """
        return self._build_view(
            await self._grants.get_owned_grant(request.path["grant_id"], request.principal)
        )

    @grants.declare(
        REVOKE_GRANT,
        parameters=(GRANT_ID,),
        reply=RouteReply(
            description="The revoked grant.", model=GrantView, examples=as_examples(revoked=_REVOKED)
        ),
        errors=(CaseNotFound,),
    )
    async def revoke_grant(self, request: ApiRequest) -> GrantView:
        """Revoke a grant.

        It covers no further calls. The event log records who revoked it. Revoking again changes nothing.
        """
        return self._build_view(await self._grants.revoke(request.path["grant_id"], request.principal))

    def _build_view(self, grant: Grant) -> GrantView:
        return build_grant_view(grant, now=self._grants.now())


def build_grant_view(grant: Grant, *, now: datetime) -> GrantView:
    """Return a grant as the API shows it."""
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
