"""Offers to judge answers against."""

from typing import Any

from placet.cases.case import Offer
from placet.cases.review_rules import ReviewRules


def offer(kind: ReviewRules, context: dict[str, Any] | None = None, **more: Any) -> Offer:
    """What a case of this kind shows, after the kind has prepared it."""
    prepared = kind.prepare(context or {})
    for path, schema in kind.list_schemas(prepared):
        kind.check_schema(path, schema)
    actions = more.pop("actions", kind.actions)
    return Offer(type=kind.name, prompt="Well?", message="Well?", context=prepared, actions=actions, **more)
