"""`/relay/v1/approvals`: list held messages and decide them."""

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from placet.desk.access import get_actor
from placet.desk.answer import Answer
from placet.desk.review_desk import ReviewDesk
from placet.errors import AlreadyClosed, CaseExpired, CaseNotFound
from placet.http.paging import Page, PageQuery
from placet.http.route import HttpApi
from placet.ports.hold_store import HoldFilter, HoldRow, HoldStore
from placet.protocol.poll import RespondedBy
from placet.protocol.timestamp import Timestamp
from placet.relay.hold import DetectionSource, Resolution, decode_hold_body
from placet.relay.holds.resolution import HoldResolver
from placet.relay.policy.binding import BindingLevel
from placet.relay.route_addresses import OPERATIONS
from placet.relay.transports.admin_api.access import RelayRequest, RelayRouteGroup, check_period
from placet.text.truncation import truncate

DECISION_ERRORS = (CaseNotFound, AlreadyClosed, CaseExpired)
NOT_FOUND = "Approval not found."
MAX_MESSAGE_LENGTH = 10_000
READ_BATCH = 10
MAX_LISTED_TEXT = 16_384
MAX_LISTED_DATA = 16_384
"""The maximum size of the data of one message in a list, so that a page stays readable."""

ApprovalStatus = Literal["PENDING", "APPROVED", "REJECTED", "EXPIRED", "WITHDRAWN"]
StatusFilter = Literal["PENDING", "APPROVED", "REJECTED", "EXPIRED", "WITHDRAWN", "ALL"]
Name = Annotated[str, Meta(min_length=1, max_length=200)]
ReviewerMessage = Annotated[str, Meta(max_length=MAX_MESSAGE_LENGTH)]

approvals = RelayRouteGroup(
    tag="Approvals",
    description="Messages that the relay holds until a reviewer decides.",
    read="AGENT_CONVERSATIONS:READ",
    write="AGENT_CONVERSATIONS:WRITE",
)


class ApprovalResolution(Struct, frozen=True, kw_only=True, rename="camel"):
    """The decision about an approval, or how it ended without one."""

    id: str
    action: Literal["APPROVED", "REJECTED", "EXPIRED", "WITHDRAWN"]
    message: str | None
    resolved_by: str | None
    created_at: Timestamp


class ApprovalView(Struct, frozen=True, kw_only=True, rename="camel"):
    """A message that waits, or waited, for a decision."""

    id: str
    status: ApprovalStatus
    task_id: Annotated[str, Meta(description="The caller's id of the task.")]
    context_id: str
    tenant_id: str
    agent_id: Annotated[str, Meta(description="The agent of the conversation.")]
    agent_message_role: Literal["user", "agent"]
    agent_message_text: Annotated[
        str,
        Meta(
            description="All texts of the held message, in order, as they will be sent. "
            f"In a list, at most {MAX_LISTED_TEXT} characters."
        ),
    ]
    agent_message_length: Annotated[
        int, Meta(description="The number of characters of all texts. A list may show fewer.")
    ]
    agent_message_data: Annotated[
        list[Any] | None,
        Meta(
            description="The data parts of the message. "
            f"In a list, null if larger than {MAX_LISTED_DATA} bytes."
        ),
    ]
    detection_source: DetectionSource
    source_agent_id: Annotated[str | None, Meta(description="The caller, if it is an agent.")]
    source_user_id: Annotated[str | None, Meta(description="The caller, if it is a user.")]
    sink_agent_id: str
    policy_name: str | None
    policy_version: str | None
    policy_level: BindingLevel | None
    matched_content: Annotated[str | None, Meta(description="The text that matched the policy.")]
    leg: Literal["requestFromSource", "requestToSink", "responseFromSink", "responseToSource"]
    summary: str
    correlation_id: str
    message_id: str | None
    case_id: Annotated[str, Meta(description="The case of the approval.")]
    digest: Annotated[str, Meta(description="The digest that the approval is bound to.")]
    created_at: Timestamp
    completed_at: Annotated[Timestamp | None, Meta(description="When the decision was carried out.")]
    failure: Annotated[str | None, Meta(description="Why the decision could not be carried out.")]
    resolution: ApprovalResolution | None


class ApprovalQuery(PageQuery, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """The filter and page of a list of approvals, the newest first."""

    status: Annotated[StatusFilter, Meta(description="Only this status. `ALL` lists all.")] = "PENDING"
    detection_source: Annotated[
        DetectionSource | None, Meta(description="Only approvals with this detection source.")
    ] = None
    source_id: Annotated[Name | None, Meta(description="Only messages from this agent or user.")] = None
    sink_agent_id: Annotated[Name | None, Meta(description="Only messages to this agent.")] = None
    task_id: Annotated[Name | None, Meta(description="Only messages of this task.")] = None
    policy_name: Annotated[Name | None, Meta(description="Only messages held by this policy.")] = None
    correlation_id: Annotated[Name | None, Meta(description="Only messages with this correlation id.")] = None
    start_time: Annotated[Timestamp | None, Meta(description="Only messages held at or after this time.")] = (
        None
    )
    end_time: Annotated[Timestamp | None, Meta(description="Only messages held before this time.")] = None

    def filter(self) -> HoldFilter:
        """Return the filter for the store. Raises ValidationFailed if the time range is not valid."""
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
        Meta(
            description="The answer for an agent that asked for input. Otherwise a reason for the audit log."
        ),
    ] = None


