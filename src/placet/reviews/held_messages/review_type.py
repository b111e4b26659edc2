"""The rules of held messages: the message is forwarded unchanged, or not at all."""

from collections.abc import Mapping
from typing import Any

from placet.cases.case import Offer
from placet.reviews.answer import check_known, drop_empty, read_text
from placet.reviews.held_messages.declaration import HELD_MESSAGES
from placet.reviews.held_messages.message_context import (
    FIELD,
    Excerpt,
    HeldMessageContext,
    HeldText,
    read_held_message,
    split_at_marks,
)
from placet.reviews.page_form import Pairs, get_last_value
from placet.reviews.review_type import ReviewType, omit_from_context


class HeldMessages(ReviewType):
    """An approval whose context holds a message that a relay holds."""

    declaration = HELD_MESSAGES

    def recognises(self, context: Mapping[str, Any]) -> bool:
        """Whether the context has a held message, valid or not."""
        return FIELD in context

    def read_context(self, context: Mapping[str, Any]) -> HeldMessageContext:
        """Return the held message; raise ValidationFailed if it is not valid."""
        return read_held_message(context)

    def validate(self, offer: Offer, action: str, data: Mapping[str, Any]) -> dict[str, Any]:
        """Return the reviewer's message: the answer if the agent asked for input, else a note."""
        check_known(data, ("message",))
        return drop_empty(message=read_text(data, "message"))

    def build_page_content(self, offer: Offer, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return the message, and its texts split at the findings."""
        held = read_held_message(offer.context)
        texts = [
            {
                "path": text.path,
                "left_out": text.left_out,
                "excerpts": [_build_excerpt_view(one, text, held) for one in text.excerpts],
            }
            for text in held.texts
        ]
        return {
            "held": held,
            "texts": texts,
            "asks": held.matter == "input",
            "facts": omit_from_context(offer.context, FIELD),
        }

    def form_data(self, offer: Offer, pairs: Pairs) -> dict[str, Any]:
        """Return the reviewer's message."""
        said = get_last_value(pairs, "message")
        return drop_empty(message=said if said and said.strip() else None)

    def find_outcome(self, offer: Offer, action: str) -> str:
        """Return `submit` if the reviewer answered an agent that asked for input, else the action."""
        asked = read_held_message(offer.context).matter == "input"
        return "submit" if asked and action == "approve" else action

    def extract_comparable(self, offer: Offer) -> dict[str, Any]:
        """Return the texts by path."""
        return {
            text.path: "\n…\n".join(one.text for one in text.excerpts)
            for text in read_held_message(offer.context).texts
        }


def _build_excerpt_view(excerpt: Excerpt, text: HeldText, held: HeldMessageContext) -> dict[str, Any]:
    end = excerpt.at + len(excerpt.text)
    return {
        "segments": split_at_marks(excerpt, held.policy),
        "first": excerpt.at == 0,
        "last": end >= text.length,
    }


REVIEW_TYPE = HeldMessages
