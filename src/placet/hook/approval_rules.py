"""Which calls need a reviewer. Evaluated once per turn; the result is frozen in an interruption."""

import inspect
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from difflib import get_close_matches
from fnmatch import fnmatchcase
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias, TypeVar, cast

from placet.errors import HookError
from placet.hook.argument_checks import (
    refuse,
    require_duration,
    require_flag,
    require_function,
    require_list,
    require_names,
    require_parameters,
)
from placet.hook.feedback import DEFAULT_DECISIONS, DecisionName, FeedbackResult
from placet.hook.invocation import is_async
from placet.hook.tool_call import ToolCall

logger = logging.getLogger(__name__)

T = TypeVar("T")
MaybeAwaitable: TypeAlias = T | Awaitable[T]
State = Mapping[str, Any]
"""The agent's state when a call is evaluated: at least its `messages`."""
ReviewCondition = Callable[[ToolCall, State], bool | Awaitable[bool]]
"""Whether a reviewer is asked about a call. An async condition is awaited."""
Default = Literal["reject", "hold"]
NewMessagePolicy = Literal["refuse", "queue", "cancel"]
NO_RULES = (
    "approval_on: there is no rule, so every call would run without approval."
    " Name the tools that need approval, or use everything_except."
)
RULES_MUST_MATCH = (
    "If a tool may be missing, or only another agent has it, name its rule in optional=[…] of the hook."
)
RULES_FORM = 'a mapping of tool names to rules, such as {"send_mail": True}'
CONDITION_FORM = "a function of a call and the state that returns True or False"
DESCRIPTION_FORM = "text, or a function of a call and the state that returns text"
DECISION_NAMES = ", ".join(FeedbackResult)
DECISIONS_FORM = 'a tuple of decisions, such as ("approve", "reject")'
CONDITION_FAILED = "condition_failed tool=%s result=reviewer_is_asked"
MAX_CACHED_NAMES = 1000
"""How many tool names are cached with the rule that matches them."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ToolConfig:
    """How the calls of a tool are reviewed. Raises ValueError for invalid values."""

    description: str | Callable[[ToolCall, State], str] = ""
    """What the reviewer reads about the call."""
    allowed_decisions: tuple[FeedbackResult | DecisionName, ...] = DEFAULT_DECISIONS
    when: ReviewCondition | None = None
    """Ask a reviewer only if this returns True; it may be async.

    The reviewer is also asked if it raises or returns something other than a boolean, and whenever the
    arguments do not match the tool's schema.
    """
    timeout: timedelta | float | None = None
    """How long the reviewer has; a number means seconds."""
    default: Default = "reject"
    """On expiry: "reject" the call, or "hold" it. No default ever runs a call."""
    high_risk: bool = False
    """Never covered by a grant."""

    def __post_init__(self) -> None:
        _check_description(self.description)
        object.__setattr__(self, "allowed_decisions", _read_decisions(self.allowed_decisions))
        if self.when is not None:
            require_function("when", self.when, CONDITION_FORM)
            require_parameters("when", self.when, "call", "state")
        require_flag("high_risk", self.high_risk)
        if self.timeout is not None:
            timeout = require_duration("timeout", self.timeout, allows_seconds=True)
            object.__setattr__(self, "timeout", timeout)
        if self.default not in ("reject", "hold"):
            raise ValueError('default: must be "reject" or "hold"; an expired call never runs.')

    @property
    def decisions(self) -> tuple[FeedbackResult, ...]:
        """The allowed decisions."""
        return cast(tuple[FeedbackResult, ...], self.allowed_decisions)

    @property
    def timeout_duration(self) -> timedelta | None:
        """The timeout as a duration."""
        return self.timeout if isinstance(self.timeout, timedelta) else None


@dataclass(frozen=True, kw_only=True, slots=True)
class ReviewRequirement:
    """How one call must be reviewed."""

    description: str
    config: ToolConfig


class Hook(Protocol):
    """Evaluates every call of a turn; the first hook that returns a requirement decides how it is reviewed.

    Its methods may be async.

    A hook with a method `evaluate_invalid`, like `evaluate`, also judges calls whose arguments do not
    match the tool's schema. One with a method `find_unmatched_rules` is asked for rules that match no tool,
    and one with `has_rule_for` whether it says something about a tool.
    """

    def evaluate(self, call: ToolCall, state: State) -> MaybeAwaitable[ReviewRequirement | None]:
        """Return how this call must be reviewed, or None if it needs no review."""
        ...


class HumanInTheLoopHook:
    """Stops the calls named in `approval_on` until a reviewer has decided them.

    A key is a tool's name or a pattern such as `"write_*"`; a value is a ToolConfig, a description, True,
    or False for tools that need no review. A name takes precedence over patterns, and a longer pattern
    over a shorter one. `everything_except` gates all other tools too. A rule that matches no tool of the
    agent raises HookError, unless it is named in `optional`. `on_new_message` says what a message does to
    a paused thread: "refuse" it, "queue" it until the calls are decided, or "cancel" the calls as
    rejected.
    """

    def __init__(
        self,
        approval_on: Mapping[str, ToolConfig | str | bool] | None = None,
        *,
        everything_except: Iterable[str] | None = None,
        optional: Iterable[str] = (),
        on_new_message: NewMessagePolicy = "refuse",
    ) -> None:
        if approval_on is not None and not isinstance(approval_on, Mapping):
            refuse("approval_on", RULES_FORM, approval_on)
        rules = dict(approval_on or {})
        if everything_except is not None:
            exempted = require_names("everything_except", everything_except)
            rules = {"*": True, **rules, **dict.fromkeys(exempted, False)}
        if not rules:
            raise ValueError(NO_RULES)
        self._optional = _read_optional(rules, optional)
        if on_new_message not in ("refuse", "queue", "cancel"):
            raise ValueError('on_new_message: must be "refuse", "queue" or "cancel".')
        self.on_new_message = on_new_message
        self._rules = sorted(
            ((pattern, _config_from_rule(pattern, rule)) for pattern, rule in rules.items()),
            key=_precedence,
            reverse=True,
        )
        self._found: dict[str, _Rule | None] = {}
        self.awaits_conditions = any(
            config is not None and config.when is not None and is_async(config.when)
            for _, config in self._rules
        )
        """Whether a condition is async."""

    def evaluate(self, call: ToolCall, state: State) -> MaybeAwaitable[ReviewRequirement | None]:
        """Return how this call must be reviewed, or None if it needs no review.

        If the condition is async, the result must be awaited.
        """
        rule = self._find_rule_for(call.name)
        if rule is None:
            return None
        if rule.always is not None:
            return rule.always
        verdict = _start_condition(rule.config, call, state)
        if inspect.isawaitable(verdict):
            return _await_requirement(verdict, rule.config, call, state)
        return None if verdict is False else _build_requirement(rule.config, call, state)

    def evaluate_invalid(self, call: ToolCall, state: State) -> ReviewRequirement | None:
        """Return how a call must be reviewed whose arguments do not match the tool's schema.

        The tool may convert them to values that no condition has seen.
        """
        rule = self._find_rule_for(call.name)
        return None if rule is None else _build_requirement(rule.config, call, state)

    def never_stops(self, name: str) -> bool:
        """Return whether no call of this tool is ever stopped."""
        return self._find_rule_for(name) is None

    def has_rule_for(self, name: str) -> bool:
        """Return whether a rule matches this tool, even one that exempts it."""
        return any(_matches(pattern, name) for pattern, _ in self._rules)

    def find_unmatched_rules(self, tools: Iterable[str]) -> dict[str, str | None]:
        """Return the rules that match none of these tools, each with the most similar tool name.

        Optional rules and `"*"` may match nothing.
        """
        known = tuple(tools)
        folded = {name.casefold(): name for name in known}
        idle = [
            pattern
            for pattern, _ in self._rules
            if pattern not in self._optional
            and pattern.strip("*")
            and not any(_matches(pattern, name) for name in known)
        ]
        close = {pattern: get_close_matches(pattern.casefold(), folded, 1) for pattern in idle}
        return {pattern: folded[found[0]] if found else None for pattern, found in close.items()}

    def requirement_for_all(self, name: str) -> ReviewRequirement | None:
        """Return how every call of this tool is reviewed; None if that depends on the call."""
        rule = self._find_rule_for(name)
        return None if rule is None else rule.always

    def _find_rule_for(self, name: str) -> "_Rule | None":
        if name not in self._found:
            config = next((config for pattern, config in self._rules if _matches(pattern, name)), None)
            found = None if config is None else _Rule(config, _unconditional_requirement(config))
            if len(self._found) >= MAX_CACHED_NAMES:  # a model may invent any number of names
                return found
            self._found[name] = found
        return self._found[name]


def has_async_hook(hooks: Iterable[Hook]) -> bool:
    """Return whether evaluating a call may have to await a hook or a condition."""
    return any(getattr(hook, "awaits_conditions", False) or is_async(hook.evaluate) for hook in hooks)


def find_new_message_policy(hooks: Iterable[Hook]) -> NewMessagePolicy:
    """Return what a message does to a paused thread; hooks that disagree refuse it."""
    choices: set[NewMessagePolicy] = {getattr(hook, "on_new_message", "refuse") for hook in hooks}
    return choices.pop() if len(choices) == 1 else "refuse"


def check_rules(hooks: Iterable[Hook], tools: Iterable[str]) -> None:
    """Raise HookError if a rule matches none of an agent's tools: a misspelled rule would stop nothing."""
    known = tuple(tools)
    problems = [
        problem
        for hook in hooks
        for problem in describe_unmatched_rules(getattr(hook, "find_unmatched_rules", _no_rules)(known))
    ]
    if problems:
        raise HookError(f"{' '.join(problems)} {RULES_MUST_MATCH}", problems=problems)


