"""The rules of approvals: approve, request changes, or reject exactly what was shown."""

from collections.abc import Collection, Mapping
from typing import Any

from placet.cases.case import Offer
from placet.reviews.answer import build_field_error, check_known, drop_empty, read_object, read_text
from placet.reviews.approval.declaration import APPROVAL
from placet.reviews.approval.parts import Part, Parts, find_parts, list_editable_fields
from placet.reviews.entries import find_spelling
from placet.reviews.form_post import PostResult
from placet.reviews.page_form import Pairs, format_value, get_values_under, read_grouping
from placet.reviews.reason_presets import find_presets_key, read_presets, read_text_with_preset
from placet.reviews.review_type import ReviewType, omit_from_context
from placet.text.wording import message

ARTIFACT_SPELLINGS = ("artifact", "draft", "content", "document", "preview")
PREVIEW, UNDO = "x-preview", "x-undo"
NO_NUMBER = message("Type a number here, with a point before decimals.")
OWN_FIELDS = ("feedback", "edits")


class Approval(ReviewType):
    """Approves or rejects an artifact, or requests changes that lead to another round."""

    declaration = APPROVAL

    def list_own_fields(self, offer: Offer, data: Mapping[str, Any]) -> Collection[str]:
        """Return the names of the type's fields."""
        return OWN_FIELDS

    def validate(self, offer: Offer, action: str, data: Mapping[str, Any]) -> dict[str, Any]:
        """Return feedback and edits. The edit action requires one of them; the others allow no edits."""
        check_known(data, OWN_FIELDS)
        feedback, edits = read_text(data, "feedback"), read_object(data, "edits")
        if action == "edit" and not (feedback or edits):
            complaint = message("Say what should change, or change it yourself.")
            raise build_field_error("feedback", complaint, missing=["edits"])
        if action != "edit" and edits:
            # An approval is bound to what was shown, so it cannot carry something else.
            raise build_field_error(
                "edits", message("You made changes; ask for changes to send them, or undo them.")
            )
        return drop_empty(feedback=feedback, edits=edits)

    def handle_post(self, offer: Offer, move: str, pairs: Pairs, saved: Mapping[str, Any]) -> PostResult:
        """Answer, preview the changes, or undo them. A value that is not a number is a problem."""
        values = self.form_data(offer, pairs)
        if move == UNDO:
            values.pop("edits", None)
        misread = any(
            field["problem"] for field in _build_field_views(self._find_editable_parts(offer), values)
        )
        return PostResult(
            values=values,
            ready=move not in (PREVIEW, UNDO) and not misread,
            problems={"edits": NO_NUMBER} if misread else {},
        )

    def build_page_content(self, offer: Offer, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return the artifact, its editable parts, and the other facts."""
        source, presets_key = (
            find_spelling(offer.context, ARTIFACT_SPELLINGS),
            find_presets_key(offer.context),
        )
        parts = self._find_editable_parts(offer)
        return {
            "artifact": offer.context[source] if source else omit_from_context(offer.context, presets_key),
            "editable": _build_field_views(parts, values),
            "wholly": parts.complete,
            "facts": omit_from_context(offer.context, source, presets_key) if source else {},
            "presets": read_presets(offer.context),
        }

    def build_decided_content(self, offer: Offer) -> dict[str, Any]:
        """Return what the page showed."""
        return self.build_page_content(offer, {})

    def form_data(self, offer: Offer, pairs: Pairs) -> dict[str, Any]:
        """Return the feedback, and the changed parts as edits."""
        feedback = read_text_with_preset(offer.context, pairs, "feedback")
        edits = self._find_editable_parts(offer).collect_edits(
            get_values_under(pairs, "edit."), read_grouping(pairs)
        )
        return drop_empty(feedback=feedback, edits=edits)

    def extract_comparable(self, offer: Offer) -> dict[str, Any]:
        """Return the artifact's fields and the other facts."""
        facts = super().extract_comparable(offer)
        source = find_spelling(facts, ARTIFACT_SPELLINGS)
        artifact = facts.get(source) if source else None
        others = omit_from_context(facts, source)
        if not isinstance(artifact, Mapping) or artifact.keys() & others.keys():
            return facts
        return {**artifact, **others}

    def list_original_values(self, offer: Offer) -> Mapping[str, Mapping[str, Any]]:
        """Return the fields of the artifact, which edits change."""
        source = find_spelling(offer.context, ARTIFACT_SPELLINGS)
        return {"edits": list_editable_fields(source, offer.context[source])} if source else {}

    def _find_editable_parts(self, offer: Offer) -> Parts:
        """Return the editable parts; none if the offer does not allow the edit action."""
        source = find_spelling(offer.context, ARTIFACT_SPELLINGS)
        if source is None or "edit" not in self.list_actions(offer):
            return Parts()
        return find_parts(source, offer.context[source])


def _build_field_views(parts: Parts, values: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [_build_field_view(part, parts.find_value(part, values.get("edits"))) for part in parts.parts]


def _build_field_view(part: Part, value: Any) -> dict[str, Any]:
    problem = NO_NUMBER if part.is_not_a_number(value) else None
    return {
        "name": part.name,
        "path": part.path,
        "value": part.value,
        "now": value,
        "original": format_value(part.value),
        "typed": format_value(value),
        "changed": value != part.value,
        "problem": problem,
    }


REVIEW_TYPE = Approval
