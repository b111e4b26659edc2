"""The escalation's rules: try again, perhaps with other parameters, go on without, or stop."""

from collections.abc import Mapping
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
from placet.reviews.escalation.declaration import ESCALATION
from placet.reviews.escalation.failure import read_failure
from placet.reviews.escalation.logs import read_logs
from placet.reviews.escalation.params import format_param, has_same_type, is_editable, parse_param
from placet.reviews.escalation.suggestions import read_suggestions
from placet.reviews.form_post import PostResult
from placet.reviews.limits import MAX_TEXT
from placet.reviews.page_form import Pairs, format_value, read_grouping, values_under
from placet.reviews.reason_presets import find_presets_key, read_presets, read_text_with_preset
from placet.reviews.review_type import ReviewType, context_without
from placet.text.wording import message, plural_message


class Escalation(ReviewType):
    """Something failed; how to go on."""

    declaration = ESCALATION

    def read_context(self, context: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """The parameters of a retry; raises ValidationFailed if they are no object."""
        return read_params(context)

    def validate(self, offer: Offer, action: str, data: Mapping[str, Any]) -> dict[str, Any]:
        """A reason, and for a retry the parameters that change."""
        check_known(data, ("reason", "modified_params"))
        modified = read_object(data, "modified_params")
        if modified and action != "retry":
            complaint = message("Changed parameters go with a retry only; retry or undo them.")
            raise build_field_error("modified_params", complaint)
        _check_params(read_params(offer.context), modified)
        return drop_empty(reason=read_text(data, "reason"), modified_params=modified)

    def build_page_content(self, offer: Offer, values: Mapping[str, Any]) -> dict[str, Any]:
        """What failed, its logs, what is suggested, the parameters of a retry, and the other facts."""
        context = offer.context
        failure, taken = read_failure(context)
        error_logs, logs = read_logs(failure["rest"]), read_logs(context)
        suggestions, suggested = read_suggestions(context, self.list_actions(offer))
        changed = values.get("modified_params")
        modified = changed if isinstance(changed, Mapping) else {}
        params = read_params(context) or {}
        apart = {*taken, *logs, suggested, find_presets_key(context), "params"}
        return {
            "error": {**failure, "rest": context_without(failure["rest"], *error_logs)},
            "logs": [*error_logs.values(), *logs.values()],
            "suggestions": suggestions,
            "params": [format_param(key, value, modified) for key, value in params.items()],
            "presets": read_presets(context),
            "facts": context_without(context, *apart),
        }

    def handle_post(self, offer: Offer, move: str, pairs: Pairs, saved: Mapping[str, Any]) -> PostResult:
        """The answer that the page promises: changed parameters count only for another try."""
        typed = self.form_data(offer, pairs)
        reason = typed.get("reason") or ""
        # A reason that will be refused brings the page back, with everything that was typed.
        if move != "retry" and move in self.list_actions(offer) and len(reason) <= MAX_TEXT:
            typed.pop("modified_params", None)
        return PostResult(values=typed, ready=True)

    def form_data(self, offer: Offer, pairs: Pairs) -> dict[str, Any]:
        """The reason, and the parameters whose text is no longer what was shown."""
        typed, params = values_under(pairs, "param."), read_params(offer.context) or {}
        modified = {
            key: parse_param(typed[key], value, read_grouping(pairs))
            for key, value in params.items()
            if key in typed and is_editable(key, value) and typed[key] != format_value(value)
        }
        return drop_empty(
            reason=read_text_with_preset(offer.context, pairs, "reason"), modified_params=modified
        )

    def list_original_values(self, offer: Offer) -> Mapping[str, Mapping[str, Any]]:
        """Another try may change parameters."""
        params = read_params(offer.context)
        return {"modified_params": params} if params else {}


def read_params(context: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """What a retry may change, or None if the context does not say; raises ValidationFailed for no object."""
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
