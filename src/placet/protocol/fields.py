"""The definition of a form field (spec 10.3.1), and the limits that its type implies."""

from typing import Any, Literal

from msgspec import Struct

Operator = Literal["eq", "neq", "in", "gt", "lt"]
Number = int | float

FIELD_TYPES = (
    "text",
    "textarea",
    "number",
    "date",
    "email",
    "url",
    "boolean",
    "select",
    "multiselect",
    "range",
)
CUSTOM = "custom"

MAX_OPTIONS = 500
MAX_NUMBER = 2**53 - 1
MAX_TEXT_LENGTH = 10_000
# Patterns are for short, one-line values; this limits the cost of matching.
MAX_PATTERNED_TEXT_LENGTH = 2_000

_SLIDER = (0, 100)


class Option(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One choice of a select or multiselect."""

    value: str
    label: str


class Validation(
    Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True, rename="camel"
):
    """Limits of an answer; the limits of a date are ISO dates."""

    min_length: int | None = None
    max_length: int | None = None
    pattern: str | None = None
    min: Number | str | None = None
    max: Number | str | None = None


class Conditional(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A condition on the answer to an earlier field; this field is shown if it is met (spec 10.3.3)."""

    field: str
    operator: Operator
    value: Any


class Field(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """One field: its key in `result.data`, its texts, its type and its validation rules."""

    key: str
    label: str
    type: str
    required: bool = False
    placeholder: str = ""
    hint: str = ""
    default: Any = None
    default_ref: str | None = None
    sensitive: bool = False
    options: tuple[Option, ...] = ()
    validation: Validation = Validation()
    conditional: Conditional | None = None

    @property
    def field_type(self) -> str:
        """One of `FIELD_TYPES`, or `custom` for any `x-…` type."""
        return self.type if self.type in FIELD_TYPES else CUSTOM

    @property
    def bounds(self) -> tuple[Number | str | None, Number | str | None]:
        """The smallest and the largest answer; 0 to 100 for a range without limits, as in browsers."""
        given = (self.validation.min, self.validation.max)
        return _SLIDER if self.type == "range" and given == (None, None) else given

    @property
    def longest(self) -> int:
        """The maximum number of characters of an answer."""
        limit = MAX_TEXT_LENGTH if self.validation.pattern is None else MAX_PATTERNED_TEXT_LENGTH
        return limit if self.validation.max_length is None else self.validation.max_length
