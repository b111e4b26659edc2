"""What all review types do alike: refuse unknown actions and unsound data before they judge."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from copy import deepcopy
from typing import Any, ClassVar

from placet.cases import action_labels
from placet.cases.case import Offer
from placet.errors import InvalidAction, InvalidSubmission
from placet.protocol.conversion import quote
from placet.reviews.declaration import TypeDeclaration
from placet.reviews.form_post import PostResult
from placet.reviews.limits import check_data, find_unstorable
from placet.reviews.page_form import Pairs
from placet.reviews.reason_presets import find_presets_key
from placet.text.wording import Message, message


class ReviewType(ABC):
    """The rules of a review type: subclasses say what they need and which answers fit."""

    declaration: ClassVar[TypeDeclaration]
    name: str
    template: str
    actions: tuple[str, ...]
    inline_actions: tuple[str, ...]
    requires_answer: bool
    entry_point: str
    never_saved: frozenset[str] = frozenset()
    """The fields that are not saved while a person fills in the page."""
    reads_form: bool = False
    """Whether `prepare` checks `context.form` itself."""
    offers_grants: bool = False
    """Whether an answer on the page may pre-approve further calls."""

    def __init_subclass__(cls) -> None:
        """Take over what the declaration says."""
        declared = cls.__dict__.get("declaration")
        if declared is not None:
            cls.name, cls.template, cls.entry_point = declared.type, declared.template, declared.entry_point
            cls.actions, cls.inline_actions = declared.action_names, declared.inline_actions
            cls.requires_answer = declared.requires_answer

    def __init__(self, *variants: "ReviewType") -> None:
        """`variants` have the same type and take over the contexts that they recognise."""
        self._variants = variants

    def variant_for(self, context: Mapping[str, Any]) -> "ReviewType":
        """Return the variant that recognises this context, else this type itself."""
        return next((one for one in self._variants if one.recognises(context)), self)

    def recognises(self, context: Mapping[str, Any]) -> bool:
        """Whether this variant is made for this context; only variants are asked."""
        return False

    def inline_for(self, context: Mapping[str, Any]) -> tuple[str, ...]:
        """The actions that may be taken inline for this context."""
        return self.inline_actions

    def prepare(self, context: dict[str, Any]) -> dict[str, Any]:
        """The context as it will be offered; raises ValidationFailed or InvalidForm if it cannot be asked."""
        self.read_context(context)
        return context

    def read_context(self, context: Mapping[str, Any]) -> object:
        """Read what the kind needs from the context; raises as `prepare` does."""
        return None

    def build_inline_data(self, offer: Offer, action: str) -> dict[str, Any]:
        """The data that a bare press of this action's button stands for; nothing, for most kinds."""
        return {}

    def check(self, offer: Offer, action: str, data: Mapping[str, Any]) -> dict[str, Any]:
        """The answer's data as it will be kept; raises a BadRequest that names what does not fit."""
        offered = self.list_actions(offer)
        if action not in offered:
            raise InvalidAction(_describe_offered(action, offered))
        try:
            check_data(data, "data", InvalidSubmission)
        except InvalidSubmission as refusal:
            refusal.details |= {"fields": wrong} if (wrong := find_unstorable(data)) else {}
            raise
        return self.validate(offer, action, data)

    def list_actions(self, offer: Offer) -> tuple[str, ...]:
        """The actions this offer leaves open."""
        if not offer.actions:
            return self.actions
        if offer.actions == self.actions:
            return self.actions
        return tuple(action for action in self.actions if action in offer.actions)

    def handle_post(self, offer: Offer, move: str, pairs: Pairs, saved: Mapping[str, Any]) -> PostResult:
        """What one post of the page's form comes to; `saved` is what earlier posts left."""
        return PostResult(values=self.form_data(offer, pairs), ready=True)

    def read_draft(self, offer: Offer, pairs: Pairs, saved: Mapping[str, Any]) -> PostResult:
        """What to keep of a form that is still being filled in; `saved` is what earlier posts left."""
        typed = self.form_data(offer, pairs)
        return PostResult(
            values={key: typed[key] for key in typed if key not in self.never_saved}, ready=False
        )

    def find_step(self, offer: Offer, values: Mapping[str, Any], step: int) -> int | None:
        """Which step to show when this one is asked for; None where a page has no steps."""
        return None

    def find_outcome(self, offer: Offer, action: str) -> str:
        """The name under which the pages have words for what became of it."""
        return action

    def extract_comparable(self, offer: Offer) -> dict[str, Any]:
        """What a person is shown, for comparing one round of a chain with the next."""
        return context_without(offer.context, find_presets_key(offer.context))

    def summarize_answer(self, offer: Offer, data: Mapping[str, Any]) -> list[tuple[str, Any]]:
        """The answer's data for a person to read: each part by its name, nothing sensitive in it."""
        return list(data.items())

    def list_original_values(self, offer: Offer) -> Mapping[str, Mapping[str, Any]]:
        """By its name, what a part of an answer would change: the values that were shown."""
        return {}

    @abstractmethod
    def validate(self, offer: Offer, action: str, data: Mapping[str, Any]) -> dict[str, Any]:
        """The kind's own rules, on data that is sound JSON and an action that is offered."""

    @abstractmethod
    def build_page_content(self, offer: Offer, values: Mapping[str, Any]) -> dict[str, Any]:
        """What the kind's page template shows, with what was typed so far in its places."""

    @abstractmethod
    def form_data(self, offer: Offer, pairs: Pairs) -> dict[str, Any]:
        """The data that a post of the page's form means; names it does not know are left aside."""

    def example(self) -> dict[str, Any]:
        """A body for opening a case of this type, yours to change."""
        return deepcopy(dict(self.declaration.example))


def _describe_offered(action: object, offered: tuple[str, ...]) -> Message:
    return message(
        "This case does not offer {action}; it offers {choices}.",
        action=repr(quote(str(action))),
        choices=", ".join(offered),
    )


def context_without(context: Mapping[str, Any], *taken: str | None) -> dict[str, Any]:
    """The facts of a context that the page does not show in a place of their own."""
    set_apart = {*taken, action_labels.NAME if action_labels.action_labels(context) else None}
    return {name: value for name, value in context.items() if name not in set_apart}
