"""The escalation's rules: try again, perhaps with other parameters, go on without, or stop."""

from collections.abc import Mapping
from typing import Any

from assent.cases.case import Offer
from assent.errors import ValidationFailed
from assent.reviews.answer import check_known, kept, misfit, named, read_object, read_text
from assent.reviews.base import BaseKind, without
from assent.reviews.escalation.example import EXAMPLE
from assent.reviews.escalation.params import editable, fits, from_text
from assent.reviews.page_form import Pairs, last, shown, under


class Escalation(BaseKind):
    """Something failed; how to go on."""

    name = "escalation"
    template = "escalation/page.html"
    opening = EXAMPLE
    actions: tuple[str, ...] = ("retry", "skip", "abort")
    inline_actions: tuple[str, ...] = ("retry", "skip", "abort")

    def understand(self, context: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """The parameters of a retry; raises ValidationFailed if they are no object."""
        return params_of(context)

    def judge(self, offer: Offer, action: str, data: Mapping[str, Any]) -> dict[str, Any]:
        """A reason, and for a retry the parameters that change."""
        check_known(data, ("reason", "modified_params"))
        modified = read_object(data, "modified_params")
        if modified and action != "retry":
            raise misfit("modified_params", "Changed parameters go with a retry only; retry or undo them.")
        _check_params(params_of(offer.context), modified)
        return kept(reason=read_text(data, "reason"), modified_params=modified)

    def substance(self, offer: Offer, values: Mapping[str, Any]) -> dict[str, Any]:
        """What failed, the parameters a retry may change, and the other facts."""
        params = params_of(offer.context) or {}
        changed = values.get("modified_params")
        modified = changed if isinstance(changed, Mapping) else {}
        return {
            "error": offer.context.get("error"),
            "params": [
                {
                    "key": key,
                    "value": value,
                    "typed": shown(modified.get(key, value)),
                    "editable": editable(value),
                }
                for key, value in params.items()
            ],
            "facts": without(offer.context, "error", "params"),
        }

    def form_data(self, offer: Offer, pairs: Pairs) -> dict[str, Any]:
        """The reason, and the parameters whose text is no longer what was shown."""
        typed, params = under(pairs, "param."), params_of(offer.context) or {}
        modified = {
            key: from_text(typed[key], value)
            for key, value in params.items()
            if key in typed and editable(value) and typed[key] != shown(value)
        }
        return kept(reason=last(pairs, "reason"), modified_params=modified)


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
        raise misfit("modified_params", f"These cannot be changed: {named(unknown)}.", unknown=unknown[:10])
    wrong = [key for key, value in modified.items() if not fits(value, params[key])]
    if wrong:
        raise misfit(
            "modified_params", f"These are of another kind than before: {named(wrong)}.", wrong=wrong[:10]
        )
