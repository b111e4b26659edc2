"""The review types: one line registers one. The rules of a type are loaded when they are first needed."""

from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from placet.reviews.custom.declaration import CUSTOM
from placet.reviews.declaration import ActionDeclaration, OutcomeDeclaration, TypeDeclaration

if TYPE_CHECKING:
    from placet.cases.case import Offer
    from placet.reviews.review_type import ReviewType

DECLARATIONS: dict[str, TypeDeclaration] = {}
"""Every type and variant by its name."""


def register(package: str) -> TypeDeclaration:
    """Register the review type in this package and return its declaration. Pages and clients then know it.

    Raises ValueError if another type has the name.
    """
    declared: TypeDeclaration = import_module(f"{package}.declaration").DECLARATION
    if DECLARATIONS.setdefault(declared.name, declared) is not declared:
        raise ValueError(f"{package}: a review type {declared.name!r} is already registered.")
    return declared


register("placet.reviews.approval")
register("placet.reviews.selection")
register("placet.reviews.input")
register("placet.reviews.confirmation")
register("placet.reviews.escalation")
register("placet.reviews.tool_calls")
register("placet.reviews.held_messages")


def find_declaration(type: str) -> TypeDeclaration | None:
    """Return the declaration of the type with this wire name, or None for custom types."""
    declared = DECLARATIONS.get(type)
    return declared if declared is not None and declared.type == type else None


def list_clear_affirmative_actions() -> tuple[str, ...]:
    """Return the actions that are a yes although the type of the case is unknown."""
    actions = (action for each in DECLARATIONS.values() for action in each.actions)
    return tuple(sorted({one.name for one in actions if one.is_affirmative and not one.is_ambiguous}))


def find_action(name: str) -> ActionDeclaration | None:
    """Return the action with this name from the first type that has it, or None."""
    return next((one for each in DECLARATIONS.values() for one in each.actions if one.name == name), None)


def find_outcome(name: str) -> ActionDeclaration | OutcomeDeclaration | None:
    """Return the outcome with this name, or the action if no type declares such an outcome."""
    declared = (one for each in DECLARATIONS.values() for one in each.outcomes if one.name == name)
    return next(declared, None) or find_action(name)


class ActionTexts(Mapping[str, str]):
    """Maps each action's name to one of its texts, for templates."""

    def __init__(self, text: Literal["label", "answered", "afterwards"]) -> None:
        self._text = text

    def __getitem__(self, name: str) -> str:
        found = find_action(name) if self._text == "label" else find_outcome(name)
        if found is None:
            raise KeyError(name)
        text: str = getattr(found, self._text)
        return text

    def __iter__(self) -> Iterator[str]:
        actions = (one.name for each in DECLARATIONS.values() for one in each.actions)
        outcomes = (one.name for each in DECLARATIONS.values() for one in each.outcomes)
        return iter(dict.fromkeys([*actions, *(() if self._text == "label" else outcomes)]))

    def __len__(self) -> int:
        return sum(1 for _ in self)


class FieldLabels(Mapping[str, str]):
    """Maps each field of an answer to its label: those of the pages first, then those of the types."""

    def __init__(self, pages: Mapping[str, str]) -> None:
        self._pages = pages

    def __getitem__(self, name: str) -> str:
        found = next((labels for labels in self._list_tables() if name in labels), self._pages)
        return found[name]

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys(name for labels in self._list_tables() for name in labels))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def _list_tables(self) -> Iterator[Mapping[str, str]]:
        yield self._pages
        yield from (each.field_labels for each in DECLARATIONS.values())


class LoadedTypes(Mapping[str, "ReviewType"]):
    """Maps each type's name to its rules, loaded on first use. Includes variants if `variants` is true."""

    def __init__(self, *, variants: bool) -> None:
        self._variants = variants

    def __getitem__(self, name: str) -> "ReviewType":
        declared = DECLARATIONS[name]
        if declared.type != declared.name and not self._variants:
            raise KeyError(name)
        return _load(declared)

    def __iter__(self) -> Iterator[str]:
        return (name for name, one in DECLARATIONS.items() if self._variants or one.type == name)

    def __len__(self) -> int:
        return sum(1 for _ in self)


REVIEW_TYPES: Mapping[str, "ReviewType"] = LoadedTypes(variants=False)
"""The types on the wire."""
SAMPLES: Mapping[str, "ReviewType"] = LoadedTypes(variants=True)
"""The types and their variants, one for each sample that the demo opens."""


def load_custom_type() -> "ReviewType":
    """Return the rules for custom types."""
    return _load(CUSTOM)


def load_named_type(name: str) -> "ReviewType | None":
    """Return the rules of a type or variant, or those for custom types; None for an unknown name."""
    return load_custom_type() if name == CUSTOM.name else SAMPLES.get(name)


def load_review_type(offer: "Offer") -> "ReviewType":
    """Return the rules for an offer: of its type, of a variant, or for custom types."""
    found = REVIEW_TYPES[offer.type] if offer.type in REVIEW_TYPES else load_custom_type()
    return found.variant_for(offer.context)


def list_template_folders() -> list[Path]:
    """Return the folders in which the types' page templates are found by their names."""
    return list(dict.fromkeys(one.folder.parent for one in (CUSTOM, *DECLARATIONS.values())))


def list_types_requiring_answer() -> list[str]:
    """Return the names of the types for which a missing answer must never count as a yes."""
    own = (name for name in REVIEW_TYPES if DECLARATIONS[name].requires_answer)
    return sorted({*own, *CUSTOM.names_requiring_answer})


def get_first_sample() -> str:
    """Return the name of the sample that the demo opens by default."""
    return next(name for name, one in DECLARATIONS.items() if one.is_first_sample)


def _load(declared: TypeDeclaration) -> "ReviewType":
    if declared.package not in _loaded:
        variants = [one for one in DECLARATIONS.values() if one.type == declared.name != one.name]
        _loaded[declared.package] = declared.load("review_type").REVIEW_TYPE(*map(_load, variants))
    return _loaded[declared.package]


_loaded: dict[str, "ReviewType"] = {}
