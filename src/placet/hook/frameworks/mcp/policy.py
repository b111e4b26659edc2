"""Which tools of an MCP server need review: by a settings file, else by the server's annotations."""

from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Any

from placet.errors import SettingsError, ValidationFailed
from placet.hook.approval_rules import Hook, HumanInTheLoopHook, ReviewRequirement, State, ToolConfig
from placet.hook.call_evaluation import evaluate_calls, run_evaluation
from placet.hook.feedback import ToolFeedback
from placet.hook.tool_call import ToolCall
from placet.protocol.duration import parse_duration
from placet.text.truncation import truncate

TOOL_STATE = "tool"
"""The key in a call's state of the tool as its server lists it."""
Rules = Mapping[str, ToolConfig | str | bool]
_CONFIG_MEMBERS = {"description", "decisions", "timeout", "default", "high_risk"}
TOOL_CHANGED = "The server has changed the tool since it was approved. Call again to ask again."
_MAX_DESCRIPTION_CHARACTERS = 500
_UNLISTED_REQUIREMENT = ReviewRequirement(
    description="The server does not list this tool, so nothing is known about it.", config=ToolConfig()
)


def gate_unless_read_only(
    rules: Rules | None = None,
    *,
    others: ToolConfig | None = None,
    trust_annotations: bool = True,
    optional: Iterable[str] = (),
) -> HumanInTheLoopHook:
    """Gate tools by `rules`, and all other tools that their server does not annotate as read-only.

    Annotations are hints, not proof: without `trust_annotations`, every tool waits unless a rule exempts
    it. Rules in `optional` may match no tool.
    """
    given = others or ToolConfig(description=get_server_description)
    rest = ToolConfig(
        description=given.description or get_server_description,
        allowed_decisions=given.allowed_decisions,
        when=_is_not_read_only if trust_annotations else None,
        timeout=given.timeout,
        default=given.default,
        high_risk=given.high_risk,
    )
    return HumanInTheLoopHook({"*": rest, **(rules or {})}, optional=optional)


def _is_not_read_only(call: ToolCall, state: State) -> bool:
    annotations = getattr(state.get(TOOL_STATE), "annotations", None)
    return getattr(annotations, "read_only_hint", None) is not True


class UnlistedToolHook:
    """Gates every call of a tool that the server does not list, even if a pattern exempts it.

    A server may accept more names than it lists, for example in capitals. No rule can know them all.
    """

    def evaluate(self, call: ToolCall, state: State) -> ReviewRequirement | None:
        """Return how this call must be reviewed, or None if it needs no review."""
        return _UNLISTED_REQUIREMENT if TOOL_STATE in state and state[TOOL_STATE] is None else None


def get_server_description(call: ToolCall, state: State) -> str:
    """Return the server's description of the tool."""
    text = " ".join((getattr(state.get(TOOL_STATE), "description", None) or "").split())
    return truncate(text, _MAX_DESCRIPTION_CHARACTERS)


def is_unchanged(shown: ToolFeedback, hooks: Iterable[Hook], state: State) -> bool:
    """Return whether the tool in `state` has the schema, and the description if shown, that was reviewed."""
    if shown.schema != getattr(state[TOOL_STATE], "input_schema", None):
        return False
    gate = run_evaluation(evaluate_calls(hooks, [shown.call], state)).get(shown.id)
    read = gate is not None and gate.config.description is get_server_description
    return not read or get_server_description(shown.call, state) == shown.description


def read_policy(settings: Mapping[str, Any]) -> HumanInTheLoopHook:
    """Return the policy in a file's `tools`, `others`, `optional` and `trust_annotations`.

    Raises SettingsError.
    """
    trust = settings.get("trust_annotations", True)
    if not isinstance(trust, bool):
        raise SettingsError("trust_annotations: must be true or false.")
    tools, others = settings.get("tools", {}), settings.get("others")
    if not isinstance(tools, Mapping):
        raise SettingsError(
            "tools: must be a table of tool names or patterns, and how their calls are reviewed."
        )
    rules = {pattern: _read_rule(f"tools.{pattern}", value) for pattern, value in tools.items()}
    rest = None if others is None else _read_config("others", others)
    optional = settings.get("optional", [])
    if not isinstance(optional, list) or not all(each in tools for each in map(str, optional)):
        raise SettingsError("optional: must be a list of rules that are in tools.")
    return gate_unless_read_only(rules, others=rest, trust_annotations=trust, optional=optional)


def _read_rule(where: str, value: Any) -> ToolConfig | bool:
    if isinstance(value, bool):
        return ToolConfig(description=get_server_description) if value else False
    return ToolConfig(description=value) if isinstance(value, str) else _read_config(where, value)


def _read_config(where: str, value: Any) -> ToolConfig:
    if not isinstance(value, Mapping):
        raise SettingsError(f"{where}: must be true, false, a description, or a table.")
    if unknown := sorted(set(value) - _CONFIG_MEMBERS):
        raise SettingsError(
            f"{where}: unknown {', '.join(unknown)}; use {', '.join(sorted(_CONFIG_MEMBERS))}."
        )
    members: dict[str, Any] = {"description": "", **value}
    try:
        if not isinstance(members.get("high_risk", False), bool):
            raise TypeError("high_risk must be true or false.")
        if "decisions" in members:
            members["allowed_decisions"] = _read_decisions(members.pop("decisions"))
        members["description"] = _read_description(members["description"]) or get_server_description
        members["timeout"] = _read_timeout(members.get("timeout"))
        return ToolConfig(**members)
    except (TypeError, ValueError, ValidationFailed) as error:
        raise SettingsError(f"{where}: {error}") from error


def _read_description(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError("description must be text.")
    return value


def _read_decisions(value: Any) -> tuple[Any, ...]:
    if not isinstance(value, list):
        raise TypeError("decisions must be a list.")
    return tuple(value)


def _read_timeout(value: Any) -> timedelta | None:
    if value is None:
        return None
    if not isinstance(value, str):
        raise TypeError('timeout must be text such as "10m".')
    return parse_duration(value)
