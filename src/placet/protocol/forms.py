"""Form definitions (spec 10.3): fields or steps, parsed and validated."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec
from msgspec import Struct

from placet.errors import InvalidForm
from placet.protocol.conditions import find_condition_error
from placet.protocol.conversion import convert_input, quote
from placet.protocol.field_values import is_blank
from placet.protocol.fields import Field
from placet.protocol.form_rules import MAX_HINT_LENGTH, MAX_LABEL_LENGTH, find_field_error
from placet.protocol.patterns import measure_pattern
from placet.text.characters import is_storable

MAX_FIELDS = 200
MAX_REFERENCES = 20  # each causes a request when the page is opened
MAX_STEPS = 20
# Total size of all distinct patterns of one form; limits the cost of compiling and matching.
MAX_PATTERN_SIZE = 200_000


class FormStep(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """One step of a form; without fields it is a summary."""

    title: str
    fields: tuple[Field, ...]
    description: str = ""


class Form(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """The value of `context.form`: either `fields` or `steps`."""

    fields: tuple[Field, ...] | None = None
    steps: tuple[FormStep, ...] | None = None
    session_id: str | None = None

    @property
    def groups(self) -> tuple[tuple[Field, ...], ...]:
        """The fields of each step; a form without steps is one group."""
        return (self.fields or (),) if self.steps is None else tuple(step.fields for step in self.steps)

    @property
    def every_field(self) -> tuple[Field, ...]:
        """All fields in order."""
        return tuple(field for group in self.groups for field in group)


def parse_form(raw: object) -> Form:
    """Parse a form definition; raises `InvalidForm` saying what is wrong and where (`path`, `field`)."""
    form = convert_input(raw, Form, InvalidForm, "form")
    _check_nulls(raw, "form")
    _check_layout(form)
    earlier: dict[str, Field] = {}
    for path, field in _iterate_fields(form):
        _check_field(path, field, earlier)
        earlier[field.key] = field
    _check_patterns(earlier.values())
    return form


def form_to_wire(form: Form) -> dict[str, Any]:
    """Return the form as the published schemas allow it, without date limits, which they do not know."""
    wire: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(form))
    for group in (wire.get("fields", []), *(step["fields"] for step in wire.get("steps", []))):
        for field in group:
            if field["type"] == "date":
                field.pop("validation", None)
    return wire


def collect_defaults(form: Form) -> dict[str, object]:
    """Return the default answers of the fields, by key."""
    return {field.key: field.default for field in form.every_field if not is_blank(field.default)}


def _iterate_fields(form: Form) -> Iterator[tuple[str, Field]]:
    for number, group in enumerate(form.groups):
        step = "" if form.steps is None else f".steps[{number}]"
        yield from ((f"form{step}.fields[{index}]", field) for index, field in enumerate(group))


def _check_layout(form: Form) -> None:
    if (form.fields is None) == (form.steps is None):
        raise _build_form_error("form", "give either fields or steps")
    if form.steps is not None and not 1 <= len(form.steps) <= MAX_STEPS:
        raise _build_form_error("form.steps", f"a form takes 1 to {MAX_STEPS} steps")
    if not 1 <= len(form.every_field) <= MAX_FIELDS:
        raise _build_form_error("form", f"a form takes 1 to {MAX_FIELDS} fields")
    if sum(field.default_ref is not None for field in form.every_field) > MAX_REFERENCES:
        raise _build_form_error("form", f"at most {MAX_REFERENCES} fields of a form may have a default_ref")
    if form.session_id is not None and not _is_short(form.session_id, MAX_LABEL_LENGTH):
        raise _build_form_error("form.session_id", f"must be 1 to {MAX_LABEL_LENGTH} characters")
    for number, step in enumerate(form.steps or ()):
        _check_step_texts(f"form.steps[{number}]", step)


def _check_step_texts(path: str, step: FormStep) -> None:
    if not _is_short(step.title, MAX_LABEL_LENGTH):
        raise _build_form_error(f"{path}.title", f"must be 1 to {MAX_LABEL_LENGTH} characters")
    if step.description and not _is_short(step.description, MAX_HINT_LENGTH):
        raise _build_form_error(f"{path}.description", f"takes at most {MAX_HINT_LENGTH} characters")


def _is_short(text: str, limit: int) -> bool:
    return not is_blank(text) and len(text) <= limit and is_storable(text)


def _check_field(path: str, field: Field, earlier: Mapping[str, Field]) -> None:
    complaint = (
        find_field_error(field) or _find_key_error(field, earlier) or _find_conditional_error(field, earlier)
    )
    if complaint is not None:
        raise _build_form_error(path, complaint, field=quote(field.key))


def _find_key_error(field: Field, earlier: Mapping[str, Field]) -> str | None:
    return f"key {field.key!r} is used by an earlier field" if field.key in earlier else None


def _find_conditional_error(field: Field, earlier: Mapping[str, Field]) -> str | None:
    condition = field.conditional
    if condition is None:
        return None
    controller = earlier.get(condition.field)
    if controller is None:
        return f"conditional.field {quote(condition.field)!r} is not the key of an earlier field"
    complaint = find_condition_error(condition, controller)
    return None if complaint is None else f"conditional: {complaint}"


def _check_patterns(fields: Iterable[Field]) -> None:
    different = {field.validation.pattern for field in fields if field.validation.pattern is not None}
    if sum(map(measure_pattern, different)) > MAX_PATTERN_SIZE:
        raise _build_form_error(
            "form", "the patterns are too large together; use lengths instead of repeat counts"
        )


def _check_nulls(raw: object, path: str) -> None:
    """Raise InvalidForm for null anywhere but in `default` and `value`, as the published schemas do."""
    for name, value in raw.items() if isinstance(raw, Mapping) else ():
        if name in _FREE:
            continue
        if value is None:
            raise _build_form_error(f"{path}.{name}", "must not be null; leave it out")
        _check_nulls(value, f"{path}.{name}")
        for number, entry in enumerate(value if name in ("fields", "steps") else ()):
            _check_nulls(entry, f"{path}.{name}[{number}]")


def _build_form_error(path: str, complaint: str, **details: str) -> InvalidForm:
    return InvalidForm(f"{path}: {complaint}.", path=path, **details)


_FREE = ("default", "value")
