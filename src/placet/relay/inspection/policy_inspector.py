"""Apply a tenant's policies to its messages: pass, mask, refuse or hold them."""

import asyncio
from collections.abc import Callable, Hashable, Mapping, Sequence
from datetime import datetime

from msgspec.structs import replace

from placet.ports.detector import Scannable
from placet.relay.a2a.call import A2ACall
from placet.relay.a2a.dialects import Operation
from placet.relay.a2a.errors import A2AError
from placet.relay.a2a.json_fields import Json, get_text
from placet.relay.a2a.reply import A2AReply
from placet.relay.a2a.stream_merging import ARTIFACT_ID, merge_events
from placet.relay.a2a.text_extraction import UnreadableContent
from placet.relay.audit.audit_log import AuditLog
from placet.relay.holds.message_holder import MessageHolder, digest_file, digest_text
from placet.relay.inspection.detection_events import build_detection_events
from placet.relay.inspection.message_inspector import (
    PASS,
    ChangeVerdict,
    InspectionRequest,
    PassVerdict,
    QuickCheck,
    RefuseVerdict,
    ReleaseVerdict,
    StreamVerdict,
    Verdict,
)
from placet.relay.inspection.policy_cache import PolicyCache
from placet.relay.policies.evaluation import (
    UNREADABLE_FILE,
    Evaluation,
    Outcome,
    exempt_approved,
    hold_unchecked,
)
from placet.relay.policies.policy import Leg, PolicyAction
from placet.relay.policies.policy_set import AppliedPolicy
from placet.relay.policies.text_joining import (
    JoinedTexts,
    TextGroupMember,
    find_spanning_texts,
    get_text_group,
    join_texts,
    split_findings,
)
from placet.relay.registry.subscriptions import Subscription

NOT_READY = "The relay's policies cannot be read, so nothing passes; try again later."
HOLDABLE_OPERATIONS: frozenset[Operation] = frozenset({"send", "stream", "get", "subscribe", "cancel"})
"""What is about one task, or begins one: there is something to hold and to come back to."""
FLUSH_WITHIN_S = 5.0
PASS_EVALUATION = Evaluation(outcome=Outcome.PASS)
_RESPONSE_LEGS = (Leg.RESPONSE_FROM_SINK, Leg.RESPONSE_TO_SOURCE)


