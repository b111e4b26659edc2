"""The approval's rules: approve, ask for changes, or reject exactly what was shown."""

from collections.abc import Mapping
from typing import Any

from assent.cases.case import Offer
from assent.reviews.answer import check_known, kept, misfit, read_object, read_text
from assent.reviews.approval.example import EXAMPLE
from assent.reviews.base import BaseKind, without
from assent.reviews.listed import spelling
from assent.reviews.page_form import Pairs, plain_lines, survives_a_form, under
from assent.reviews.presets import presets_name, presets_of, with_preset

ARTIFACT_SPELLINGS = ("artifact", "draft", "content", "document", "preview")
LONGEST_EDITABLE = 50_000


class Approval(BaseKind):
    """Go or no go for an artifact, or a request for changes that leads to another round."""

    name = "approval"
    template = "approval/page.html"
    opening = EXAMPLE
    actions: tuple[str, ...] = ("approve", "edit", "reject")
    inline_actions: tuple[str, ...] = ("approve", "reject")  # ruling 8: changes need the page

    def judge(self, offer: Offer, action: str, data: Mapping[str, Any]) -> dict[str, Any]:
        """Feedback and edits; an edit needs one of them, and only an edit may carry edits."""
        check_known(data, ("feedback", "edits"))
        feedback, edits = read_text(data, "feedback"), read_object(data, "edits")
        if action == "edit" and not (feedback or edits):
            raise misfit("feedback", "Say what should change, or change it yourself.", missing=["edits"])
        if action != "edit" and edits:
            # An approval is bound to what was shown, so it cannot carry something else.
            raise misfit("edits", "You made changes; ask for changes to send them, or undo them.")
        return kept(feedback=feedback, edits=edits)

    def substance(self, offer: Offer, values: Mapping[str, Any]) -> dict[str, Any]:
        """The artifact, the parts of it that can be edited in place, and the other facts."""
        source, aside = spelling(offer.context, ARTIFACT_SPELLINGS), presets_name(offer.context)
        edits = values.get("edits")
        changed = edits if isinstance(edits, Mapping) else {}
        return {
            "artifact": offer.context[source] if source else without(offer.context, aside),
            "editable": [
                {"key": key, "value": text, "typed": changed.get(key, text)}
                for key, text in editable_parts(offer.context).items()
            ],
            "facts": without(offer.context, source, aside) if source else {},
            "presets": presets_of(offer.context),
        }

    def form_data(self, offer: Offer, pairs: Pairs) -> dict[str, Any]:
        """Feedback, and as edits the parts whose text is no longer what was shown."""
        typed, originals = under(pairs, "edit."), editable_parts(offer.context)
        edits = {
            key: typed[key] for key, text in originals.items() if typed.get(key, text) != plain_lines(text)
        }
        return kept(feedback=with_preset(offer.context, pairs, "feedback"), edits=edits)


def editable_parts(context: Mapping[str, Any]) -> dict[str, str]:
    """The artifact's texts that survive a page's form unchanged, by the key an edit names them with."""
    source = spelling(context, ARTIFACT_SPELLINGS)
    if source is None:
        return {}
    artifact = context[source]
    parts = artifact if isinstance(artifact, Mapping) else {source: artifact}
    texts = {key: text for key, text in parts.items() if isinstance(text, str)}
    if sum(map(len, texts.values())) > LONGEST_EDITABLE:
        return {}
    return {key: text for key, text in texts.items() if survives_a_form(text)}
