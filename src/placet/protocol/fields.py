"""One question of a form (spec 10.3.1): its definition, and what its type implies."""

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
LARGEST_NUMBER = 2**53 - 1
LONGEST_TEXT = 10_000
# A pattern is for short, one-line values; this keeps the worst of them cheap to judge.
LONGEST_PATTERNED_TEXT = 2_000

_SLIDER = (0, 100)


class Option(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One choice of a select or multiselect."""

    value: str
    label: str


class Validation(
    Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True, rename="camel"
):
    """Bounds of an answer; the bounds of a date are ISO dates."""

    min_length: int | None = None
    max_length: int | None = None
    pattern: str | None = None
    min: Number | str | None = None
    max: Number | str | None = None


class Conditional(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """When a field is shown: depending on the answer to an earlier one (spec 10.3.3)."""

    field: str
    operator: Operator
    value: Any


class Field(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """One question: its key in `result.data`, its words, its type and its rules."""

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
    def kind(self) -> str:
        """One of `FIELD_TYPES`, or `custom` for any `x-…` type."""
        return self.type if self.type in FIELD_TYPES else CUSTOM

    @property
    def bounds(self) -> tuple[Number | str | None, Number | str | None]:
        """Smallest and largest answer; a range that names none goes from 0 to 100, as browsers do."""
        given = (self.validation.min, self.validation.max)
        return _SLIDER if self.type == "range" and given == (None, None) else given

    @property
    def longest(self) -> int:
        """How many characters an answer may have."""
        limit = LONGEST_TEXT if self.validation.pattern is None else LONGEST_PATTERNED_TEXT
        return limit if self.validation.max_length is None else self.validation.max_length
