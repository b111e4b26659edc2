"""What makes a review type: its actions, what it needs to be asked, and which answers fit."""

from collections.abc import Mapping
from typing import Any, Protocol

from placet.cases.case import Offer


class ReviewRules(Protocol):
    """One review type. Pure: it judges, it does not act."""

    name: str
    actions: tuple[str, ...]
    inline_actions: tuple[str, ...]
    requires_answer: bool
    """Whether no answer may never count as a yes."""
    reads_form: bool
    """Whether `prepare` checks `context.form` itself."""
    offers_grants: bool
    """Whether an answer on the page may pre-approve further calls."""

    def variant_for(self, context: Mapping[str, Any]) -> "ReviewRules":
        """The kind of this type that is made for such a context; mostly this one."""
        ...

    def inline_for(self, context: Mapping[str, Any]) -> tuple[str, ...]:
        """The actions that a button may take for this context; never more than `inline_actions`."""
        ...

    def prepare(self, context: dict[str, Any]) -> dict[str, Any]:
        """The context as it will be offered; raises ValidationFailed or InvalidForm if it cannot be asked."""
        ...

    def build_inline_data(self, offer: Offer, action: str) -> dict[str, Any]:
        """The data that a bare press of this action's button stands for, where nothing can be ticked."""
        ...

    def check(self, offer: Offer, action: str, data: Mapping[str, Any]) -> dict[str, Any]:
        """The answer's data as it will be kept; raises a BadRequest that names what does not fit."""
        ...