class PolicyInspector:
    """The `MessageInspector` that applies policies."""

    def __init__(
        self,
        policy_cache: PolicyCache,
        *,
        holder: MessageHolder,
        trail: AuditLog,
        now: Callable[[], datetime],
    ) -> None:
        self._shelf = policy_cache
        self._holder = holder
        self._trail = trail
        self._now = now

    def has_policies(self, leg: Leg, subscription: Subscription) -> bool:
        """Whether a policy is in force for the leg; also if nobody knows."""
        return self._strictest(leg, subscription) is not None

    def must_withhold(self, subscription: Subscription) -> bool:
        """Whether a policy on the way back does more than to note what it finds."""
        found = (self._strictest(leg, subscription) for leg in _RESPONSE_LEGS)
        return any(one is not None and one.strictness >= PolicyAction.MASK.strictness for one in found)

    def check_quickly(self, leg: Leg, subscription: Subscription, message: A2ACall | A2AReply) -> QuickCheck:
        """Whether nothing is found in all of a message at once."""
        inspector = self._shelf.find(subscription.tenant)
        if inspector is None:
            return QuickCheck.UNSURE
        return inspector.check_quickly(
            message, source=subscription.source.name, sink=subscription.sink.id, leg=leg, now=self._now
        )

    async def inspect(self, leg: Leg, request: InspectionRequest) -> Verdict:
        """See `MessageInspector`."""
        message: A2ACall | A2AReply = request.call
        if leg in _RESPONSE_LEGS and request.reply is not None:
            message = request.reply
        pieces = message.pieces()
        members = [get_text_group(one.path) for one in pieces] if len(pieces) > 1 else []
        found = await self._evaluate(leg, request, pieces, members, message.unreadable())
        if found.outcome is Outcome.PASS:
            return PASS
        self._trail.record(*build_detection_events(self._trail, leg, request, found))
        if found.outcome is Outcome.BLOCK:
            return RefuseVerdict(_build_refusal(found))
        if found.outcome is Outcome.HOLD:
            return await self._hold(leg, request, found)
        if found.outcome is Outcome.MASK:
            return ChangeVerdict(message.with_texts([one.text for one in found.mask(pieces)]))
        return PASS

    async def inspect_stream(
        self, leg: Leg, request: InspectionRequest, replies: Sequence[A2AReply]
    ) -> StreamVerdict:
        """All events at once; to be held, they become the one answer that a person can decide about."""
        pieces = [reply.pieces() for reply in replies]
        every = [piece for own in pieces for piece in own]
        unreadable = [one for reply in replies for one in reply.unreadable()]
        about = replace(request, reply=next((one for one in replies if one.task_id is not None), None))
        found = await self._evaluate(leg, about, every, _group_stream_texts(replies, pieces), unreadable)
        if found.outcome is Outcome.HOLD:
            return await self._hold_stream(leg, request, replies)
        if found.outcome is Outcome.PASS:
            return PASS
        self._trail.record(*build_detection_events(self._trail, leg, about, found))
        if found.outcome is Outcome.BLOCK:
            return RefuseVerdict(_build_refusal(found))
        if found.outcome is Outcome.MASK:
            texts = iter([one.text for one in found.mask(every)])
            changed = [
                replace(reply, document=reply.with_texts([next(texts) for _ in own])) if own else reply
                for reply, own in zip(replies, pieces, strict=True)
            ]
            return ReleaseVerdict(tuple(changed))
        return PASS

    def _strictest(self, leg: Leg, subscription: Subscription) -> PolicyAction | None:
        inspector = self._shelf.find(subscription.tenant)
        if inspector is None:
            return PolicyAction.BLOCK
        return inspector.strictest(
            source=subscription.source.name, sink=subscription.sink.id, leg=leg, at=self._now()
        )

    async def _evaluate(
        self,
        leg: Leg,
        request: InspectionRequest,
        pieces: Sequence[Scannable],
        members: Sequence[TextGroupMember | None],
        unreadable: Sequence[UnreadableContent],
    ) -> Evaluation:
        way = request.subscription
        inspector = self._shelf.find(way.tenant) or await self._shelf.inspector(way.tenant)
        if inspector is None:
            raise A2AError("busy", NOT_READY)
        found = PASS_EVALUATION
        if pieces:
            joined = join_texts(pieces, members)
            found = await inspector.inspect(
                joined.scannables, source=way.source.name, sink=way.sink.id, leg=leg, at=self._now()
            )
            if found.outcome is not Outcome.PASS:
                found = await self._refine(request, pieces, joined, found)
        if unreadable:
            found = replace(found, opaque=tuple(one.path for one in unreadable))
            if way.sink.unreadable_files == "hold" and request.call.operation != "extended_card":
                list_acting = inspector.list_acting(
                    source=way.source.name, sink=way.sink.id, leg=leg, at=self._now()
                )
                found = await self._hold_unreadable(request, found, list_acting, unreadable)
        if request.findings_record is not None and (unreadable or found.outcome is not Outcome.PASS):
            request.findings_record.add(leg, found)
        return found

    async def _hold_unreadable(
        self,
        request: InspectionRequest,
        found: Evaluation,
        list_acting: Sequence[AppliedPolicy],
        unreadable: Sequence[UnreadableContent],
    ) -> Evaluation:
        """Files that nobody can read wait for a person, but for those that one has let pass before."""
        if not list_acting:
            return found
        approved = await self._holder.list_approved(request)
        if all(digest_file(one.content) in approved for one in unreadable):
            return found
        return hold_unchecked(found, list_acting, UNREADABLE_FILE)

    async def _refine(
        self, request: InspectionRequest, pieces: Sequence[Scannable], joined: JoinedTexts, found: Evaluation
    ) -> Evaluation:
        across = find_spanning_texts(found, joined)
        if joined.spans:
            found = split_findings(found, joined, pieces)
        if found.outcome is not Outcome.HOLD:
            return found
        return await self._exempt_approved(request, pieces, found, across)

    async def _exempt_approved(
        self,
        request: InspectionRequest,
        pieces: Sequence[Scannable],
        found: Evaluation,
        across: Mapping[str, Sequence[int]],
    ) -> Evaluation:
        """What a person has let pass before is not held again; halves of it are not the whole."""
        approved = await self._holder.list_approved(request)
        if not approved:
            return found
        passed = {
            number
            for number, one in enumerate(pieces)
            if digest_text(one.text) in approved or _is_echoed_rpc_id(one, request)
        }
        for text, halves in across.items():
            if digest_text(text) not in approved:
                passed.difference_update(halves)
        return exempt_approved(found, passed, all_approved=len(passed) == len(pieces))

    async def _hold(self, leg: Leg, request: InspectionRequest, found: Evaluation) -> Verdict:
        if request.call.operation not in HOLDABLE_OPERATIONS:
            return RefuseVerdict(_build_refusal(found))
        # What led to a hold is on disk before the hold is: no person decides about what nobody can trace.
        async with asyncio.timeout(FLUSH_WITHIN_S):
            await self._trail.flush()
        return await self._holder.hold(leg, request, found)

    async def _hold_stream(
        self, leg: Leg, request: InspectionRequest, replies: Sequence[A2AReply]
    ) -> StreamVerdict:
        """A stream cannot wait: its events become the one answer they come to, which is looked at anew."""
        whole = merge_events(replies, request.call.rpc_id)
        if whole is None:
            raise A2AError("agent_response", "The agent's stream says nothing.")
        verdict = await self.inspect(leg, replace(request, reply=whole))
        if isinstance(verdict, ChangeVerdict):
            return ReleaseVerdict((replace(whole, document=verdict.document),))
        return ReleaseVerdict((whole,)) if isinstance(verdict, PassVerdict) else verdict


