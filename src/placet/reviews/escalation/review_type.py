"""The rules of escalations: retry, perhaps with other parameters, skip, or abort."""

from collections.abc import Collection, Mapping
from typing import Any

from placet.cases.case import Offer
from placet.errors import ValidationFailed
from placet.reviews.answer import (
    build_field_error,
    check_known,
    drop_empty,
    format_ids,
    read_object,
    read_text,
)
from placet.reviews.answer_limits import MAX_TEXT_LENGTH
from placet.reviews.escalation.declaration import ESCALATION
from placet.reviews.escalation.failure import read_failure
from placet.reviews.escalation.logs import read_logs
from placet.reviews.escalation.params import format_param, has_same_type, is_editable, parse_param
from placet.reviews.escalation.suggestions import read_suggestions
from placet.reviews.form_post import PostResult
from placet.reviews.page_form import Pairs, format_value, get_values_under, read_grouping
from placet.reviews.reason_presets import find_presets_key, read_presets, read_text_with_preset
from placet.reviews.review_type import ReviewType, omit_from_context
from placet.text.wording import message, plural_message

OWN_FIELDS = ("reason", "modified_params")


class Escalation(ReviewType):
    """Decides how to continue after a failure."""

    declaration = ESCALATION

    def list_inline_actions(self, offer: Offer) -> tuple[str, ...]:
        """Return all actions: each is a complete answer."""
        return self.list_actions(offer)

    def read_context(self, context: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """Return the parameters of a retry; raise ValidationFailed if they are not an object."""
        return read_params(context)

    def list_own_fields(self, offer: Offer, data: Mapping[str, Any]) -> Collection[str]:
        """Return the names of the type's fields."""
        return OWN_FIELDS

    def validate(self, offer: Offer, action: str, data: Mapping[str, Any]) -> dict[str, Any]:
        """Return the reason, and for a retry the changed parameters."""
        check_known(data, OWN_FIELDS)
        modified = read_object(data, "modified_params")
        if modified and action != "retry":
            complaint = message("Changed parameters go with a retry only; retry or undo them.")
            raise build_field_error("modified_params", complaint)
        _check_params(read_params(offer.context), modified)
        return drop_empty(reason=read_text(data, "reason"), modified_params=modified)

    def build_page_content(self, offer: Offer, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return the failure, its logs, the suggestions, the parameters of a retry, and the other facts."""
        context = offer.context
        failure, taken = read_failure(context)
        error_logs, logs = read_logs(failure["rest"]), read_logs(context)
        suggestions, suggested = read_suggestions(context, self.list_actions(offer))
        changed = values.get("modified_params")
        modified = changed if isinstance(changed, Mapping) else {}
        params = read_params(context) or {}
        shown_elsewhere = {*taken, *logs, suggested, find_presets_key(context), "params"}
        return {
            "error": {**failure, "rest": omit_from_context(failure["rest"], *error_logs)},
            "logs": [*error_logs.values(), *logs.values()],
            "suggestions": suggestions,
            "params": [format_param(key, value, modified) for key, value in params.items()],
            "presets": read_presets(context),
            "facts": omit_from_context(context, *shown_elsewhere),
        }

    def handle_post(self, offer: Offer, move: str, pairs: Pairs, saved: Mapping[str, Any]) -> PostResult:
        """Return the answer; changed parameters are dropped unless the action is retry."""
        typed = self.form_data(offer, pairs)
        reason = typed.get("reason") or ""
        # A reason that is too long shows the page again, with everything that was entered.
        if move != "retry" and move in self.list_actions(offer) and len(reason) <= MAX_TEXT_LENGTH:
            typed.pop("modified_params", None)
        return PostResult(values=typed, ready=True)

    def form_data(self, offer: Offer, pairs: Pairs) -> dict[str, Any]:
        """Return the reason and the parameters that were changed."""
        typed, params = get_values_under(pairs, "param."), read_params(offer.context) or {}
        modified = {
            key: parse_param(typed[key], value, read_grouping(pairs))
            for key, value in params.items()
            if key in typed and is_editable(key, value) and typed[key] != format_value(value)
        }
        return drop_empty(
            reason=read_text_with_preset(offer.context, pairs, "reason"), modified_params=modified
        )

    def list_original_values(self, offer: Offer) -> Mapping[str, Mapping[str, Any]]:
        """Return the parameters, which a retry can change."""
        params = read_params(offer.context)
        return {"modified_params": params} if params else {}


def read_params(context: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the parameters of a retry, or None; raise ValidationFailed if they are not an object."""
    params = context.get("params")
    if params is not None and not isinstance(params, Mapping):
        raise ValidationFailed("context.params must be an object.", path="context.params")
    return params


def _check_params(params: Mapping[str, Any] | None, modified: Mapping[str, Any]) -> None:
    if params is None:
        return
    unknown = [key for key in modified if key not in params]
    if unknown:
        complaint = message("These cannot be changed: {names}.", names=format_ids(unknown))
        raise build_field_error("modified_params", complaint, unknown=unknown[:10])
    wrong = [key for key, value in modified.items() if not has_same_type(value, params[key])]
    if wrong:
        complaint = plural_message(
            "One of them does not fit. What to write instead stands beside it.",
            "{count} of them do not fit. What to write instead stands beside each.",
            count=len(wrong),
        )
        names = f" These are of another kind than before: {format_ids(wrong)}."
        raise build_field_error("modified_params", complaint, names=names, wrong=wrong[:10])


REVIEW_TYPE = Escalation
