"""`/relay/v1/approvals`: messages that wait for a person, and the decision about each."""

from datetime import datetime
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from placet.desk.access import actor_of
from placet.desk.answer import Answer
from placet.desk.review_desk import ReviewDesk
from placet.errors import AlreadyClosed, CaseExpired, CaseNotFound
from placet.http.paging import Page, PageQuery
from placet.http.route import HttpApi
from placet.ports.hold_store import HoldFilter, HoldRow, HoldStore
from placet.protocol.poll import RespondedBy
from placet.protocol.timestamp import Timestamp
from placet.relay.api.access import RelayRequest, RelayRouteGroup
from placet.relay.api.time_ranges import check_period
from placet.relay.holds.hold_body import DetectionSource, HoldingPolicy, Resolution
from placet.relay.holds.resolution import HoldResolver
from placet.relay.policies.policy import Leg
from placet.relay.registry.subscriptions import CallerKind

PATH = "/relay/v1/approvals"
ONE = f"{PATH}/{{id}}"
UNDECIDABLE = (CaseNotFound, AlreadyClosed, CaseExpired)
NO_SUCH_APPROVAL = "There is no such approval for you."
LONGEST_MESSAGE = 10_000
AT_ONCE = 10
LARGEST_LISTED = 16_384
"""Callers choose how much data there is in a message: a page of a hundred must stay one that can be read."""

Status = Literal["PENDING", "APPROVED", "REJECTED", "EXPIRED", "WITHDRAWN"]
AskedStatus = Literal["PENDING", "APPROVED", "REJECTED", "EXPIRED", "WITHDRAWN", "ALL"]
Name = Annotated[str, Meta(min_length=1, max_length=200)]
ReviewerMessage = Annotated[str, Meta(max_length=LONGEST_MESSAGE)]

approvals = RelayRouteGroup(
    tag="Approvals",
    description="Messages that the relay holds until a person has decided.",
    read="AGENT_CONVERSATIONS:READ",
    write="AGENT_CONVERSATIONS:WRITE",
)


class ApprovalResolution(Struct, frozen=True, kw_only=True, rename="camel"):
    """What became of an approval."""

    id: str
    action: Literal["APPROVED", "REJECTED", "EXPIRED", "WITHDRAWN"]
    message: str | None
    resolved_by: str | None
    created_at: Timestamp


class ApprovalView(Struct, frozen=True, kw_only=True, rename="camel"):
    """A message that waits, or waited, for a person."""

    id: str
    status: Status
    task_id: Annotated[str, Meta(description="The task, as the caller names it.")]
    context_id: str
    tenant_id: str
    agent_id: Annotated[str, Meta(description="The agent whose conversation it is.")]
    agent_message_role: Literal["user", "agent"]
    agent_message_text: Annotated[str, Meta(description="What is held, all its texts in order.")]
    agent_message_data: Annotated[
        list[Any] | None,
        Meta(
            description=f"Its data parts; in a list null where they are larger than {LARGEST_LISTED} bytes."
        ),
    ]
    detection_source: DetectionSource
    source_agent_id: Annotated[str | None, Meta(description="The calling agent, if an agent called.")]
    source_user_id: Annotated[str | None, Meta(description="The calling user, if a user called.")]
    sink_agent_id: str
    policy_name: str | None
    policy_version: str | None
    policy_level: Literal["TENANT", "AGENT", "SUBSCRIPTION"] | None
    matched_content: Annotated[str | None, Meta(description="What the policy found.")]
    leg: Literal["requestFromSource", "requestToSink", "responseFromSink", "responseToSource"]
    summary: str
    correlation_id: str
    message_id: str | None
    case_id: Annotated[str, Meta(description="The case that decides it.")]
    digest: Annotated[str, Meta(description="The digest that the approval is bound to.")]
    created_at: Timestamp
    completed_at: Annotated[Timestamp | None, Meta(description="When what was decided had been done.")]
    failure: Annotated[str | None, Meta(description="Why what was decided could not be done.")]
    resolution: ApprovalResolution | None