def _is_echoed_rpc_id(piece: Scannable, request: InspectionRequest) -> bool:
    """Whether it is the id of the call that an answer repeats, which is another each time."""
    return request.reply is not None and (piece.path, piece.text) == ("id", str(request.call.rpc_id))


def _build_refusal(found: Evaluation) -> A2AError:
    """What the caller is told: which policy it was, and nothing of what it found."""
    if found.decided_by is None:
        return A2AError("refused", "A policy does not let this message pass.")
    policy = found.decided_by.policy
    return A2AError(
        "refused",
        f"A policy does not let this message pass: {policy.name}.",
        data={
            "policy_name": policy.name,
            "policy_version": policy.version,
            "policy_level": found.decided_by.level.value,
        },
    )


def _group_stream_texts(
    replies: Sequence[A2AReply], pieces: Sequence[Sequence[Scannable]]
) -> list[TextGroupMember | None]:
    """What belongs together in a stream: a piece of work and what is appended to it, and all that is said."""
    keys: list[Hashable | None] = []
    parts_in: dict[Hashable, set[int]] = {}
    begun: dict[str | None, int] = {}
    for number, (reply, own) in enumerate(zip(replies, pieces, strict=True)):
        named = _name_artifacts(number, reply, begun)
        for piece in own:
            member = get_text_group(piece.path)
            key = None if member is None else named.get(str(member.of), (number, member.of))
            keys.append(key)
            if key is not None:
                parts_in.setdefault(key, set()).add(number)
    # A word may be cut anywhere into events: the pieces of a continued text mean nothing alone.
    continued = {key for key, events in parts_in.items() if len(events) > 1 and key != "status"}
    return [None if key is None else TextGroupMember(key, only_joined=key in continued) for key in keys]


def _name_artifacts(number: int, reply: A2AReply, begun: dict[str | None, int]) -> dict[str, Hashable]:
    """By the path of its parts: under which name a text of this event is read together with others."""
    update = reply.artifact_update
    if update is not None:
        name = _get_artifact_id(update.get("artifact"))
        if not update.get("append") or name not in begun:
            begun[name] = number
        return {"artifact": ("artifact", name, begun[name])}
    listed = reply.task.get("artifacts") if reply.task is not None else None
    found: dict[str, Hashable] = {"status.message": "status"}
    for place, one in enumerate(listed if isinstance(listed, list) else []):
        name = _get_artifact_id(one)
        begun[name] = number
        found[f"artifacts[{place}]"] = ("artifact", name, number)
    return found


def _get_artifact_id(artifact: Json | None) -> str | None:
    return get_text(artifact, ARTIFACT_ID)
