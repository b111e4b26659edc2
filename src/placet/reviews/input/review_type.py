"""The rules of inputs: the form validates the answers; without a form, any flat object is valid."""

from collections.abc import Collection, Mapping
from typing import Any

from placet.cases.case import Offer
from placet.errors import InvalidInput
from placet.protocol.field_values import is_blank
from placet.protocol.form_answers import check_answers
from placet.protocol.form_posts import answers_from_strings
from placet.protocol.forms import Form, collect_defaults, parse_form
from placet.reviews.answer import build_field_error, drop_empty, format_ids
from placet.reviews.form_post import PostResult
from placet.reviews.input.declaration import INPUT
from placet.reviews.input.form_view import build_form_view, build_recap, build_review_view
from placet.reviews.input.review_step import get_last_page
from placet.reviews.input.typed_numbers import is_number_field, normalize_number
from placet.reviews.input.wizard import apply_move, find_reachable_step, read_step_draft
from placet.reviews.page_form import (
    Pairs,
    format_value,
    get_all_values,
    get_last_value,
    may_be_thousands,
    read_grouping,
)
from placet.reviews.review_type import ReviewType, omit_from_context
from placet.text.wording import message

MAX_ANSWERS = 200
ANSWER = "answer"


class Input(ReviewType):
    """Asks for information that only the reviewer has."""

    declaration = INPUT
    reads_form = True

    def read_context(self, context: Mapping[str, Any]) -> Form | None:
        """Return the form, if there is one; raise InvalidForm that says what is wrong and where."""
        return read_form(context)

    def list_own_fields(self, offer: Offer, data: Mapping[str, Any]) -> Collection[str]:
        """Return the keys of the form, or the name of the free answer."""
        form = read_form(offer.context)
        return (ANSWER,) if form is None else {field.key for field in form.every_field}

    def validate(self, offer: Offer, action: str, data: Mapping[str, Any]) -> dict[str, Any]:
        """Return the visible answers; raise InvalidInput with a message for each invalid field."""
        form = read_form(offer.context)
        return _check_free_answers(data) if form is None else check_answers(form, data)

    def handle_post(self, offer: Offer, move: str, pairs: Pairs, saved: Mapping[str, Any]) -> PostResult:
        """Move forward or back in the wizard, or answer."""
        form, posted = read_form(offer.context), self._read_post(offer, pairs, saved)
        if form is None:
            return PostResult(values=posted, ready=True)
        posted |= _drop_unseen_secrets(form, pairs, saved)
        return apply_move(
            form,
            move,
            step=_read_step(pairs),
            asked=frozenset(get_all_values(pairs, "asked")),
            values={**saved, **posted},
            reviewed=get_last_value(pairs, "reviewed"),
        )

    def read_draft(self, offer: Offer, pairs: Pairs, saved: Mapping[str, Any]) -> PostResult:
        """Return the saved values updated with the submitted fields; other saved fields stay."""
        form, posted = read_form(offer.context), self._read_post(offer, pairs, saved)
        if form is None:
            return PostResult(values=posted, ready=False)
        return read_step_draft(form, step=_read_step(pairs), values={**saved, **posted})

    def find_step(self, offer: Offer, values: Mapping[str, Any], step: int) -> int | None:
        """Return the step, or an earlier one that is incomplete."""
        form = read_form(offer.context)
        return find_reachable_step(form, values, step) if form and get_last_page(form) > 0 else None

    def build_page_content(self, offer: Offer, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return the steps with the fields to show, or a single text box if there is no form."""
        form = read_form(offer.context)
        return {
            "steps": build_form_view(form, values) if form else [],
            "reviewed": build_review_view(form, values) if form else None,
            "free": form is None,
            "typed": values.get(ANSWER, ""),
            "facts": omit_from_context(offer.context, "form"),
        }

    def build_decided_content(self, offer: Offer) -> dict[str, Any]:
        """Return the facts; the answers are shown with their questions."""
        return {"facts": omit_from_context(offer.context, "form")}

    def form_data(self, offer: Offer, pairs: Pairs) -> dict[str, Any]:
        """Return the answers of one POST: converted if possible, else as text, and None if not ticked."""
        return self._read_post(offer, pairs, {})

    def _read_post(self, offer: Offer, pairs: Pairs, saved: Mapping[str, Any]) -> dict[str, Any]:
        form = read_form(offer.context)
        if form is None:
            return drop_empty(answer=get_last_value(pairs, ANSWER))
        fields = {field.key: field for field in form.every_field}
        sent = [(name.removeprefix("field."), value) for name, value in pairs if name.startswith("field.")]
        posted = [(key, normalize_number(fields[key], value)) for key, value in sent if key in fields]
        unticked = dict.fromkeys(key for key in get_all_values(pairs, "asked") if key in fields)
        before = {**collect_defaults(form), **saved}
        doubtful = {
            key: text if text != format_value(before.get(key)) else before[key]
            for key, text in posted
            if is_number_field(fields[key]) and may_be_thousands(text, read_grouping(pairs))
        }
        answers = {**unticked, **answers_from_strings(form, posted), **doubtful}
        # A saved sensitive answer is never sent to the page, so an empty box means that it is unchanged.
        emptied = set(get_all_values(pairs, "emptied"))
        return {
            key: value
            for key, value in answers.items()
            if not (fields[key].sensitive and is_blank(value)) or key in emptied
        }

    def summarize_answer(self, offer: Offer, data: Mapping[str, Any]) -> list[tuple[str, Any]]:
        """Return the answers under the form's labels, with sensitive ones masked."""
        form = read_form(offer.context)
        return list(data.items()) if form is None else build_recap(form, data)


def read_form(context: Mapping[str, Any]) -> Form | None:
    """Return the form in a context, or None; raise InvalidForm if it is not valid."""
    raw = context.get("form")
    return None if raw is None else parse_form(raw)


def _drop_unseen_secrets(form: Form, pairs: Pairs, saved: Mapping[str, Any]) -> dict[str, Any]:
    """Clear secrets that another page saved after this page was rendered with an empty box."""
    asked, shown_as_saved = set(get_all_values(pairs, "asked")), set(get_all_values(pairs, "saved"))
    typed = {
        name.removeprefix("field.") for name, value in pairs if value.strip() and name.startswith("field.")
    }
    keys = (field.key for field in form.every_field if field.sensitive and not is_blank(saved.get(field.key)))
    return dict.fromkeys(key for key in keys if key in asked - shown_as_saved - typed)


def _read_step(pairs: Pairs) -> int:
    step = get_last_value(pairs, "step") or ""
    return int(step) if step.isascii() and step.isdecimal() and len(step) < 4 else 0


def _check_free_answers(data: Mapping[str, Any]) -> dict[str, Any]:
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
