"""The rules of confirmations: which items must be confirmed, and the word to type if there is one."""

from collections.abc import Collection, Mapping
from typing import Any

from placet.cases.case import Offer
from placet.errors import BadRequest, InvalidSubmission, ValidationFailed
from placet.reviews.answer import build_field_error, check_known, drop_empty, format_ids, read_ids, read_text
from placet.reviews.confirmation.declaration import CONFIRMATION
from placet.reviews.entries import ListEntry, list_ids, read_entries
from placet.reviews.page_form import Pairs, find_picked, get_last_value
from placet.reviews.reason_presets import find_presets_key, read_presets, read_text_with_preset
from placet.reviews.review_type import ReviewType, omit_from_context
from placet.text.wording import message, plural_message

ITEM_SPELLINGS = ("items", "items_to_confirm")
SHOWN_SEPARATELY = ("allow_partial", "irreversible", "warning", "confirm_word")
MAX_WORD_LENGTH = 100
OWN_FIELDS = ("confirmed_items", "confirm_word", "note")


class Confirmation(ReviewType):
    """The last check before something that may be irreversible."""

    declaration = CONFIRMATION
    never_saved: frozenset[str] = frozenset({"confirm_word"})  # typing it is part of confirming

    def inline_for(self, context: Mapping[str, Any]) -> tuple[str, ...]:
        """Return both actions, or only cancel if a word must be typed on the page."""
        return ("cancel",) if read_confirm_word(context) else self.inline_actions

    def build_inline_data(self, offer: Offer, action: str) -> dict[str, Any]:
        """Return all items for confirm: a button confirms every item."""
        name = _find_items_key(offer.context) if action == "confirm" else None
        return {"confirmed_items": list_ids(offer.context, name)} if name else {}

    def read_context(self, context: Mapping[str, Any]) -> tuple[ListEntry, ...]:
        """Return the items; raise ValidationFailed for missing ids, an unusable word, or an invalid flag."""
        read_confirm_word(context)
        for flag in ("allow_partial", "irreversible"):
            if not isinstance(context.get(flag, False), bool):
                raise ValidationFailed(f"context.{flag} must be true or false.", path=f"context.{flag}")
        return read_items(context)

    def list_own_fields(self, offer: Offer, data: Mapping[str, Any]) -> Collection[str]:
        """Return the names of the type's fields."""
        return OWN_FIELDS

    def is_high_risk(self, offer: Offer) -> bool:
        """Return true: a confirmation is the last check before something happens."""
        return True

    def validate(self, offer: Offer, action: str, data: Mapping[str, Any]) -> dict[str, Any]:
        """Return the confirmed items and a note. The typed word is compared and not stored."""
        check_known(data, OWN_FIELDS)
        note = read_text(data, "note")
        if action == "cancel":
            return drop_empty(note=note)
        word_problem = _check_word(offer.context, data)
        try:
            confirmed = _read_confirmed_ids(offer.context, data)
        except BadRequest as refusal:
            refusal.details["fields"] |= word_problem.details["fields"] if word_problem else {}
            raise
        if word_problem:
            raise word_problem
        return drop_empty(confirmed_items=confirmed, note=note)

    def build_page_content(self, offer: Offer, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return the items with their checkboxes, the warning, the word to type, and the other facts."""
        context, ticked = offer.context, values.get("confirmed_items")
        confirmed = ticked if isinstance(ticked, list | tuple) else []
        return {
            "items": [
                {
                    "id": item.id,
                    "title": item.title,
                    "details": item.details,
                    "picked": item.id in confirmed,
                }
                for item in read_items(context)
            ],
            "partial": context.get("allow_partial", False),
            "irreversible": context.get("irreversible", False),
            "warning": context.get("warning"),
            "confirm_word": read_confirm_word(context),
            "presets": read_presets(context),
            "facts": omit_from_context(
                context, _find_items_key(context), find_presets_key(context), *SHOWN_SEPARATELY
            ),
        }

    def form_data(self, offer: Offer, pairs: Pairs) -> dict[str, Any]:
        """Return the ticked items, the typed word and the note."""
        items = [item.id for item in read_items(offer.context)]
        confirmed = find_picked(pairs, "confirmed_items", items) if items else None
        word = get_last_value(pairs, "confirm_word") if read_confirm_word(offer.context) else None
        note = read_text_with_preset(offer.context, pairs, "note")
        return drop_empty(confirmed_items=confirmed, confirm_word=word, note=note)

    def summarize_answer(self, offer: Offer, data: Mapping[str, Any]) -> list[tuple[str, Any]]:
        """Return the confirmed items by their titles, then the note."""
        titles = {item.id: item.title for item in read_items(offer.context)}
        named_by_title = {
            "confirmed_items": [titles.get(one, one) for one in data.get("confirmed_items", ())]
        }
        return [(name, named_by_title.get(name, part)) for name, part in data.items()]


def read_items(context: Mapping[str, Any]) -> tuple[ListEntry, ...]:
    """Return the items to confirm, if there are any; raise ValidationFailed if one has no id."""
    name = _find_items_key(context)
    return read_entries(context, name) if name else ()


def read_confirm_word(context: Mapping[str, Any]) -> str | None:
    """Return the word that must be typed, or None; raise ValidationFailed if it cannot be typed."""
    word = context.get("confirm_word")
    if word is None:
        return None
    typeable = isinstance(word, str) and word.isprintable() and word == word.strip() != ""
    if not typeable or len(word) > MAX_WORD_LENGTH:
        path = "context.confirm_word"
        raise ValidationFailed(
            f"{path} must be printable text of 1 to {MAX_WORD_LENGTH} characters.", path=path
        )
    return str(word)


def _find_items_key(context: Mapping[str, Any]) -> str | None:
    for name in ITEM_SPELLINGS:
        if isinstance(context.get(name), list | tuple):
            return name
    return None


def _read_confirmed_ids(context: Mapping[str, Any], data: Mapping[str, Any]) -> list[str] | None:
    name = _find_items_key(context)
    known = list_ids(context, name) if name else []
    given = data.get("confirmed_items")
    confirmed = [] if given is None else read_ids(given, "confirmed_items", InvalidSubmission)
    unknown = [item for item in confirmed if item not in known]
    if unknown:
        complaint = message("These were not offered: {names}.", names=format_ids(unknown))
        raise build_field_error("confirmed_items", complaint, unknown=unknown[:10])
    _check_complete(context, known, set(confirmed))
    return confirmed if known else None


def _check_complete(context: Mapping[str, Any], known: list[str], confirmed: set[str]) -> None:
    missing = [item for item in known if item not in confirmed]
    if not missing or (context.get("allow_partial") is True and confirmed):
        return
    complaint = (
        message("Tick at least one item to confirm.")
        if context.get("allow_partial") is True
        else plural_message(
            "Tick every item to confirm; one is not ticked yet.",
            "Tick every item to confirm; {count} are not ticked yet.",
            count=len(missing),
        )
    )
    raise build_field_error(
        "confirmed_items", complaint, names=f" Not confirmed: {format_ids(missing)}.", unconfirmed=missing
    )


def _check_word(context: Mapping[str, Any], data: Mapping[str, Any]) -> BadRequest | None:
    word = read_confirm_word(context)
    typed = (read_text(data, "confirm_word") or "").strip() if word else ""
    return build_field_error("confirm_word", _describe_word(word, typed)) if word and typed != word else None


def _describe_word(word: str, typed: str) -> str:
    if not typed:
        return message("Type “{word}” to confirm.", word=word)
    if typed.casefold() == word.casefold():
        return message("Capital and small letters count: type “{word}”.", word=word)
    return message("This is another word. Type “{word}”, exactly as it is shown here.", word=word)


REVIEW_TYPE = Confirmation
