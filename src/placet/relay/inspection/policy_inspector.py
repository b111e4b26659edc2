"""Apply a tenant's policies to its messages: pass, mask, refuse or hold them."""

from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping, Sequence
from datetime import datetime
from typing import Protocol

from msgspec.structs import replace

from placet.errors import DetectorBusy
from placet.ports.detector import Scannable
from placet.relay.a2a.call import A2ACall
from placet.relay.a2a.dialects import Operation
from placet.relay.a2a.errors import A2AError
from placet.relay.a2a.json_format import Json
from placet.relay.a2a.reply import A2AReply
from placet.relay.a2a.stream_merging import merge_events
from placet.relay.a2a.text_extraction import TextPiece, UnreadableContent
from placet.relay.audit.audit_log import AuditLog
from placet.relay.detectors.open_match import OpenMatchFinder, combine_finders
from placet.relay.detectors.policy_evaluator import PolicyEvaluator
from placet.relay.detectors.stream_plan import INSPECT_EVENTS, StreamPlan, combine_plans
from placet.relay.exchange import Exchange
from placet.relay.inspection.detection_events import build_detection_events
from placet.relay.inspection.policy_cache import PolicyCache
from placet.relay.inspection.stream_texts import group_stream_texts
from placet.relay.policy.evaluation import (
    UNREADABLE_FILE,
    Evaluation,
    Outcome,
    add_findings,
    exempt_approved,
    hold_unchecked,
)
from placet.relay.policy.finding import Finding, digest_file, digest_match, digest_text
from placet.relay.policy.policy import REQUEST_LEGS, RESPONSE_LEGS, Leg, PolicyAction
from placet.relay.policy.policy_set import AppliedPolicy
from placet.relay.policy.text_joining import (
    JoinedTexts,
    TextGroupMember,
    find_spanning_texts,
    get_text_group,
    join_contents,
    join_texts,
    join_to_earlier,
    keep_continuing_findings,
    split_findings,
)
from placet.relay.policy.verdict import PASS, PASS_EVALUATION, PolicyVerdict
from placet.relay.settings import STREAM_CARRY, STREAM_WINDOW
from placet.relay.tenants import Subscription

MAX_TASKS = 10_000
TAIL_LENGTH = 500
"""The number of characters that are remembered of each task."""


NOT_READY = "The relay cannot load its policies, so no messages pass. Try again later."
HOLDABLE_OPERATIONS: frozenset[Operation] = frozenset({"send", "stream", "get", "subscribe", "cancel"})
"""The operations that belong to one task or start one, so that the caller can poll a held message."""
STREAM_OPERATIONS: frozenset[Operation] = frozenset({"stream", "subscribe"})
RESPONSE_ATTEMPTS = 5
"""How often detectors that have no time are asked about a response."""
_NEXT_LEGS = {
    Leg.REQUEST_FROM_SOURCE: Leg.REQUEST_TO_SINK,
    Leg.RESPONSE_FROM_SINK: Leg.RESPONSE_TO_SOURCE,
}


class EarlierTexts:
    """The ends of the texts that were forwarded for unfinished tasks, in memory."""

    def __init__(self) -> None:
        self._tails: OrderedDict[Hashable, str] = OrderedDict()

    def __len__(self) -> int:
        return len(self._tails)

    def __contains__(self, key: Hashable) -> bool:
        return key in self._tails

    def get(self, key: Hashable) -> str:
        """Return the end of the earlier texts, or an empty string."""
        return self._tails.get(key, "")

    def remember(self, key: Hashable, text: str) -> None:
        """Remember a forwarded text. Replies often repeat the earlier ones, which are then replaced."""
        earlier = self._tails.pop(key, "")
        tail = (text if earlier in text else earlier + text)[-TAIL_LENGTH:]
        if tail:
            self._tails[key] = tail
        while len(self._tails) > MAX_TASKS:
            self._tails.popitem(last=False)

    def forget(self, key: Hashable) -> None:
        """Forget a task that has ended."""
        self._tails.pop(key, None)