def have_rule_for(hooks: Iterable[Hook], tool: str) -> bool:
    """Return whether the hooks say something about this tool; one without `has_rule_for` may."""
    return any(getattr(hook, "has_rule_for", _may_have_rule)(tool) for hook in hooks)


def describe_unmatched_rules(unmatched: Mapping[str, str | None]) -> list[str]:
    """Return a sentence about each rule that matches no tool."""
    return [
        f"{_spell(rule)} matches no tool, so it stops nothing."
        + (f" Did you mean {_spell(meant)}?" if meant else "")
        for rule, meant in unmatched.items()
    ]


def _spell(name: str) -> str:
    """Return a name in which every character can be seen: hidden and look-alike ones are escaped."""
    return name if name.isascii() and name.isprintable() and " " not in name else ascii(name)


def _may_have_rule(tool: str) -> bool:
    return True


def _no_rules(tools: Iterable[str]) -> dict[str, str | None]:
    return {}


class _Rule(NamedTuple):
    config: ToolConfig
    always: ReviewRequirement | None
    """The requirement of every call; None if it depends on the call."""


def _unconditional_requirement(config: ToolConfig) -> ReviewRequirement | None:
    if config.when is not None or not isinstance(config.description, str):
        return None
    return ReviewRequirement(description=config.description, config=config)


