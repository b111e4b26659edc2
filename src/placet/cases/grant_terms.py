"""The grants in an answer, `data.grants`, validated against the calls that were decided.

A grant must cover the call that the reviewer decided: its patterns name every argument of that call, match
it, and exclude something. A high-risk call is never granted.
"""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

import msgspec
from msgspec import Struct

from placet.cases.grant import MAX_DURATION, MAX_USES, MIN_DURATION, call_fits
from placet.errors import BadRequest, InvalidSubmission, ValidationFailed
from placet.protocol.argument_patterns import find_pattern_error, matches_almost_anything
from placet.protocol.conversion import quote
from placet.protocol.duration import format_duration, parse_duration
from placet.text.wording import Amount, message

MAX_GRANTS = 50
MAX_PATTERN_BYTES = 16 * 1024
MEMBERS = ("call_id", "patterns", "uses", "for")

Call = Mapping[str, Any]


class GrantTerms(Struct, frozen=True, kw_only=True):
    """The validated terms of one requested grant."""

    call_id: str
    tool: str
    path: tuple[str, ...] = ()
    """The nested agents that lead to the one that makes the call, outermost first."""
    patterns: dict[str, dict[str, Any]]
    uses: int
    lasts_for: timedelta

    def to_dict(self) -> dict[str, Any]:
        """Return the terms as a member of `data.grants`."""
        return {
            "call_id": self.call_id,
            "patterns": self.patterns,
            "uses": self.uses,
            "for": format_duration(self.lasts_for),
        }


def build_grant_field_name(call_id: str) -> str:
    """Return the field name under which errors report problems with the grant of a call."""
    return f"grant.{call_id}"


def is_grantable(call: Call) -> bool:
    """Whether a page may offer a grant for this call."""
    if call.get("high_risk", False) is not False:
        return False
    arguments = _read_arguments(call)
    patterns = {name: {"exact": value} for name, value in arguments.items()}
    return _find_patterns_problem(patterns, arguments) is None


def read_terms(
    given: Any, calls: Sequence[Call], decisions: Mapping[str, Mapping[str, Any]]
) -> list[GrantTerms]:
    """Return the grants of an answer; raise InvalidSubmission that names the problem by call.

    `calls` are the case's `tool_calls`, and `decisions` those of the same answer, by call id.
    """
    if not isinstance(given, list | tuple):
        raise InvalidSubmission(_NOT_A_LIST, fields={"grants": _NOT_A_LIST})
    if len(given) > MAX_GRANTS:
        complaint = f"grants has more than {MAX_GRANTS} entries. Send at most {MAX_GRANTS}."
        raise InvalidSubmission(complaint, fields={"grants": complaint})
    by_id = {call.get("id"): call for call in calls}
    terms = [_read_one(one, by_id, decisions) for one in given]
    twice = {one.call_id for one in terms if [other.call_id for other in terms].count(one.call_id) > 1}
    for call_id in sorted(twice):
        raise _build_error(call_id, "This call has two grants. Send one.")
    return terms


_NOT_A_LIST = "grants must be a list."


def _read_one(
    given: Any, calls: Mapping[Any, Call], decisions: Mapping[str, Mapping[str, Any]]
) -> GrantTerms:
    if not isinstance(given, Mapping) or set(given) != set(MEMBERS):
        complaint = f"Every grant must have exactly the members {', '.join(MEMBERS)}."
        raise InvalidSubmission(complaint, fields={"grants": complaint})
    call_id = given["call_id"]
    if not isinstance(call_id, str) or call_id not in calls:
        complaint = f"call_id: {quote(str(call_id))} is not a call of this case."
        raise InvalidSubmission(complaint, fields={"grants": complaint})
    call, decision = calls[call_id], decisions.get(call_id) or {}
    wrong = _find_call_problem(call, decision) or _find_patterns_problem(
        given["patterns"], _find_arguments(call, decision)
    )
    if wrong is not None:
        raise _build_error(call_id, wrong)
    return GrantTerms(
        call_id=call_id,
        tool=call["name"],
        path=tuple(call.get("path") or ()),
        patterns={name: dict(pattern) for name, pattern in given["patterns"].items()},
        uses=_read_uses(call_id, given["uses"]),
        lasts_for=_read_duration(call_id, given["for"]),
    )


def _find_arguments(call: Call, decision: Mapping[str, Any]) -> Mapping[str, Any]:
    edited = decision.get("arguments") if decision.get("decision") == "edit" else None
    return _read_arguments(call) if edited is None else edited


def _read_arguments(call: Call) -> Mapping[str, Any]:
    return call.get("arguments") or {}


def _find_call_problem(call: Call, decision: Mapping[str, Any]) -> str | None:
    if call.get("high_risk", False) is not False:
        return message("A call of high risk is decided each time; it cannot be granted.")
    runs = decision.get("decision") in ("approve", "edit")
    if not runs or decision.get("name") not in (None, call.get("name")):
        return message("Only a call that you let run can be granted.")
    return None


def _find_patterns_problem(patterns: Any, arguments: Mapping[str, Any]) -> str | None:
    if not isinstance(patterns, Mapping):
        return "patterns must be an object with one pattern for each argument."
    if patterns.keys() != arguments.keys():
        return "patterns must name exactly the arguments of the call."
    if misshapes := [wrong for wrong in map(find_pattern_error, patterns.values()) if wrong is not None]:
        return misshapes[0]
    if len(msgspec.json.encode(patterns)) > MAX_PATTERN_BYTES:
        return message("These arguments are too large to grant; decide each call.")
    if patterns and all(map(matches_almost_anything, patterns.values())):
        return message(
            "This would allow nearly any call of the tool; leave one argument closer to what it is."
        )
    if not call_fits(patterns, arguments):
        return message("The grant must cover the call that you let run.")
    return None


def _read_uses(call_id: str, given: Any) -> int:
    if type(given) is not int or not 1 <= given <= MAX_USES:
        raise _build_error(call_id, message("Allow it between 1 and {most} times.", most=Amount(MAX_USES)))
    return given


def _read_duration(call_id: str, given: Any) -> timedelta:
    try:
        lasts_for = parse_duration(given)
    except ValidationFailed as error:
        raise _build_error(call_id, error.message) from error
    if not MIN_DURATION <= lasts_for <= MAX_DURATION:
        raise _build_error(
            call_id, message("A grant lasts between a minute and {days} days.", days=MAX_DURATION.days)
        )
    return lasts_for


def _build_error(call_id: str, complaint: str) -> BadRequest:
    return InvalidSubmission(
        f"{quote(call_id)}: {complaint}", fields={build_grant_field_name(call_id): complaint}
    )
