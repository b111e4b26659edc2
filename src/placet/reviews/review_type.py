"""The base class of all review types."""

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from copy import deepcopy
from typing import Any, ClassVar

from placet.cases import action_labels
from placet.cases.call_receipt import CallExecution, CallReceipt
from placet.cases.case import Offer
from placet.errors import InvalidAction, InvalidSubmission
from placet.protocol.conversion import quote
from placet.reviews.answer_limits import check_data, find_unstorable
from placet.reviews.custom_actions import list_affirmative_actions
from placet.reviews.declaration import TypeDeclaration
from placet.reviews.form_post import PostResult
from placet.reviews.page_form import Pairs
from placet.reviews.reason_presets import find_presets_key
from placet.reviews.result_schema import check_fits, check_schema
from placet.text.wording import Message, message


class ReviewType(ABC):
    """The rules of a review type: which contexts and answers are valid, and what its page shows."""

    declaration: ClassVar[TypeDeclaration]
    name: str
    template: str
    actions: tuple[str, ...]
    inline_actions: tuple[str, ...]
    requires_answer: bool
    entry_point: str = "service"
    reserved_field: str | None = None
    never_saved: frozenset[str] = frozenset()
    """The fields that are not saved while the reviewer fills in the page."""
    reads_form: bool = False
    """Whether `prepare` checks `context.form` itself."""
    takes_result_schema: bool = True
    """Whether a service may declare further data of answers; not where an answer must have one exact form."""
    takes_custom_actions: bool = False
    """Whether a case may declare actions beyond those of the type."""
    offers_grants: bool = False
    """Whether an answer on the page may pre-approve further calls."""

    def __init_subclass__(cls) -> None:
        """Copy the attributes of the declaration."""
        declared = cls.__dict__.get("declaration")
        if declared is not None:
            cls.name, cls.template, cls.entry_point = declared.type, declared.template, declared.entry_point
            cls.actions, cls.inline_actions = declared.action_names, declared.inline_actions
            cls.requires_answer = declared.requires_answer
            cls.takes_custom_actions = declared.takes_custom_actions
            cls.reserved_field = declared.name if declared.is_reserved else None

    def __init__(self, *variants: "ReviewType") -> None:
        """Create the rules. `variants` have the same type and handle the contexts that they recognise."""
        self._variants = variants

    def requires_answer_to(self, type: str) -> bool:
        """Whether a missing answer to a case of this type must never count as a yes."""
        return self.requires_answer

    def variant_for(self, context: Mapping[str, Any]) -> "ReviewType":
        """Return the variant that recognises this context, else this type itself."""
        return next((one for one in self._variants if one.recognises(context)), self)

    def recognises(self, context: Mapping[str, Any]) -> bool:
        """Whether this variant handles this context. Called for variants only."""
        return False

    def inline_for(self, context: Mapping[str, Any]) -> tuple[str, ...]:
        """Return the actions that can be taken inline for this context."""
        return self.inline_actions

    def list_inline_actions(self, offer: Offer) -> tuple[str, ...]:
        """Return the actions that can be taken inline if the service chose none."""
        return self.inline_for(offer.context)

    def list_affirmative_actions(self, actions: Sequence[str], affirmative: Sequence[str]) -> tuple[str, ...]:
        """Return which of a case's declared actions are a yes; raise ValidationFailed if one is not valid."""
        if not self.takes_custom_actions:
            return tuple(affirmative)
        return list_affirmative_actions(self.declaration, actions, affirmative)

    def prepare(self, context: dict[str, Any]) -> dict[str, Any]:
        """Return the context for the offer; raise ValidationFailed or InvalidForm if it is not valid."""
        self.read_context(context)
        return context

    def list_call_ids(self, context: Mapping[str, Any]) -> tuple[str, ...]:
        """Return the ids of the calls about which the agent may send receipts; none for most types."""
        return ()

    def list_schemas(self, context: Mapping[str, Any]) -> tuple[tuple[str, Mapping[str, Any]], ...]:
        """Return the schemas in a valid context that somebody else wrote, each with its path."""
        return ()

    def check_schema(self, path: str, schema: Mapping[str, Any]) -> None:
        """Raise ValidationFailed if one of them, or a `result_schema`, cannot be used."""
        check_schema(path, schema)

    def list_warnings(self, context: Mapping[str, Any]) -> tuple[str, ...]:
        """Return what the service should know about a valid context, in sentences; nothing for most types."""
        return ()

    def read_context(self, context: Mapping[str, Any]) -> object:
        """Read what the type needs from the context; raise as `prepare` does."""
        return None

    def build_inline_data(self, offer: Offer, action: str) -> dict[str, Any]:
        """Return the data that an inline answer with this action implies; empty for most types."""
        return {}

    def evaluates_schema(self, offer: Offer, data: Mapping[str, Any]) -> bool:
        """Whether `check` evaluates a schema that somebody else wrote, for this data."""
        return offer.result_schema is not None and bool(self._list_further(offer, data))

    def post_evaluates_schema(self, offer: Offer, move: str, pairs: Pairs) -> bool:
        """Whether `handle_post` evaluates a schema that somebody else wrote, for this POST."""
        return False

    def check(self, offer: Offer, action: str, data: Mapping[str, Any]) -> dict[str, Any]:
        """Return the answer's data as it will be stored; raise a BadRequest that names what is wrong."""
        offered = self.list_actions(offer)
        if action not in offered:
            raise InvalidAction(_describe_offered(action, offered))
        try:
            check_data(data, "data", InvalidSubmission)
        except InvalidSubmission as refusal:
            if not (wrong := find_unstorable(data)):
                raise
            raise InvalidSubmission(refusal.message, **{**refusal.details, "fields": wrong}) from None
        further = self._list_further(offer, data) if offer.result_schema is not None else {}
        if offer.result_schema is None or not further:
            return self.validate(offer, action, data)
        check_fits(offer.result_schema, data)
        own = {name: value for name, value in data.items() if name not in further}
        return {**(self.validate_own(offer, action, own) if own else {}), **further}

    def _list_further(self, offer: Offer, data: Mapping[str, Any]) -> dict[str, Any]:
        """Return the data under names that are not the type's own."""
        own = self.list_own_fields(offer, data)
        return {name: value for name, value in data.items() if name not in own}

    def list_own_fields(self, offer: Offer, data: Mapping[str, Any]) -> Collection[str]:
        """Return the names under which the type itself takes data; `result_schema` may allow others."""
        return data.keys()

    def validate_own(self, offer: Offer, action: str, own: Mapping[str, Any]) -> dict[str, Any]:
        """Return the type's own part of data that fits a `result_schema`, under the names that were sent."""
        return self.validate(offer, action, own)

    def is_high_risk(self, offer: Offer) -> bool:
        """Whether a person must not decide this in a frame, where another site can cover the page."""
        context = offer.context
        is_final = context.get("irreversible") is True or context.get("reversible") is False
        return is_final or offer.four_eyes or offer.verification_policy is not None

    def list_actions(self, offer: Offer) -> tuple[str, ...]:
        """Return the actions that this offer allows."""
        if not offer.actions:
            return self.actions
        if offer.actions == self.actions:
            return self.actions
        if self.takes_custom_actions:
            return offer.actions
        return tuple(action for action in self.actions if action in offer.actions)

    def handle_post(self, offer: Offer, move: str, pairs: Pairs, saved: Mapping[str, Any]) -> PostResult:
        """Return the result of one POST of the page's form; `saved` are the values of earlier ones."""
        return PostResult(values=self.form_data(offer, pairs), ready=True)

    def read_draft(self, offer: Offer, pairs: Pairs, saved: Mapping[str, Any]) -> PostResult:
        """Return what to save of an unfinished form; `saved` are the values of earlier POSTs."""
        typed = self.form_data(offer, pairs)
        return PostResult(
            values={key: typed[key] for key in typed if key not in self.never_saved}, ready=False
        )

    def find_step(self, offer: Offer, values: Mapping[str, Any], step: int) -> int | None:
        """Return the step to show if `step` is requested, or None if the page has no steps."""
        return None

    def find_outcome(self, offer: Offer, action: str) -> str:
        """Return the name of the outcome that the pages describe after this action."""
        return action

    def build_list_note(self, offer: Offer) -> tuple[str, ...]:
        """Return short texts that distinguish the case from others with its prompt; none for most types."""
        return ()

    def extract_comparable(self, offer: Offer) -> dict[str, Any]:
        """Return the values that are compared between one round and the next."""
        return omit_from_context(offer.context, find_presets_key(offer.context))

    def summarize_answer(self, offer: Offer, data: Mapping[str, Any]) -> list[tuple[str, Any]]:
        """Return the answer's data for display, as pairs of name and value, with sensitive values masked."""
        return list(data.items())

    def list_executions(
        self, offer: Offer, data: Mapping[str, Any], receipts: Sequence[CallReceipt]
    ) -> tuple[CallExecution, ...]:
        """Return what became of the calls of a decided case; none for most types."""
        return ()

    def list_original_values(self, offer: Offer) -> Mapping[str, Mapping[str, Any]]:
        """Return the values that were shown, under the name of the answer's part that changes them."""
        return {}

    @abstractmethod
    def validate(self, offer: Offer, action: str, data: Mapping[str, Any]) -> dict[str, Any]:
        """Apply the type's own rules to valid JSON data and an allowed action; return the data to store."""

    @abstractmethod
    def build_page_content(self, offer: Offer, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return the values for the type's page template, including what was entered so far."""

    def build_decided_content(self, offer: Offer) -> dict[str, Any]:
        """Return the values for `declaration.decided_template`: what the decision was about."""
        return {"facts": self.extract_comparable(offer)}

    @abstractmethod
    def form_data(self, offer: Offer, pairs: Pairs) -> dict[str, Any]:
        """Return the data of a POST of the page's form, ignoring unknown names."""

    def example(self) -> dict[str, Any]:
        """Return a new copy of the body that opens a sample case of this type."""
        return deepcopy(dict(self.declaration.example))


def _describe_offered(action: object, offered: tuple[str, ...]) -> Message:
    return message(
        "This case does not offer {action}; it offers {choices}.",
        action=repr(quote(str(action))),
        choices=", ".join(offered),
    )


def omit_from_context(context: Mapping[str, Any], *taken: str | None) -> dict[str, Any]:
    """Return the context without `taken` and the action labels, which the page shows elsewhere."""
    excluded = {*taken, action_labels.NAME if action_labels.read_action_labels(context) else None}
    return {name: value for name, value in context.items() if name not in excluded}
