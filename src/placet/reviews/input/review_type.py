"""The input's rules: the form judges; without one, any flat set of answers fits."""

from collections.abc import Mapping
from typing import Any

from placet.cases.case import Offer
from placet.errors import InvalidInput
from placet.protocol.field_values import is_blank
from placet.protocol.form_answers import check_answers
from placet.protocol.form_posts import answers_from_strings
from placet.protocol.forms import Form, collect_defaults, parse_form
from placet.reviews.answer import build_field_error, drop_empty, format_ids
from placet.reviews.form_post import Turn
from placet.reviews.input.declaration import INPUT
from placet.reviews.input.form_view import build_form_view, build_review_view, recap_of
from placet.reviews.input.review_step import last_page
from placet.reviews.input.typed_numbers import is_number_field, plain_number
from placet.reviews.input.wizard import keep_typing, reachable, take_turn
from placet.reviews.page_form import Pairs, every, format_value, grouping, last, may_be_thousands
from placet.reviews.review_type import ReviewType, without
from placet.text.wording import message

MAX_ANSWERS = 200
ANSWER = "answer"


class Input(ReviewType):
    """Facts that only the person has."""

    declaration = INPUT
    reads_form = True

    def understand(self, context: Mapping[str, Any]) -> Form | None:
        """The form, if there is one; raises InvalidForm saying what is wrong with it and where."""
        return form_of(context)

    def judge(self, offer: Offer, action: str, data: Mapping[str, Any]) -> dict[str, Any]:
        """The visible answers; raises InvalidInput with `fields`, a message for each that does not fit."""
        form = form_of(offer.context)
        return _free_answers(data) if form is None else check_answers(form, data)

    def turn(self, offer: Offer, move: str, pairs: Pairs, saved: Mapping[str, Any]) -> Turn:
        """One step of the wizard: forward, back, or the answer."""
        form, posted = form_of(offer.context), self._posted(offer, pairs, saved)
        if form is None:
            return Turn(values=posted, ready=True)
        posted |= _unseen(form, pairs, saved)
        return take_turn(
            form,
            move,
            step=_step(pairs),
            asked=frozenset(every(pairs, "asked")),
            values={**saved, **posted},
            reviewed=last(pairs, "reviewed"),
        )

    def typing(self, offer: Offer, pairs: Pairs, saved: Mapping[str, Any]) -> Turn:
        """The fields posted, over what was saved before: what another device saved beside them stays."""
        form, posted = form_of(offer.context), self._posted(offer, pairs, saved)
        if form is None:
            return Turn(values=posted, ready=False)
        return keep_typing(form, step=_step(pairs), values={**saved, **posted})

    def place(self, offer: Offer, values: Mapping[str, Any], step: int) -> int | None:
        """The step, or an earlier one that still lacks something."""
        form = form_of(offer.context)
        return reachable(form, values, step) if form and last_page(form) > 0 else None

    def substance(self, offer: Offer, values: Mapping[str, Any]) -> dict[str, Any]:
        """The steps with the fields to show for these values, or a single box without a form."""
        form = form_of(offer.context)
        return {
            "steps": build_form_view(form, values) if form else [],
            "reviewed": build_review_view(form, values) if form else None,
            "free": form is None,
            "typed": values.get(ANSWER, ""),
            "facts": without(offer.context, "form"),
        }

    def form_data(self, offer: Offer, pairs: Pairs) -> dict[str, Any]:
        """The answers in one post: typed where they fit, as text where they do not, None where unticked."""
        return self._posted(offer, pairs, {})

    def _posted(self, offer: Offer, pairs: Pairs, saved: Mapping[str, Any]) -> dict[str, Any]:
        form = form_of(offer.context)
        if form is None:
            return drop_empty(answer=last(pairs, ANSWER))
        fields = {field.key: field for field in form.every_field}
        sent = [(name.removeprefix("field."), value) for name, value in pairs if name.startswith("field.")]
        posted = [(key, plain_number(fields[key], value)) for key, value in sent if key in fields]
        unticked = dict.fromkeys(key for key in every(pairs, "asked") if key in fields)
        before = {**collect_defaults(form), **saved}
        doubtful = {
            key: text if text != format_value(before.get(key)) else before[key]
            for key, text in posted
            if is_number_field(fields[key]) and may_be_thousands(text, grouping(pairs))
        }
        answers = {**unticked, **answers_from_strings(form, posted), **doubtful}
        # A saved sensitive answer never comes back to the page, so an empty box means: as it was.
        emptied = set(every(pairs, "emptied"))
        return {
            key: value
            for key, value in answers.items()
            if not (fields[key].sensitive and is_blank(value)) or key in emptied
        }

    def recap(self, offer: Offer, data: Mapping[str, Any]) -> list[tuple[str, Any]]:
        """The answers under the form's own labels, sensitive ones masked."""
        form = form_of(offer.context)
        return list(data.items()) if form is None else recap_of(form, data)


def form_of(context: Mapping[str, Any]) -> Form | None:
    """The form in a context; raises InvalidForm."""
    raw = context.get("form")
    return None if raw is None else parse_form(raw)


def _unseen(form: Form, pairs: Pairs, saved: Mapping[str, Any]) -> dict[str, Any]:
    """Secrets that were saved since the page was drawn, by somebody else: it showed an empty box."""
    asked, shown_as_saved = set(every(pairs, "asked")), set(every(pairs, "saved"))
    typed = {
        name.removeprefix("field.") for name, value in pairs if value.strip() and name.startswith("field.")
    }
    keys = (field.key for field in form.every_field if field.sensitive and not is_blank(saved.get(field.key)))
    return dict.fromkeys(key for key in keys if key in asked - shown_as_saved - typed)


def _step(pairs: Pairs) -> int:
    step = last(pairs, "step") or ""
    return int(step) if step.isascii() and step.isdecimal() and len(step) < 4 else 0


def _free_answers(data: Mapping[str, Any]) -> dict[str, Any]:
    answers = {key: value for key, value in data.items() if not is_blank(value)}
    if not answers:
        raise build_field_error(ANSWER, message("Write an answer."), InvalidInput)
    if len(data) > MAX_ANSWERS:
        most = message("Send at most {most} answers; these are {given}.", most=MAX_ANSWERS, given=len(data))
        raise build_field_error(ANSWER, most, InvalidInput)
    nested = [key for key, value in answers.items() if isinstance(value, Mapping | list | tuple)]
    if nested:
        plain = message("Send plain values, nothing nested: {names}.", names=format_ids(nested))
        raise build_field_error(nested[0], plain, InvalidInput)
    return answers


REVIEW_TYPE = Input
