"""The rules of selections: known options, each once, within the limits."""

from collections.abc import Collection, Mapping
from typing import Any

from placet.cases.case import Offer
from placet.errors import InvalidSelection
from placet.reviews.answer import build_field_error, check_known, drop_empty, format_ids, read_ids, read_text
from placet.reviews.page_form import Pairs, find_picked, get_last_value
from placet.reviews.reason_presets import find_presets_key, read_presets, read_text_with_preset
from placet.reviews.review_type import ReviewType, omit_from_context
from placet.reviews.selection.declaration import SELECTION
from placet.reviews.selection.options import ADVISED, LIMIT_NAMES, Choice, find_recommended, read_choice
from placet.text.wording import message, plural_message

NO_OPTIONS = "context.options: is missing. The reviewer gets a text box that accepts anything."


class Selection(ReviewType):
    """One or more of several options."""

    declaration = SELECTION

    def read_context(self, context: Mapping[str, Any]) -> Choice:
        """Return the options and limits; raise ValidationFailed if nothing can be selected."""
        return read_choice(context)

    def list_warnings(self, context: Mapping[str, Any]) -> tuple[str, ...]:
        """Warn if there are no options, because then the reviewer can write anything."""
        return () if read_choice(context).options else (NO_OPTIONS,)

    def list_own_fields(self, offer: Offer, data: Mapping[str, Any]) -> Collection[str]:
        """Return the name of the selection in this data, and of the note."""
        return (_find_selection_key(data), "note")

    def validate_own(self, offer: Offer, action: str, own: Mapping[str, Any]) -> dict[str, Any]:
        """Return the selected ids under the name that was sent, which the service's schema describes."""
        valid = self.validate(offer, action, own)
        return {_find_selection_key(own): valid.pop("selected"), **valid}

    def validate(self, offer: Offer, action: str, data: Mapping[str, Any]) -> dict[str, Any]:
        """Return the selected ids under `selected`, also if sent as `selected_…`, and a note."""
        name = _find_selection_key(data)
        check_known(data, (name, "note"), InvalidSelection)
        choice = read_choice(offer.context)
        selected = read_ids(data.get(name, []), "selected", InvalidSelection)
        _check_selection(choice, selected)
        return {"selected": selected, **drop_empty(note=read_text(data, "note"))}

    def build_page_content(self, offer: Offer, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return the options with the current selection, the limits, and the other facts."""
        choice = read_choice(offer.context)
        picked = values.get("selected")
        selected = picked if isinstance(picked, list | tuple) else []
        ids = {identity for identity in selected if isinstance(identity, str)}
        advised, advised_name = find_recommended(offer.context, choice)
        return {
            "options": [
                {
                    "id": option.id,
                    "title": option.title,
                    "details": {**option.details, **ADVISED} if option.id in advised else option.details,
                    "picked": option.id in ids,
                }
                for option in choice.options
            ],
            "least": choice.least,
            "most": choice.most,
            "free": not choice.options,
            "typed": "\n".join(map(str, selected)),
            "presets": read_presets(offer.context),
            "facts": omit_from_context(
                offer.context, choice.source, find_presets_key(offer.context), advised_name, *LIMIT_NAMES
            ),
        }

    def form_data(self, offer: Offer, pairs: Pairs) -> dict[str, Any]:
        """Return the selected options, or one id per line if there are no options, and the note."""
        typed = (get_last_value(pairs, "selected_text") or "").split("\n")
        options = (option.id for option in read_choice(offer.context).options)
        selected = find_picked(pairs, "selected", options) or [line.strip() for line in typed if line.strip()]
        return {"selected": selected, **drop_empty(note=read_text_with_preset(offer.context, pairs, "note"))}

    def summarize_answer(self, offer: Offer, data: Mapping[str, Any]) -> list[tuple[str, Any]]:
        """Return the selected options by their titles, then the note."""
        titles = {option.id: option.title for option in read_choice(offer.context).options}
        picked = {
            name: [titles.get(one, one) if isinstance(one, str) else one for one in data[name]]
            for name in ("selected", "selected_ids")
            if isinstance(data.get(name), list | tuple)
        }
        return [(name, picked.get(name, part)) for name, part in data.items()]


def _find_selection_key(data: Mapping[str, Any]) -> str:
    lists = [
        name
        for name, value in data.items()
        if name == "selected" or (name.startswith("selected_") and isinstance(value, list | tuple))
    ]
    if len(lists) > 1:
        complaint = message("Name the selection once, not as {names}.", names=format_ids(lists))
        raise build_field_error("selected", complaint, InvalidSelection)
    return lists[0] if lists else "selected"


def _check_selection(choice: Choice, selected: list[str]) -> None:
    known = {option.id for option in choice.options}
    unknown = [picked for picked in selected if known and picked not in known]
    if unknown:
        complaint = message("These were not offered: {names}.", names=format_ids(unknown))
        raise build_field_error("selected", complaint, InvalidSelection, unknown=unknown[:10])
    if not choice.least <= len(selected) <= choice.most:
        raise build_field_error(
            "selected", _describe_limits(choice, len(selected)), InvalidSelection, selected=len(selected)
        )


def _describe_limits(choice: Choice, given: int) -> str:
    if choice.least == choice.most and (given or choice.most > 1):
        return plural_message(
            "Choose exactly one; you chose {given}.",
            "Choose exactly {count}; you chose {given}.",
            count=choice.most,
            given=given,
        )
    if given < choice.least:
        return plural_message(
            "Choose at least one.",
            "Choose at least {count}; you chose {given}.",
            count=choice.least,
            given=given,
        )
    return plural_message(
        "Choose at most one; you chose {given}.",
        "Choose at most {count}; you chose {given}.",
        count=choice.most,
        given=given,
    )


REVIEW_TYPE = Selection
