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
from placet.reviews.escalation.params import editable, fits, format_param, from_text
from placet.reviews.escalation.suggestions import read_suggestions
from placet.reviews.form_post import Turn
from placet.reviews.limits import MAX_TEXT
from placet.reviews.page_form import Pairs, format_value, grouping, under
from placet.reviews.reason_presets import presets_name, presets_of, with_preset
from placet.reviews.review_type import ReviewType, without
from placet.text.wording import counted, message


class Escalation(ReviewType):
    """Something failed; how to go on."""

    declaration = ESCALATION

    def understand(self, context: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """The parameters of a retry; raises ValidationFailed if they are no object."""
        return params_of(context)

    def judge(self, offer: Offer, action: str, data: Mapping[str, Any]) -> dict[str, Any]:
        """A reason, and for a retry the parameters that change."""
        check_known(data, ("reason", "modified_params"))
        modified = read_object(data, "modified_params")
        if modified and action != "retry":
            complaint = message("Changed parameters go with a retry only; retry or undo them.")
            raise build_field_error("modified_params", complaint)
        _check_params(params_of(offer.context), modified)
        return drop_empty(reason=read_text(data, "reason"), modified_params=modified)

    def substance(self, offer: Offer, values: Mapping[str, Any]) -> dict[str, Any]:
        """What failed, its logs, what is suggested, the parameters of a retry, and the other facts."""
        context = offer.context
        failure, taken = read_failure(context)
        error_logs, logs = read_logs(failure["rest"]), read_logs(context)
        suggestions, suggested = read_suggestions(context, self.offered(offer))
        changed = values.get("modified_params")
        modified = changed if isinstance(changed, Mapping) else {}
        params = params_of(context) or {}
        apart = {*taken, *logs, suggested, presets_name(context), "params"}
        return {
            "error": {**failure, "rest": without(failure["rest"], *error_logs)},
            "logs": [*error_logs.values(), *logs.values()],
            "suggestions": suggestions,
            "params": [format_param(key, value, modified) for key, value in params.items()],
            "presets": presets_of(context),
            "facts": without(context, *apart),
        }

    def turn(self, offer: Offer, move: str, pairs: Pairs, saved: Mapping[str, Any]) -> Turn:
        """The answer that the page promises: changed parameters count only for another try."""
        typed = self.form_data(offer, pairs)
        reason = typed.get("reason") or ""
        # A reason that will be refused brings the page back, with everything that was typed.
        if move != "retry" and move in self.offered(offer) and len(reason) <= MAX_TEXT:
            typed.pop("modified_params", None)
        return Turn(values=typed, ready=True)

    def form_data(self, offer: Offer, pairs: Pairs) -> dict[str, Any]:
        """The reason, and the parameters whose text is no longer what was shown."""
        typed, params = under(pairs, "param."), params_of(offer.context) or {}
        modified = {
            key: from_text(typed[key], value, grouping(pairs))
            for key, value in params.items()
            if key in typed and editable(key, value) and typed[key] != format_value(value)
        }
        return drop_empty(reason=with_preset(offer.context, pairs, "reason"), modified_params=modified)

    def replaced(self, offer: Offer) -> Mapping[str, Mapping[str, Any]]:
        """Another try may change parameters."""
        params = params_of(offer.context)
        return {"modified_params": params} if params else {}


def params_of(context: Mapping[str, Any]) -> Mapping[str, Any] | None:
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
    wrong = [key for key, value in modified.items() if not fits(value, params[key])]
    if wrong:
        complaint = counted(
            "One of them does not fit. What to write instead stands beside it.",
            "{count} of them do not fit. What to write instead stands beside each.",
            count=len(wrong),
        )
        names = f" These are of another kind than before: {format_ids(wrong)}."
        raise build_field_error("modified_params", complaint, names=names, wrong=wrong[:10])


REVIEW_TYPE = Escalation
