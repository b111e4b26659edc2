"""The rules of a review type, as the desk uses them."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from placet.cases.case import Offer


class ReviewRules(Protocol):
    """The rules of one review type: its actions, valid contexts and valid answers. Pure."""

    name: str
    actions: tuple[str, ...]
    inline_actions: tuple[str, ...]
    entry_point: str
    """The entry point that usually creates the type's cases."""
    reserved_field: str | None
    """The field of the context that only this entry point may send; None if the type is open to all."""
    reads_form: bool
    """Whether `prepare` checks `context.form` itself."""
    takes_result_schema: bool
    """Whether a service may declare further data of answers."""
    takes_custom_actions: bool
    """Whether a case may declare actions beyond those of the type."""
    offers_grants: bool
    """Whether an answer on the page may pre-approve further calls."""

    def requires_answer_to(self, type: str) -> bool:
        """Whether a missing answer to a case of this type must never count as a yes."""
        ...

    def variant_for(self, context: Mapping[str, Any]) -> "ReviewRules":
        """Return the variant of this type for this context; usually the type itself."""
        ...

    def inline_for(self, context: Mapping[str, Any]) -> tuple[str, ...]:
        """Return the actions that a button can take for this context, a subset of `inline_actions`."""
        ...

    def list_inline_actions(self, offer: Offer) -> tuple[str, ...]:
        """Return the actions that a button can take if the service chose none."""
        ...

    def list_affirmative_actions(self, actions: Sequence[str], affirmative: Sequence[str]) -> tuple[str, ...]:
        """Return which of a case's declared actions are a yes; raise ValidationFailed if one is not valid."""
        ...

    def prepare(self, context: dict[str, Any]) -> dict[str, Any]:
        """Return the context for the offer; raise ValidationFailed or InvalidForm if it is not valid."""
        ...

    def list_schemas(self, context: Mapping[str, Any]) -> tuple[tuple[str, Mapping[str, Any]], ...]:
        """Return the schemas in a valid context that somebody else wrote, each with its path."""
        ...

    def check_schema(self, path: str, schema: Mapping[str, Any]) -> None:
        """Raise ValidationFailed if one of them cannot be used. This may take long for a hostile one."""
        ...

    def list_warnings(self, context: Mapping[str, Any]) -> tuple[str, ...]:
        """Return what the service should know about a valid context, in sentences."""
        ...

    def build_inline_data(self, offer: Offer, action: str) -> dict[str, Any]:
        """Return the data that an inline answer with this action implies, such as all items confirmed."""
        ...

    def evaluates_schema(self, offer: Offer, data: Mapping[str, Any]) -> bool:
        """Whether `check` evaluates a schema that somebody else wrote, for this data."""
        ...

    def list_call_ids(self, context: Mapping[str, Any]) -> tuple[str, ...]:
        """Return the ids of the calls in a valid context, about which the agent may send receipts."""
        ...

    def check(self, offer: Offer, action: str, data: Mapping[str, Any]) -> dict[str, Any]:
        """Return the answer's data as it will be stored; raise a BadRequest that names what is wrong."""
        ...
