"""How the actions of a case look as buttons: label, icon, and which of them are a yes."""

from typing import Literal

from msgspec import Struct

from placet.cases.action_labels import read_action_labels
from placet.cases.case import Offer
from placet.pages.content import display_forms
from placet.pages.language import Language
from placet.pages.page_texts import ACTIONS
from placet.reviews.registry import find_action, find_declaration
from placet.text.characters import keep_letters

Emphasis = Literal["yes", "also-yes", "no"]
"""The first affirmative action is filled, further ones have an accent, all others are outlined."""


class ActionButton(Struct, frozen=True, kw_only=True):
    """One action as a button."""

    action: str
    icon: str
    """The name of its icon; empty if the service does not say which actions are a yes."""
    tone: Emphasis
    label: str | None = None
    """The service's label, shown above our name of the action."""


def list_action_buttons(offer: Offer, language: Language) -> list[ActionButton]:
    """Return a button for each action of the offer, in its order."""
    labels = _list_labels(offer, language)
    yes = [action for action in offer.actions if is_affirmative(offer, action)]
    others = [action for action in offer.actions if action not in yes]
    return [
        ActionButton(
            action=action,
            icon=_choose_icon(offer, action, is_yes=action in yes, is_alone=len(others) == 1),
            tone="no" if action not in yes else "yes" if action == yes[0] else "also-yes",
            label=labels.get(action),
        )
        for action in offer.actions
    ]


def find_answer_icon(offer: Offer, action: str) -> str:
    """Return the icon of the action that was taken."""
    return _choose_icon(offer, action, is_yes=is_affirmative(offer, action), is_alone=True) or "check"


def is_affirmative(offer: Offer, action: str) -> bool:
    """Whether this action of the offer is a yes."""
    if offer.affirmative_actions:
        return action in offer.affirmative_actions
    declared = find_action(action)
    is_known = find_declaration(offer.type) is not None
    return declared is not None and declared.is_affirmative and (is_known or not declared.is_ambiguous)


def _choose_icon(offer: Offer, action: str, *, is_yes: bool, is_alone: bool) -> str:
    declared = find_action(action)
    if find_declaration(offer.type) is not None and declared is not None:
        return declared.icon
    if not offer.affirmative_actions:  # nothing says which of them is a yes
        return ""
    return "check" if is_yes else "cross" if is_alone else "other"


def _list_labels(offer: Offer, language: Language) -> dict[str, str]:
    """Return the service's labels of its actions; none if a label equals our name of another action."""
    labels = read_action_labels(offer.context)
    names = {action: ACTIONS.get(action) or display_forms.format_label(action) for action in offer.actions}
    taken = [
        (action, keep_letters(name)) for action, ours in names.items() for name in (ours, language.t(ours))
    ]
    if any(
        keep_letters(label) == name
        for said, label in labels.items()
        for action, name in taken
        if action != said
    ):
        return {}
    return labels