class ReviewLink(Struct, frozen=True, kw_only=True, rename="camel"):
    """A link to the review page."""

    review_url: Annotated[str, Meta(description="The link. Anyone who has it can decide.")]


class ApprovalApi(HttpApi):
    """Handles the routes of approvals. The review page, messenger buttons and this API decide one case."""

    def __init__(self, store: HoldStore, desk: ReviewDesk, resolver: HoldResolver) -> None:
        self._store = store
        self._desk = desk
        self._resolver = resolver

    @approvals.declare(OPERATIONS["listApprovals"], query=ApprovalQuery, reply=Page[ApprovalView])
    async def list_approvals(self, request: RelayRequest) -> Page[ApprovalView]:
        """List approvals."""
        query, tenant = request.read_query(ApprovalQuery), request.member.tenant
        # Each hold includes its message, which may be large, so a long page is read in batches.
        size = next(count for count in range(min(query.size, READ_BATCH), 0, -1) if query.size % count == 0)
        batches = query.size // size
        views: list[ApprovalView] = []
        total = 0
        for page in range(query.page * batches, (query.page + 1) * batches):
            holds, total = await self._store.list_holds(tenant, query.filter(), page=page, size=size)
            views += [
                approval_from_hold(hold, max_data=MAX_LISTED_DATA, max_text=MAX_LISTED_TEXT) for hold in holds
            ]
            if len(holds) < size:
                break
        return query.make_page(views, total)

    @approvals.declare(OPERATIONS["getApproval"], reply=ApprovalView, errors=(CaseNotFound,))
    async def get(self, request: RelayRequest) -> ApprovalView:
        """Get an approval."""
        return approval_from_hold(await self._resolver.resolve(await self._get_hold(request)))

    @approvals.declare(
        OPERATIONS["resolveApproval"],
        description="Only the first decision counts. A second one gets 409.",
        body=Resolve,
        reply=ApprovalView,
        errors=DECISION_ERRORS,
    )
    async def resolve(self, request: RelayRequest) -> ApprovalView:
        """Approve or reject a message."""
        decision, member = request.read_body(Resolve), request.member
        hold = await self._get_hold(request)
        answer = Answer(
            action="approve" if decision.action == "APPROVED" else "reject",
            data={"message": decision.message} if decision.message else {},
            path="browser_submit",
            actor=get_actor(member.principal),
            submitted_via="relay_approvals_api",
            responded_by=RespondedBy(name=member.name),
        )
        await self._desk.answer(hold.case_id, answer)
        return approval_from_hold(await self._resolver.resolve(hold))

    @approvals.declare(
        OPERATIONS["linkToApproval"],
        description="Each call creates a new link and records in the case who created it.",
        reply=ReviewLink,
        errors=DECISION_ERRORS,
    )
    async def link(self, request: RelayRequest) -> ReviewLink:
        """Create a link to the review page."""
        hold = await self._get_hold(request)
        actor = get_actor(request.member.principal)
        return ReviewLink(review_url=await self._desk.pass_on(hold.case_id, actor=actor))

    async def _get_hold(self, request: RelayRequest) -> HoldRow:
        hold = await self._store.get_hold(request.path["id"])
        if hold is None or hold.tenant != request.member.tenant:
            raise CaseNotFound(NOT_FOUND)
        return hold


def approval_from_hold(
    hold: HoldRow, *, max_data: int | None = None, max_text: int | None = None
) -> ApprovalView:
    """Return the approval of a hold.

    Its text is cut at `max_text` characters, and its data left out if larger than `max_data` bytes.
    """
    body = decode_hold_body(hold)
    policy, source_kind = body.policy, body.source_kind
    is_data_shown = body.has_data and (max_data is None or len(memoryview(body.data)) <= max_data)
    return ApprovalView(
        id=hold.id,
        status=hold.status,
        task_id=hold.task_id,
        context_id=body.context_id,
        tenant_id=hold.tenant,
        agent_id=hold.sink,
        agent_message_role=body.role,
        agent_message_text=body.text if max_text is None else truncate(body.text, max_text),
        agent_message_length=len(body.text),
        agent_message_data=body.data.copy() if is_data_shown else None,  # type: ignore[arg-type]
        detection_source=hold.detection_source,  # type: ignore[arg-type]
        source_agent_id=hold.source if source_kind == "agent" else None,
        source_user_id=hold.source if source_kind == "user" else None,
        sink_agent_id=hold.sink,
        policy_name=hold.policy_name,
        policy_version=None if policy is None else policy.version,
        policy_level=None if policy is None else policy.level,
        matched_content=body.matched,
        leg=body.frame.leg.value,  # type: ignore[arg-type]  # a card is not held
        summary=body.summary,
        correlation_id=hold.correlation_id,
        message_id=body.message_id,
        case_id=hold.case_id,
        digest=body.digest,
        created_at=hold.created_at,
        completed_at=body.done_at,
        failure=body.failure,
        resolution=_build_resolution_view(body.resolution),
    )


def _build_resolution_view(resolution: Resolution | None) -> ApprovalResolution | None:
    if resolution is None:
        return None
    return ApprovalResolution(
        id=resolution.id,
        action=resolution.action,
        message=resolution.message,
        resolved_by=resolution.resolved_by,
        created_at=resolution.created_at,
    )
