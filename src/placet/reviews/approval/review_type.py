"""The approval's rules: approve, ask for changes, or reject exactly what was shown."""

from collections.abc import Mapping
from typing import Any

from placet.cases.case import Offer
from placet.reviews.answer import build_field_error, check_known, drop_empty, read_object, read_text
from placet.reviews.approval.declaration import APPROVAL
from placet.reviews.approval.parts import Part, Parts, fields_of, parts_of
from placet.reviews.entries import spelling
from placet.reviews.form_post import Turn
from placet.reviews.page_form import Pairs, format_value, grouping, under
from placet.reviews.reason_presets import presets_name, presets_of, with_preset
from placet.reviews.review_type import ReviewType, without
from placet.text.wording import message

ARTIFACT_SPELLINGS = ("artifact", "draft", "content", "document", "preview")
PREVIEW, UNDO = "x-preview", "x-undo"
NO_NUMBER = message("Type a number here, with a point before decimals.")


class Approval(ReviewType):
    """Go or no go for an artifact, or a request for changes that leads to another round."""

    declaration = APPROVAL

    def judge(self, offer: Offer, action: str, data: Mapping[str, Any]) -> dict[str, Any]:
        """Feedback and edits; an edit needs one of them, and only an edit may carry edits."""
        check_known(data, ("feedback", "edits"))
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

    def turn(self, offer: Offer, move: str, pairs: Pairs, saved: Mapping[str, Any]) -> Turn:
        """An answer, a look at one's own changes, or all of them undone; no number is guessed."""
        values = self.form_data(offer, pairs)
        if move == UNDO:
            values.pop("edits", None)
        misread = any(field["problem"] for field in _fields(self._parts(offer), values))
        return Turn(
            values=values,
            ready=move not in (PREVIEW, UNDO) and not misread,
            problems={"edits": NO_NUMBER} if misread else {},
        )

    def substance(self, offer: Offer, values: Mapping[str, Any]) -> dict[str, Any]:
        """The artifact, the parts of it that can be edited in place, and the other facts."""
        source, aside = spelling(offer.context, ARTIFACT_SPELLINGS), presets_name(offer.context)
        parts = self._parts(offer)
        return {
            "artifact": offer.context[source] if source else without(offer.context, aside),
            "editable": _fields(parts, values),
            "wholly": parts.complete,
            "facts": without(offer.context, source, aside) if source else {},
            "presets": presets_of(offer.context),
        }

    def form_data(self, offer: Offer, pairs: Pairs) -> dict[str, Any]:
        """Feedback, and as edits the parts that are no longer what was shown."""
        feedback = with_preset(offer.context, pairs, "feedback")
        edits = self._parts(offer).edits(under(pairs, "edit."), grouping(pairs))
        return drop_empty(feedback=feedback, edits=edits)

    def comparable(self, offer: Offer) -> dict[str, Any]:
        """The artifact's fields beside the other facts."""
        facts = super().comparable(offer)
        source = spelling(facts, ARTIFACT_SPELLINGS)
        artifact = facts.get(source) if source else None
        others = without(facts, source)
        if not isinstance(artifact, Mapping) or artifact.keys() & others.keys():
            return facts
        return {**artifact, **others}

    def replaced(self, offer: Offer) -> Mapping[str, Mapping[str, Any]]:
        """Edits change fields of the artifact."""
        source = spelling(offer.context, ARTIFACT_SPELLINGS)
        return {"edits": fields_of(source, offer.context[source])} if source else {}

    def _parts(self, offer: Offer) -> Parts:
        """What may be edited: nothing where nobody could ask for changes."""
        source = spelling(offer.context, ARTIFACT_SPELLINGS)
        if source is None or "edit" not in self.offered(offer):
            return Parts()
        return parts_of(source, offer.context[source])


def _fields(parts: Parts, values: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [_field(part, parts.typed(part, values.get("edits"))) for part in parts.parts]


def _field(part: Part, value: Any) -> dict[str, Any]:
    problem = NO_NUMBER if part.misread(value) else None
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
