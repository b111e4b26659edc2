"""The kinds of review, each in its own folder; no kind knows another."""

from collections.abc import Mapping

from assent.reviews.approval.kind import Approval
from assent.reviews.base import BaseKind
from assent.reviews.confirmation.kind import Confirmation
from assent.reviews.custom import Custom
from assent.reviews.escalation.kind import Escalation
from assent.reviews.input.kind import Input
from assent.reviews.selection.kind import Selection

BUILT_IN: Mapping[str, BaseKind] = {
    kind.name: kind for kind in (Approval(), Selection(), Input(), Confirmation(), Escalation())
}
CUSTOM: BaseKind = Custom()

__all__ = ["BUILT_IN", "CUSTOM", "BaseKind"]
