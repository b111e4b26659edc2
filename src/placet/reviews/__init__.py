"""The kinds of review, each in its own folder; no kind knows another."""

from collections.abc import Mapping

from placet.cases.case import Offer
from placet.reviews.approval.kind import Approval
from placet.reviews.base import BaseKind
from placet.reviews.confirmation.kind import Confirmation
from placet.reviews.custom import Custom
from placet.reviews.escalation.kind import Escalation
from placet.reviews.held_messages.kind import HeldMessages
from placet.reviews.input.kind import Input
from placet.reviews.selection.kind import Selection
from placet.reviews.tool_calls.granting import PageGrants
from placet.reviews.tool_calls.kind import ToolCalls

TOOL_CALLS: BaseKind = ToolCalls(PageGrants())
HELD_MESSAGES: BaseKind = HeldMessages()
BUILT_IN: Mapping[str, BaseKind] = {
    kind.name: kind
    for kind in (
        Approval(TOOL_CALLS, HELD_MESSAGES),
        Selection(),
        Input(),
        Confirmation(),
        Escalation(),
    )
}
CUSTOM: BaseKind = Custom()
SAMPLES: Mapping[str, BaseKind] = {**BUILT_IN, "tool_calls": TOOL_CALLS, "held_message": HELD_MESSAGES}
"""A kind for every sort of question that one may want to see."""


def kind_of(offer: Offer) -> BaseKind:
    """The kind that reviews what is offered."""
    return BUILT_IN.get(offer.type, CUSTOM).suited(offer.context)


__all__ = ["BUILT_IN", "CUSTOM", "HELD_MESSAGES", "SAMPLES", "TOOL_CALLS", "BaseKind", "kind_of"]
