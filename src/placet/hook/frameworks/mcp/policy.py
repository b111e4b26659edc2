"""Which tools of an MCP server wait for a person: what a file says, and else what the server says of them."""

from collections.abc import Iterable, Mapping
from datetime import timedelta
from difflib import get_close_matches
from fnmatch import fnmatchcase
from typing import Any

from placet.errors import SettingsError, ValidationFailed
from placet.hook.feedback import ToolFeedback
from placet.hook.policy import Hook, HumanInTheLoopHook, ReviewRequirement, State, ToolConfig
from placet.hook.tool_call import ToolCall
from placet.hook.turn import evaluate_calls
from placet.protocol.duration import parse_duration
from placet.text.truncation import truncate

TOOL_STATE = "tool"
"""Where the state of a call has the tool as its server lists it."""
Rules = Mapping[str, ToolConfig | str | bool]
_CONFIG_MEMBERS = {"description", "decisions", "timeout", "default", "high_risk"}
TOOL_CHANGED = "Its server describes the tool otherwise than a person was shown. Call again to ask anew."
_MAX_DESCRIPTION_CHARACTERS = 500
_UNLISTED_REQUIREMENT = ReviewRequirement(
    description="The server does not list this tool, so nothing is known of it.", config=ToolConfig()
)


def gate_unless_read_only(
    rules: Rules | None = None, *, others: ToolConfig | None = None, trust_annotations: bool = True
) -> HumanInTheLoopHook:
    """Gate what `rules` say; of all other tools, those that their server does not call read-only.

    A server's word is a hint, no proof: without trust in it, every tool waits that no rule lets through.
    """
    given = others or ToolConfig(description=server_description)
    rest = ToolConfig(
        description=given.description or server_description,
        allowed_decisions=given.allowed_decisions,
        when=_is_not_read_only if trust_annotations else None,
        timeout=given.timeout,
        default=given.default,
        high_risk=given.high_risk,
    )
    return HumanInTheLoopHook({"*": rest, **(rules or {})})


def _is_not_read_only(call: ToolCall, state: State) -> bool:
    annotations = getattr(state.get(TOOL_STATE), "annotations", None)
    return getattr(annotations, "read_only_hint", None) is not True


class UnlistedToolHook:
    """Gates every call by a name that the server does not list, whatever pattern would let it through.

    A server may know its tools by more names than it lists, say in capitals. No rule knows them all.
    """

    def evaluate(self, call: ToolCall, state: State) -> ReviewRequirement | None:
        """How the person is asked about this call, or None if nobody needs to be."""
        return _UNLISTED_REQUIREMENT if TOOL_STATE in state and state[TOOL_STATE] is None else None


def server_description(call: ToolCall, state: State) -> str:
    """How the server describes the tool."""
    text = " ".join((getattr(state.get(TOOL_STATE), "description", None) or "").split())
    return truncate(text, _MAX_DESCRIPTION_CHARACTERS)


def is_unchanged(shown: ToolFeedback, hooks: Iterable[Hook], state: State) -> bool:
    """Whether the tool in `state` is what a person was shown: its schema, and its words if they read them."""
    if shown.schema != getattr(state[TOOL_STATE], "input_schema", None):
        return False
    gate = evaluate_calls(hooks, [shown.call], state).get(shown.id)
    read = gate is not None and gate.config.description is server_description
    return not read or server_description(shown.call, state) == shown.description


def read_policy(settings: Mapping[str, Any]) -> HumanInTheLoopHook:
    """The policy in `tools`, `others` and `trust_annotations` of a file; raises SettingsError."""
    trust = settings.get("trust_annotations", True)
    if not isinstance(trust, bool):
        raise SettingsError("trust_annotations is true or false.")
    tools, others = settings.get("tools", {}), settings.get("others")
    if not isinstance(tools, Mapping):
        raise SettingsError("tools is a table: a tool's name or a pattern, and what becomes of its calls.")
    rules = {pattern: _read_rule(f"tools.{pattern}", said) for pattern, said in tools.items()}
    rest = None if others is None else _read_config("others", others)
    return gate_unless_read_only(rules, others=rest, trust_annotations=trust)


def find_unmatched_rules(settings: Mapping[str, Any], names: Iterable[str]) -> dict[str, str | None]:
    """The lines of a file that say nothing about any of these tools, with what may have been meant."""
    known = tuple(names)
    idle = [
        line
        for line in settings.get("tools", {})
        if not any(line == name or fnmatchcase(name, line) for name in known)
    ]
    folded = {name.casefold(): name for name in known}
    close = {line: get_close_matches(line.casefold(), folded, 1) for line in idle}
    return {line: folded[found[0]] if found else None for line, found in close.items()}


def _read_rule(where: str, said: Any) -> ToolConfig | bool:
    if isinstance(said, bool):
        return ToolConfig(description=server_description) if said else False
    return ToolConfig(description=said) if isinstance(said, str) else _read_config(where, said)


def _read_config(where: str, said: Any) -> ToolConfig:
    if not isinstance(said, Mapping):
        raise SettingsError(f"{where} is true, false, a description, or a table.")
    if unknown := sorted(set(said) - _CONFIG_MEMBERS):
        raise SettingsError(
            f"{where} has no {', '.join(unknown)}; there are {', '.join(sorted(_CONFIG_MEMBERS))}."
        )
    members: dict[str, Any] = {"description": "", **said}
    try:
        if not isinstance(members.get("high_risk", False), bool):
            raise TypeError("high_risk is true or false.")
        if "decisions" in members:
            members["allowed_decisions"] = _read_decisions(members.pop("decisions"))
        members["description"] = _read_description(members["description"]) or server_description
        members["timeout"] = _read_timeout(members.get("timeout"))
        return ToolConfig(**members)
    except (TypeError, ValueError, ValidationFailed) as error:
        raise SettingsError(f"{where}: {error}") from error


def _read_description(said: Any) -> str:
    if not isinstance(said, str):
        raise TypeError("description is text.")
    return said


def _read_decisions(said: Any) -> tuple[Any, ...]:
    if not isinstance(said, list):
        raise TypeError("decisions is a list.")
    return tuple(said)


def _read_timeout(said: Any) -> timedelta | None:
    if said is None:
        return None
    if not isinstance(said, str):
        raise TypeError('timeout is text such as "10m".')
    return parse_duration(said)