class ApprovalQuery(PageQuery, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """Which approvals are meant, and which page of them, the newest first."""

    status: Annotated[AskedStatus, Meta(description="Only what stands so; `ALL` for all.")] = "PENDING"
    detection_source: Annotated[DetectionSource | None, Meta(description="Only what was held so.")] = None
    source_id: Annotated[Name | None, Meta(description="Only what this agent or user sent.")] = None
    sink_agent_id: Annotated[Name | None, Meta(description="Only what was for this agent.")] = None
    task_id: Annotated[Name | None, Meta(description="Only what belongs to one task.")] = None
    policy_name: Annotated[Name | None, Meta(description="Only what this policy holds.")] = None
    correlation_id: Annotated[Name | None, Meta(description="Only what belongs to one call.")] = None
    start_time: Annotated[Timestamp | None, Meta(description="Held from this moment on.")] = None
    end_time: Annotated[Timestamp | None, Meta(description="Held before this moment.")] = None

    def filter(self) -> HoldFilter:
        """The same for the store; raises ValidationFailed for a time in which nothing can be held."""
        check_period(self.start_time, self.end_time)
        return HoldFilter(
            status=None if self.status == "ALL" else self.status,
            source=self.source_id,
            sink=self.sink_agent_id,
            task_id=self.task_id,
            policy_name=self.policy_name,
            detection_source=self.detection_source,
            correlation_id=self.correlation_id,
            since=self.start_time,
            until=self.end_time,
        )


class Resolve(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """A decision."""

    action: Literal["APPROVED", "REJECTED"]
    message: Annotated[
        ReviewerMessage | None,
        Meta(description="For an agent that asked for input, its answer; else why, for the audit."),
    ] = None


class ReviewLink(Struct, frozen=True, kw_only=True, rename="camel"):
    """Where a person can look and decide."""

    review_url: Annotated[str, Meta(description="Whoever has this link can decide.")]


class ApprovalApi(HttpApi):
    """What is answered there; page, button and API take the same one decision."""

    def __init__(self, store: HoldStore, desk: ReviewDesk, settling: HoldResolver) -> None:
        self._store = store
        self._desk = desk
        self._settling = settling

    @approvals.get(PATH, "listApprovals", query=ApprovalQuery, reply=Page[ApprovalView])
    async def list_approvals(self, request: RelayRequest) -> Page[ApprovalView]:
        """List approvals."""
        asked, tenant = request.read_query(ApprovalQuery), request.member.tenant
        # Each hold brings its message along, which may be large: never all of a long page at once.
        step = next(count for count in range(min(asked.size, AT_ONCE), 0, -1) if asked.size % count == 0)
        steps = asked.size // step
        found: list[ApprovalView] = []
        total = 0
        for page in range(asked.page * steps, (asked.page + 1) * steps):
            holds, total = await self._store.list_holds(tenant, asked.filter(), page=page, size=step)
            found += [approval_of(hold, largest=LARGEST_LISTED) for hold in holds]
            if len(holds) < step:
                break
        return asked.make_page(found, total)

    @approvals.get(ONE, "getApproval", reply=ApprovalView, errors=(CaseNotFound,))
    async def get(self, request: RelayRequest) -> ApprovalView:
        """Read an approval."""
        return approval_of(await self._settling.resolve(await self._own(request)))

    @approvals.post(
        f"{ONE}/resolve",
        "resolveApproval",
        description="There is one decision: the first one stands, the second gets 409.",
        body=Resolve,
        reply=ApprovalView,
        errors=UNDECIDABLE,
    )
    async def resolve(self, request: RelayRequest) -> ApprovalView:
        """Approve or reject a message."""
        wanted, member = request.read_body(Resolve), request.member
        hold = await self._own(request)
        answer = Answer(
            action="approve" if wanted.action == "APPROVED" else "reject",
            data={"message": wanted.message} if wanted.message else {},
            path="browser_submit",
            actor=actor_of(member.principal),
            submitted_via="relay_approvals_api",
            responded_by=RespondedBy(name=member.name),
        )
        await self._desk.answer(hold.case_id, answer)
        return approval_of(await self._settling.resolve(hold))

    @approvals.post(
        f"{ONE}/link",
        "linkToApproval",
        description="Each call makes another link; that you made it is recorded with the case.",
        reply=ReviewLink,
        errors=UNDECIDABLE,
    )
    async def link(self, request: RelayRequest) -> ReviewLink:
        """Make a link to the review page."""
        hold = await self._own(request)
        actor = actor_of(request.member.principal)
        return ReviewLink(review_url=await self._desk.pass_on(hold.case_id, actor=actor))

    async def _own(self, request: RelayRequest) -> HoldRow:
        hold = await self._store.get_hold(request.path["id"])
        if hold is None or hold.tenant != request.member.tenant:
            raise CaseNotFound(NO_SUCH_APPROVAL)
        return hold


class _HeldOn(Struct, frozen=True):
    leg: Leg


class _Told(Struct, frozen=True, kw_only=True):
    """What is told of a `HoldBody`. Its data may be as large as a message: it is passed on as it stands."""

    frame: _HeldOn
    digest: str
    source_kind: CallerKind
    role: Literal["user", "agent"]
    text: str
    data: msgspec.Raw = msgspec.Raw()
    summary: str
    context_id: str
    message_id: str | None = None
    policy: HoldingPolicy | None = None
    matched: str | None = None
    resolution: Resolution | None = None
    done_at: datetime | None = None
    failure: str | None = None


_told_of = msgspec.json.Decoder(_Told).decode


def approval_of(hold: HoldRow, *, largest: int | None = None) -> ApprovalView:
    """A hold as it travels; without its data if that takes more than the `largest` number of bytes."""
    body = _told_of(hold.body)
    policy, called_by = body.policy, body.source_kind
    size = len(memoryview(body.data))
    told = size > 0 and (largest is None or size <= largest)
    return ApprovalView(
        id=hold.id,
        status=hold.status,
        task_id=hold.task_id,
        context_id=body.context_id,
        tenant_id=hold.tenant,
        agent_id=hold.sink,
        agent_message_role=body.role,
        agent_message_text=body.text,
        agent_message_data=body.data.copy() if told else None,  # type: ignore[arg-type]
        detection_source=hold.detection_source,  # type: ignore[arg-type]
        source_agent_id=hold.source if called_by == "agent" else None,
        source_user_id=hold.source if called_by == "user" else None,
        sink_agent_id=hold.sink,
        policy_name=hold.policy_name,
        policy_version=None if policy is None else policy.version,
        policy_level=None if policy is None else policy.level,
        matched_content=body.matched,
        leg=body.frame.leg.value,
        summary=body.summary,
        correlation_id=hold.correlation_id,
        message_id=body.message_id,
        case_id=hold.case_id,
        digest=body.digest,
        created_at=hold.created_at,
        completed_at=body.done_at,
        failure=body.failure,
        resolution=_resolution_of(body.resolution),
    )


def _resolution_of(resolution: Resolution | None) -> ApprovalResolution | None:
    if resolution is None:
        return None
    return ApprovalResolution(
        id=resolution.id,
        action=resolution.action,
        message=resolution.message,
        resolved_by=resolution.resolved_by,
        created_at=resolution.created_at,
    )
