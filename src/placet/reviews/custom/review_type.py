"""Custom `x-…` types: their actions were declared when the case was opened, their data is theirs."""

from collections.abc import Mapping
from typing import Any

from placet.cases.case import Offer
from placet.reviews.answer import drop_empty
from placet.reviews.custom.declaration import CUSTOM
from placet.reviews.page_form import Pairs
from placet.reviews.reason_presets import presets_name, presets_of, with_preset
from placet.reviews.review_type import ReviewType, without


class Custom(ReviewType):
    """Any type of a service's own; one instance serves them all."""

    declaration = CUSTOM

    def offered(self, offer: Offer) -> tuple[str, ...]:
        """The actions declared when the case was opened (ruling 7)."""
        return offer.actions

    def judge(self, offer: Offer, action: str, data: Mapping[str, Any]) -> dict[str, Any]:
        """Whatever sound JSON object came."""
        return dict(data)

    def substance(self, offer: Offer, values: Mapping[str, Any]) -> dict[str, Any]:
        """The whole context as facts, but for the reasons it suggests."""
        aside = presets_name(offer.context)
        return {"presets": presets_of(offer.context), "facts": without(offer.context, aside)}

    def form_data(self, offer: Offer, pairs: Pairs) -> dict[str, Any]:
        """The note."""
        note = with_preset(offer.context, pairs, "note")
        return drop_empty(note=note if note and note.strip() else None)


REVIEW_TYPE = Custom
