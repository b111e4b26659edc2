"""The rules of custom `x-…` types: the service declares the actions, and any data is valid."""

from collections.abc import Collection, Mapping
from typing import Any

from placet.cases.case import Offer
from placet.reviews.answer import drop_empty
from placet.reviews.custom.declaration import CUSTOM
from placet.reviews.page_form import Pairs
from placet.reviews.reason_presets import find_presets_key, read_presets, read_text_with_preset
from placet.reviews.review_type import ReviewType, omit_from_context


class Custom(ReviewType):
    """All custom types; one instance serves them all."""

    declaration = CUSTOM

    def requires_answer_to(self, type: str) -> bool:
        """Whether a missing answer to this custom type must never count as a yes."""
        return type in CUSTOM.names_requiring_answer

    def list_actions(self, offer: Offer) -> tuple[str, ...]:
        """Return the actions declared when the case was opened (ruling 7)."""
        return offer.actions

    def list_own_fields(self, offer: Offer, data: Mapping[str, Any]) -> Collection[str]:
        """Return the name of the page's field."""
        return ("note",)

    def validate(self, offer: Offer, action: str, data: Mapping[str, Any]) -> dict[str, Any]:
        """Return the data unchanged: any valid JSON object is accepted."""
        return dict(data)

    def build_page_content(self, offer: Offer, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return the context as facts, without the suggested reasons."""
        presets_key = find_presets_key(offer.context)
        return {
            "presets": read_presets(offer.context),
            "facts": omit_from_context(offer.context, presets_key),
        }

    def form_data(self, offer: Offer, pairs: Pairs) -> dict[str, Any]:
        """Return the note."""
        note = read_text_with_preset(offer.context, pairs, "note")
        return drop_empty(note=note if note and note.strip() else None)


REVIEW_TYPE = Custom
