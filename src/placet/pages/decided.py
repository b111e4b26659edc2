"""What the page of a closed case shows of the question, and the answer at a glance."""

from msgspec.structs import replace

from placet.cases.case import Offer
from placet.pages.action_buttons import find_answer_icon, is_affirmative
from placet.pages.view import DecidedContent, drop_undo_fields
from placet.reviews.review_type import ReviewType


def describe_decided(rules: ReviewType, offer: Offer, action: str | None) -> DecidedContent:
    """Return what was shown, and the icon and tone of the action that was taken."""
    return DecidedContent(
        template=rules.declaration.decided_template,
        substance=rules.build_decided_content(replace(offer, context=drop_undo_fields(offer.context))),
        icon=find_answer_icon(offer, action) if action else "clock",
        is_affirmative=action is not None and is_affirmative(offer, action),
    )
