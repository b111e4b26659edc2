"""The rules of the rating: any number of stars."""

from collections.abc import Mapping
from typing import Any

from placet.cases.case import Offer
from placet.reviews.page_form import Pairs
from placet.reviews.review_type import ReviewType
from tests.reviews.rating.declaration import RATING


class Rating(ReviewType):
    """Stars for a subject."""

    declaration = RATING

    def validate(self, offer: Offer, action: str, data: Mapping[str, Any]) -> dict[str, Any]:
        return dict(data)

    def build_page_content(self, offer: Offer, values: Mapping[str, Any]) -> dict[str, Any]:
        return {"presets": [], "facts": dict(offer.context)}

    def form_data(self, offer: Offer, pairs: Pairs) -> dict[str, Any]:
        return {}


REVIEW_TYPE = Rating