class MessageHolder(Protocol):
    """Holds messages until a person decides."""

    async def hold(
        self, leg: Leg, exchange: Exchange, message: A2ACall | A2AReply, evaluation: Evaluation
    ) -> Json:
        """Store a hold. Return the response for the caller: a task to wait for.

        The findings refer to the texts of the message; a stream is one merged response. Raises A2AError if
        the message cannot be held.
        """
        ...

    async def hold_input_request(self, exchange: Exchange, reply: A2AReply) -> Json | None:
        """Hold a response, event or notification in which the agent asks for input, as `hold` does.

        Return None if the request for input goes to the caller.
        """
        ...

    async def list_approved(self, exchange: Exchange, message: A2ACall | A2AReply) -> frozenset[str]:
        """Return the digests of the texts, files and matches that a person has approved in this task.

        Approved texts are not held again in `history` or on a later leg. Other findings still count.
        """
        ...

    async def report_observed(
        self, exchange: Exchange, message: A2ACall | A2AReply, evaluation: Evaluation
    ) -> None:
        """Report what policies found in a stream that was only observed. The caller has got it."""
        ...


class PolicyInspector:
    """Inspects every message. An exception ends the exchange, so a failure never passes a message."""

    def __init__(
        self,
        policy_cache: PolicyCache,
        *,
        holder: MessageHolder,
        audit_log: AuditLog,
        now: Callable[[], datetime],
        stream_window: int = STREAM_WINDOW,
        stream_carry: int = STREAM_CARRY,
    ) -> None:
        self._policy_cache = policy_cache
        self._stream_window = stream_window
        self._stream_carry = stream_carry
        self._holder = holder
        self._audit_log = audit_log
        self._now = now
        self._earlier_texts = EarlierTexts()

    def has_policies(self, leg: Leg, subscription: Subscription) -> bool:
        """Whether a policy applies to the leg. True if the policies are not loaded."""
        return self._strictest(leg, subscription) is not None

    def plan_stream(self, subscription: Subscription) -> StreamPlan:
        """Return how a stream is inspected: event by event, behind a window, or whole."""
        if self._policy_cache.find(subscription.tenant) is None:
            return StreamPlan(mode="whole")
        plan = INSPECT_EVENTS
        for leg in RESPONSE_LEGS:
            plan = combine_plans(plan, self._plan_leg(leg, subscription))
        if plan.has_unknown_width:
            carried = OpenMatchFinder(self._stream_carry, (), self._stream_carry)
            return replace(plan, finder=combine_finders(plan.finder, carried), step=self._stream_window)
        return plan

    def _plan_leg(self, leg: Leg, subscription: Subscription) -> StreamPlan:
        evaluator = self._policy_cache.find(subscription.tenant)
        if evaluator is None:
            return StreamPlan(mode="whole")
        return evaluator.plan_stream(
            source=subscription.source.name,
            sink=subscription.sink.id,
            leg=leg,
            at=self._now(),
            agent=subscription.sink.streaming,
        )

    async def inspect_window(
        self, subscription: Subscription, texts: Sequence[Scannable]
    ) -> Sequence[Finding] | None:
        """Return the findings of policies that mask, hold or block responses. None if a check failed.

        This does not record the findings: the whole stream is inspected again when it has ended.
        """
        findings: list[Finding] = []
        source, sink = subscription.source.name, subscription.sink.id
        for leg in RESPONSE_LEGS:
            evaluator = self._policy_cache.find(subscription.tenant)
            if evaluator is None:
                return None
            try:
                evaluation = await evaluator.inspect(texts, source=source, sink=sink, leg=leg, at=self._now())
            except DetectorBusy:
                return None
            if evaluation.unchecked:
                return None
            findings += (
                finding
                for finding in evaluation.findings
                if finding.action.strictness >= PolicyAction.MASK.strictness
            )
        return findings

    def inspect_quickly(
        self, leg: Leg, subscription: Subscription, message: A2ACall | A2AReply
    ) -> PolicyVerdict | None:
        """Return the verdict if it needs no waiting, as for most messages; None also after any failure."""
        evaluator = self._policy_cache.find(subscription.tenant)
        if evaluator is None:
            return None
        verdict = evaluator.inspect_quickly(
            message, source=subscription.source.name, sink=subscription.sink.id, leg=leg, now=self._now
        )
        return None if verdict is PASS and self._may_continue(leg, subscription, message) else verdict

    async def inspect(self, leg: Leg, exchange: Exchange, message: A2ACall | A2AReply) -> PolicyVerdict:
        """Return the verdict about a message: a call, a reply, or one event of a stream."""
        pieces = message.pieces()
        members = [get_text_group(piece.path) for piece in pieces] if len(pieces) > 1 else []
        unreadable = message.unreadable_content()
        evaluation = await self._evaluate(leg, exchange, message, pieces, members, unreadable)
        exchange.findings_record.add(leg, evaluation)
        if evaluation.outcome is Outcome.PASS:
            return PASS
        self._audit_log.record(*build_detection_events(self._audit_log, leg, exchange, message, evaluation))
        if evaluation.outcome is Outcome.HOLD:
            return await self._build_hold(leg, exchange, message, evaluation)
        if evaluation.outcome is Outcome.MASK:
            document = message.with_texts([piece.text for piece in evaluation.mask(pieces)])
            return PolicyVerdict(evaluation=evaluation, messages=(replace(message, document=document),))
        return PolicyVerdict(evaluation=evaluation)

    async def inspect_stream(
        self, leg: Leg, exchange: Exchange, replies: Sequence[A2AReply]
    ) -> PolicyVerdict:
        """Return the verdict about all events of a stream. To hold them, merge them into one reply."""
        pieces_by_event = [reply.pieces() for reply in replies]
        pieces = [piece for event_pieces in pieces_by_event for piece in event_pieces]
        message, evaluation = await self._evaluate_stream(leg, exchange, replies, pieces_by_event)
        exchange.findings_record.add(leg, evaluation)
        if evaluation.outcome is Outcome.HOLD:
            return await self._hold_stream(leg, exchange, replies)
        if evaluation.outcome is Outcome.PASS:
            return PASS
        self._audit_log.record(*build_detection_events(self._audit_log, leg, exchange, message, evaluation))
        if evaluation.outcome is Outcome.MASK:
            texts = iter([piece.text for piece in evaluation.mask(pieces)])
            changed = [
                replace(reply, document=reply.with_texts([next(texts) for _ in event_pieces]))
                if event_pieces
                else reply
                for reply, event_pieces in zip(replies, pieces_by_event, strict=True)
            ]
            return PolicyVerdict(evaluation=evaluation, messages=(*changed,))
        return PolicyVerdict(evaluation=evaluation)

    async def is_stream_clean(
        self, exchange: Exchange, replies: Sequence[A2AReply], pieces: Sequence[Sequence[TextPiece]]
    ) -> bool:
        """Return whether no policy finds anything on the response legs in a stream with these texts.

        False if a check fails. This records nothing.
        """
        if any(reply.unreadable_content() for reply in replies):
            return False
        subscription = exchange.subscription
        evaluator = self._policy_cache.find(subscription.tenant)
        if evaluator is None:
            return False
        members = group_stream_texts(replies, pieces)
        joined = join_texts([piece for event_pieces in pieces for piece in event_pieces], members)
        source, sink, now = subscription.source.name, subscription.sink.id, self._now()
        for leg in RESPONSE_LEGS:
            try:
                found = await evaluator.inspect(joined.scannables, source=source, sink=sink, leg=leg, at=now)
            except DetectorBusy:
                return False
            if found.outcome is not Outcome.PASS:
                return False
        return True

    async def observe_stream(self, exchange: Exchange, replies: Sequence[A2AReply]) -> None:
        """Record what policies find on the response legs in a stream that the caller has got."""
        pieces_by_event = [reply.pieces() for reply in replies]
        for leg in RESPONSE_LEGS:
            message, evaluation = await self._evaluate_stream(leg, exchange, replies, pieces_by_event)
            if evaluation.outcome is Outcome.PASS and not evaluation.unreadable_paths:
                continue
            outcome = min(evaluation.outcome, Outcome.WARN, key=lambda one: one.strictness)
            exchange.findings_record.add(leg, replace(evaluation, outcome=outcome))
            self._audit_log.record(
                *build_detection_events(self._audit_log, leg, exchange, message, evaluation, is_observed=True)
            )
            if evaluation.outcome.strictness >= Outcome.MASK.strictness:
                await self._holder.report_observed(exchange, message, evaluation)

    def _may_continue(self, leg: Leg, subscription: Subscription, message: A2ACall | A2AReply) -> bool:
        """Whether a text may begin before this reply, or end after it."""
        if not isinstance(message, A2AReply) or (message.final and not self._earlier_texts):
            return False
        # Events of a stream that a policy may change are read together, so this is a notification.
        is_withheld = self.plan_stream(subscription).is_withheld
        is_pushed = message.operation in STREAM_OPERATIONS and is_withheld
        key = _get_task_key(leg, subscription, message, is_pushed=is_pushed)
        return key is not None and (not message.final or key in self._earlier_texts)

    def _strictest(self, leg: Leg, subscription: Subscription) -> PolicyAction | None:
        evaluator = self._policy_cache.find(subscription.tenant)
        if evaluator is None:
            return PolicyAction.BLOCK
        return evaluator.strictest(
            source=subscription.source.name, sink=subscription.sink.id, leg=leg, at=self._now()
        )

    async def _evaluate_stream(
        self,
        leg: Leg,
        exchange: Exchange,
        replies: Sequence[A2AReply],
        pieces_by_event: Sequence[Sequence[TextPiece]],
    ) -> tuple[A2ACall | A2AReply, Evaluation]:
        """Return the evaluation of all events of a stream, and the message that names its task."""
        pieces = [piece for event_pieces in pieces_by_event for piece in event_pieces]
        unreadable = [content for reply in replies for content in reply.unreadable_content()]
        message = next((reply for reply in replies if reply.task_id is not None), exchange.call)
        members = group_stream_texts(replies, pieces_by_event)
        return message, await self._evaluate(leg, exchange, message, pieces, members, unreadable)

    async def _evaluate(
        self,
        leg: Leg,
        exchange: Exchange,
        message: A2ACall | A2AReply,
        pieces: Sequence[Scannable],
        members: Sequence[TextGroupMember | None],
        unreadable: Sequence[UnreadableContent],
    ) -> Evaluation:
        tenant = exchange.subscription.tenant
        source, sink = exchange.subscription.source.name, exchange.subscription.sink
        evaluator = self._policy_cache.find(tenant) or await self._policy_cache.load_evaluator(tenant)
        if evaluator is None:
            raise A2AError("busy", NOT_READY)
        evaluation = PASS_EVALUATION
        if pieces:
            joined = join_texts(pieces, members)
            evaluation = await self._scan(evaluator, leg, exchange, joined.scannables)
            continued = await self._scan_continued(evaluator, leg, exchange, message, pieces)
            if evaluation.outcome is not Outcome.PASS or continued.findings:
                evaluation = await self._refine(exchange, message, pieces, joined, evaluation, continued)
            self._remember(leg, exchange, message, pieces, evaluation)
        if unreadable:
            evaluation = replace(evaluation, unreadable_paths=tuple(content.path for content in unreadable))
            if sink.unreadable_files == "hold" and exchange.call.operation != "extended_card":
                acting = evaluator.list_acting(source=source, sink=sink.id, leg=leg, at=self._now())
                evaluation = await self._hold_unreadable(exchange, message, evaluation, acting, unreadable)
        return evaluation

    async def _scan(
        self, evaluator: PolicyEvaluator, leg: Leg, exchange: Exchange, texts: Sequence[Scannable]
    ) -> Evaluation:
        """Return the evaluation. If detectors have no time, refuse a call, and ask again about a response.

        After "busy" a caller sends the same call again. If the agent has already responded, it would do its
        work twice.
        """
        has_response = leg not in REQUEST_LEGS and not exchange.pushed
        reason = ""
        for _ in range(RESPONSE_ATTEMPTS if has_response else 1):
            try:
                return await evaluator.inspect(
                    texts,
                    source=exchange.subscription.source.name,
                    sink=exchange.subscription.sink.id,
                    leg=leg,
                    at=self._now(),
                )
            except DetectorBusy as busy:
                reason = busy.message
        raise A2AError("refused" if has_response else "busy", reason)

    async def _scan_continued(
        self,
        evaluator: PolicyEvaluator,
        leg: Leg,
        exchange: Exchange,
        message: A2ACall | A2AReply,
        pieces: Sequence[Scannable],
    ) -> Evaluation:
        """Return the findings that begin in an earlier reply of the task and end in this one."""
        key = _get_task_key(leg, exchange.subscription, message, is_pushed=exchange.pushed)
        earlier = self._earlier_texts.get(key) if key is not None else ""
        if not earlier or earlier in join_contents(pieces):
            return PASS_EVALUATION
        joined = join_to_earlier(pieces, earlier)
        if joined is None:
            return PASS_EVALUATION
        found = await self._scan(evaluator, leg, exchange, joined.scannables)
        return split_findings(keep_continuing_findings(found, earlier), joined, pieces)

    def _remember(
        self,
        leg: Leg,
        exchange: Exchange,
        message: A2ACall | A2AReply,
        pieces: Sequence[Scannable],
        evaluation: Evaluation,
    ) -> None:
        """Remember the end of what is forwarded for an unfinished task."""
        key = _get_task_key(leg, exchange.subscription, message, is_pushed=exchange.pushed)
        if key is None or not isinstance(message, A2AReply) or not evaluation.outcome.is_forwarded:
            return
        if message.final:
            self._earlier_texts.forget(key)
        else:
            self._earlier_texts.remember(key, join_contents(evaluation.mask(pieces)))

    async def _hold_unreadable(
        self,
        exchange: Exchange,
        message: A2ACall | A2AReply,
        evaluation: Evaluation,
        acting: Sequence[AppliedPolicy],
        unreadable: Sequence[UnreadableContent],
    ) -> Evaluation:
        """Hold a message with files that are not text, unless a reviewer has approved all of them before."""
        if not acting:
            return evaluation
        approved = await self._holder.list_approved(exchange, message)
        if all(digest_file(file.content) in approved for file in unreadable):
            return evaluation
        return hold_unchecked(evaluation, acting, UNREADABLE_FILE)

    async def _refine(
        self,
        exchange: Exchange,
        message: A2ACall | A2AReply,
        pieces: Sequence[Scannable],
        joined: JoinedTexts,
        evaluation: Evaluation,
        continued: Evaluation,
    ) -> Evaluation:
        """Assign findings in joined texts to their pieces, and exempt approved texts from a hold.

        `continued` has the findings that begin in an earlier reply of the task.
        """
        spanning = find_spanning_texts(evaluation, joined)
        if joined.spans:
            evaluation = split_findings(evaluation, joined, pieces)
        evaluation = add_findings(evaluation, continued)
        if evaluation.outcome is not Outcome.HOLD:
            return evaluation
        return await self._exempt_approved(exchange, message, pieces, evaluation, spanning, continued)

    async def _exempt_approved(
        self,
        exchange: Exchange,
        message: A2ACall | A2AReply,
        pieces: Sequence[Scannable],
        evaluation: Evaluation,
        spanning: Mapping[str, Sequence[int]],
        continued: Evaluation,
    ) -> Evaluation:
        """Exempt texts and matches that a reviewer has approved before.

        A joined text must be approved as a whole, and so must a match: a part of one may be one digit.
        """
        approved = await self._holder.list_approved(exchange, message)
        if not approved:
            return evaluation
        exempt = {
            index
            for index, piece in enumerate(pieces)
            if digest_text(piece.text) in approved or _is_echoed_rpc_id(piece, exchange, message)
        }
        for text, piece_indexes in spanning.items():
            if digest_text(text) not in approved:
                exempt.difference_update(piece_indexes)
        spanned = {index for piece_indexes in spanning.values() for index in piece_indexes}
        approved_findings = {
            index
            for index, one in enumerate(evaluation.findings)
            if one.piece not in spanned and one not in continued.findings and digest_match(one) in approved
        }
        return exempt_approved(
            evaluation,
            exempt,
            approved_findings=approved_findings,
            all_approved=len(exempt) == len(pieces),
        )

    async def _build_hold(
        self, leg: Leg, exchange: Exchange, message: A2ACall | A2AReply, evaluation: Evaluation
    ) -> PolicyVerdict:
        """Return the verdict to hold a message. A message whose caller could not wait is blocked."""
        if exchange.call.operation not in HOLDABLE_OPERATIONS:
            return PolicyVerdict(evaluation=replace(evaluation, outcome=Outcome.BLOCK))
        masks = await self._find_later_masks(leg, exchange, message)
        return PolicyVerdict(evaluation=replace(evaluation, findings=(*evaluation.findings, *masks)))

    async def _find_later_masks(
        self, leg: Leg, exchange: Exchange, message: A2ACall | A2AReply
    ) -> list[Finding]:
        """Return what policies mask on the next leg. The reviewer sees the message as it will be sent."""
        later = _NEXT_LEGS.get(leg)
        tenant = exchange.subscription.tenant
        evaluator = self._policy_cache.find(tenant) or await self._policy_cache.load_evaluator(tenant)
        if later is None or evaluator is None:
            return []
        pieces = message.pieces()
        joined = join_texts(pieces, [get_text_group(piece.path) for piece in pieces])
        evaluation = await self._scan(evaluator, later, exchange, joined.scannables)
        if joined.spans:
            evaluation = split_findings(evaluation, joined, pieces)
        return [one for one in evaluation.findings if one.action is PolicyAction.MASK]

    async def _hold_stream(self, leg: Leg, exchange: Exchange, replies: Sequence[A2AReply]) -> PolicyVerdict:
        """Merge the events into one reply and inspect it, because a stream cannot be held."""
        merged = merge_events(replies, exchange.call.rpc_id)
        if merged is None:
            raise A2AError("agent_response", "The agent's stream has no events.")
        verdict = await self.inspect(leg, exchange, merged)
        return verdict if verdict.messages else replace(verdict, messages=(merged,))


def _get_task_key(
    leg: Leg, subscription: Subscription, message: A2ACall | A2AReply, *, is_pushed: bool = False
) -> Hashable | None:
    """Return the key of the earlier texts of a reply's task. Streams are read as a whole and have none."""
    if not isinstance(message, A2AReply) or leg not in RESPONSE_LEGS or message.task_id is None:
        return None
    if message.operation in STREAM_OPERATIONS and not is_pushed:
        return None
    return leg, subscription.tenant, subscription.source.name, subscription.sink.id, message.task_id


def _is_echoed_rpc_id(piece: Scannable, exchange: Exchange, message: A2ACall | A2AReply) -> bool:
    """Whether the piece is the JSON-RPC id of the call, which differs between calls."""
    is_id = (piece.path, piece.text) == ("id", str(exchange.call.rpc_id))
    return is_id and isinstance(message, A2AReply)
