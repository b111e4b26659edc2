"""The choice a service may demand with each request: `prefer_hitl` or `skip_hitl` (ruling 22)."""

from collections.abc import Mapping
from typing import Any, Literal

from placet.errors import ChoiceRequired, InvalidChoice

ReviewChoice = Literal["review", "skip"]


def require_choice(body: Mapping[str, Any]) -> ReviewChoice:
    """Return the caller's choice; `previous_case_id` continues a review and counts as `prefer_hitl`.

    Raises `ChoiceRequired` if neither flag is set, and `InvalidChoice` if both are or one is not a boolean.
    Call it before running the action.
    """
    if not isinstance(body, Mapping):
        raise InvalidChoice("The body must be a JSON object.")
    skip = _read_flag(body, "skip_hitl")
    prefer = _read_flag(body, "prefer_hitl") or _continues_a_case(body)
    if prefer and skip:
        raise InvalidChoice("Send either prefer_hitl (or previous_case_id) or skip_hitl, not both.")
    if not (prefer or skip):
        raise ChoiceRequired()
    return "review" if prefer else "skip"


def _read_flag(body: Mapping[str, Any], name: str) -> bool:
    value = body.get(name, False)
    if not isinstance(value, bool):
        raise InvalidChoice(f"{name} must be true or false.", path=name)
    return value


def _continues_a_case(body: Mapping[str, Any]) -> bool:
    previous = body.get("previous_case_id")
    if previous is None:
        return False
    if not isinstance(previous, str) or not previous:
        raise InvalidChoice("previous_case_id must be the id of a case.", path="previous_case_id")
    return True
