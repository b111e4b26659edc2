"""The rules of ratings: something is rated, and it gets one to five stars."""

from collections.abc import Mapping
from typing import Any

from placet.cases.case import Offer
from placet.errors import ValidationFailed
from placet.reviews.answer import build_field_error, check_known
from placet.reviews.page_form import Pairs, get_last_value
from placet.reviews.review_type import ReviewType
from placet.text.wording import message
from tests.reviews.rating.declaration import RATING


class Rating(ReviewType):
    """Stars for a subject."""

    declaration = RATING

    def read_context(self, context: Mapping[str, Any]) -> str:
        subject = context.get("subject")
        if not isinstance(subject, str) or not subject:
            raise ValidationFailed("context.subject must say what is rated.", path="context.subject")
        return subject

    def validate(self, offer: Offer, action: str, data: Mapping[str, Any]) -> dict[str, Any]:
        check_known(data, ("stars",))
        if action == "abstain":
            return {}
        if data.get("stars") not in range(1, 6):
            raise build_field_error("stars", message("Give 1 to 5 stars."))
        return {"stars": data["stars"]}

    def build_page_content(self, offer: Offer, values: Mapping[str, Any]) -> dict[str, Any]:
        return {"subject": self.read_context(offer.context), "facts": {}}

    def form_data(self, offer: Offer, pairs: Pairs) -> dict[str, Any]:
        typed = get_last_value(pairs, "stars") or ""
        return {"stars": int(typed) if typed.isdecimal() else typed}


REVIEW_TYPE = Rating