def _read_optional(rules: Mapping[str, Any], optional: Iterable[str]) -> frozenset[str]:
    named = frozenset(require_names("optional", optional, "a list of rules"))
    if unknown := sorted(map(str, named - rules.keys())):
        raise ValueError(f"optional: there is no rule {', '.join(unknown)}.")
    return named


def _read_decisions(given: Any) -> tuple[FeedbackResult, ...]:
    allowed = require_list("allowed_decisions", given, DECISIONS_FORM)
    if not allowed:
        raise ValueError("allowed_decisions: name at least one decision.")
    for each in allowed:
        if each not in tuple(FeedbackResult):
            raise ValueError(f"allowed_decisions: {each!r} is not a decision; use {DECISION_NAMES}.")
    return tuple(map(FeedbackResult, allowed))


def _check_description(given: object) -> None:
    """Raise ValueError unless this is a text, or a function that returns one without being awaited."""
    if isinstance(given, str):
        return
    if not callable(given) or isinstance(given, type) or is_async(given):
        refuse("description", DESCRIPTION_FORM, given)
    require_parameters("description", given, "call", "state")


def _config_from_rule(pattern: str, rule: ToolConfig | str | bool) -> ToolConfig | None:
    if not isinstance(pattern, str) or not pattern:
        raise ValueError(f"approval_on: {pattern!r} is not the name of a tool.")
    if isinstance(rule, ToolConfig):
        return rule
    if isinstance(rule, str):
        return ToolConfig(description=rule)
    if isinstance(rule, bool):
        return ToolConfig() if rule else None
    refuse(f"approval_on[{pattern!r}]", "a ToolConfig, a description, True or False", rule)


def _matches(pattern: str, name: str) -> bool:
    """Return whether the rule matches this tool, by equality first: a tool's name may look like a pattern."""
    return pattern == name or fnmatchcase(name, pattern)


def _precedence(rule: tuple[str, ToolConfig | None]) -> tuple[bool, int, bool]:
    """Sort key: names before patterns, longer patterns first, then rules that require review."""
    pattern, config = rule
    literal = sum(character not in "*?[]!" for character in pattern)
    return (literal == len(pattern), literal, config is not None)


def _start_condition(config: ToolConfig, call: ToolCall, state: State) -> object:
    """Return the condition's verdict, which may have to be awaited; True if it raises."""
    if config.when is None:
        return True
    try:
        return config.when(call, state)
    except Exception:
        logger.exception(CONDITION_FAILED, call.name)
        return True


async def _await_requirement(
    verdict: Awaitable[object], config: ToolConfig, call: ToolCall, state: State
) -> ReviewRequirement | None:
    """Return how the call must be reviewed, unless the condition's verdict is False."""
    try:
        if await verdict is False:
            return None
    except Exception:
        logger.exception(CONDITION_FAILED, call.name)
    return _build_requirement(config, call, state)


def _build_requirement(config: ToolConfig, call: ToolCall, state: State) -> ReviewRequirement:
    return ReviewRequirement(description=_build_description(config, call, state), config=config)


def _build_description(config: ToolConfig, call: ToolCall, state: State) -> str:
    if isinstance(config.description, str):
        return config.description
    try:
        return str(config.description(call, state))
    except Exception:
        logger.exception("description_failed tool=%s result=shown_without_description", call.name)
        return ""
