"""Which calls a person must see. Judged once per turn; the judgement is frozen in an interruption."""

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from fnmatch import fnmatchcase
from typing import Any, Literal, NamedTuple, Protocol, cast

from placet.hook.feedback import DEFAULT_DECISIONS, FeedbackResult
from placet.hook.tool_call import ToolCall

logger = logging.getLogger(__name__)

State = Mapping[str, Any]
"""Where the agent stands when a call is judged: at least its `messages`."""
Default = Literal["reject", "hold"]
NewMessagePolicy = Literal["refuse", "queue", "cancel"]
MAX_CACHED_NAMES = 1000
"""For so many names it is remembered which rule they fall under."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ToolConfig:
    """How the calls of a tool are reviewed. Raises ValueError for what makes no sense."""

    description: str | Callable[[ToolCall, State], str] = ""
    """What the person reads about the call."""
    allowed_decisions: tuple[FeedbackResult | str, ...] = DEFAULT_DECISIONS
    when: Callable[[ToolCall, State], bool] | None = None
    """Ask only if this says True. If it errs, or says anything but True or False, the person is asked.

    So they are about arguments that do not fit the tool, whatever it says.
    """
    timeout: timedelta | float | None = None
    """How long the person has; a number counts seconds."""
    default: Default = "reject"
    """When nobody answered: "reject" the call, or "hold" it. No default ever runs one."""
    high_risk: bool = False
    """Never covered by a grant."""

    def __post_init__(self) -> None:
        allowed = tuple(map(FeedbackResult, self.allowed_decisions))
        if not allowed:
            raise ValueError("A reviewed tool allows at least one decision.")
        object.__setattr__(self, "allowed_decisions", allowed)
        if self.timeout is not None:
            given = self.timeout
            timeout = given if isinstance(given, timedelta) else timedelta(seconds=given)
            if timeout <= timedelta():
                raise ValueError("A timeout must be longer than nothing.")
            object.__setattr__(self, "timeout", timeout)
        if self.default not in ("reject", "hold"):
            raise ValueError('The default is "reject" or "hold": silence never runs a tool.')

    @property
    def decisions(self) -> tuple[FeedbackResult, ...]:
        """The decisions that are allowed."""
        return cast(tuple[FeedbackResult, ...], self.allowed_decisions)

    @property
    def patience(self) -> timedelta | None:
        """The timeout as a duration."""
        return self.timeout if isinstance(self.timeout, timedelta) else None


@dataclass(frozen=True, kw_only=True, slots=True)
class ReviewRequirement:
    """The judgement of one call that a person must see."""

    description: str
    config: ToolConfig


class Hook(Protocol):
    """What an agent asks about every call of a turn; the first hook that gates a call decides how.

    One with a method `in_doubt`, as `judge`, is asked that too where a call's arguments do not fit its tool.
    """

    def judge(self, call: ToolCall, state: State) -> ReviewRequirement | None:
        """How the person is asked about this call, or None if nobody needs to be."""
        ...


class HumanInTheLoopHook:
    """Stops the calls named in `approval_on` until a person has decided them.

    A key is a tool's name or a pattern such as `"write_*"`; a value is a ToolConfig, a description, True, or
    False for tools that need nobody. A name outranks patterns, and a longer pattern a shorter one.
    `everything_except` gates all other tools too. `on_new_message` says what a message does to a thread that
    waits: "refuse" it, "queue" it until the calls are decided, or "cancel" them as rejected.
    """

    def __init__(
        self,
        approval_on: Mapping[str, ToolConfig | str | bool] | None = None,
        *,
        everything_except: Iterable[str] | None = None,
        on_new_message: NewMessagePolicy = "refuse",
    ) -> None:
        rules = dict(approval_on or {})
        if everything_except is not None:
            if isinstance(everything_except, str):
                raise ValueError("everything_except is a list of names.")
            rules = {"*": True, **rules, **dict.fromkeys(everything_except, False)}
        if on_new_message not in ("refuse", "queue", "cancel"):
            raise ValueError('on_new_message is "refuse", "queue" or "cancel".')
        self.on_new_message = on_new_message
        self._rules = sorted(
            ((pattern, _config_from_rule(pattern, rule)) for pattern, rule in rules.items()),
            key=_precedence,
            reverse=True,
        )
        self._found: dict[str, _Rule | None] = {}

    def judge(self, call: ToolCall, state: State) -> ReviewRequirement | None:
        """How the person is asked about this call, or None if nobody needs to be."""
        rule = self._rule_for(call.name)
        if rule is None:
            return None
        if rule.always is not None:
            return rule.always
        if not _needs_review(rule.config, call, state):
            return None
        return ReviewRequirement(description=_build_description(rule.config, call, state), config=rule.config)

    def in_doubt(self, call: ToolCall, state: State) -> ReviewRequirement | None:
        """How the person is asked about a call whose arguments are not what its tool takes.

        What the tool makes of them, no condition has seen.
        """
        rule = self._rule_for(call.name)
        if rule is None:
            return None
        return ReviewRequirement(description=_build_description(rule.config, call, state), config=rule.config)

    def never(self, name: str) -> bool:
        """Whether no call of this tool is ever stopped."""
        return self._rule_for(name) is None

    def always(self, name: str) -> ReviewRequirement | None:
        """How the person is asked about every call of this tool; None if that depends on the call."""
        rule = self._rule_for(name)
        return None if rule is None else rule.always

    def _rule_for(self, name: str) -> "_Rule | None":
        if name not in self._found:
            config = next((config for pattern, config in self._rules if _matches(pattern, name)), None)
            found = None if config is None else _Rule(config, _unconditional_requirement(config))
            if len(self._found) >= MAX_CACHED_NAMES:  # a model may make up any number of names
                return found
            self._found[name] = found
        return self._found[name]


class _Rule(NamedTuple):
    config: ToolConfig
    always: ReviewRequirement | None
    """The gate of every call; None if it depends on the call."""


def _unconditional_requirement(config: ToolConfig) -> ReviewRequirement | None:
    if config.when is not None or not isinstance(config.description, str):
        return None
    return ReviewRequirement(description=config.description, config=config)


def _config_from_rule(pattern: str, rule: ToolConfig | str | bool) -> ToolConfig | None:
    if isinstance(rule, ToolConfig):
        return rule
    if isinstance(rule, str):
        return ToolConfig(description=rule)
    if isinstance(rule, bool):
        return ToolConfig() if rule else None
    raise ValueError(f"approval_on[{pattern!r}] must be a ToolConfig, a description, True or False.")


def _matches(pattern: str, name: str) -> bool:
    """Whether the rule is about this tool; one whose name looks like a pattern is named by it too."""
    return pattern == name or fnmatchcase(name, pattern)


def _precedence(rule: tuple[str, ToolConfig | None]) -> tuple[bool, int, bool]:
    """A name before any pattern, then the longer pattern, then, between equals, the one that asks."""
    pattern, config = rule
    literal = sum(character not in "*?[]!" for character in pattern)
    return (literal == len(pattern), literal, config is not None)


def _needs_review(config: ToolConfig, call: ToolCall, state: State) -> bool:
    if config.when is None:
        return True
    try:
        verdict = config.when(call, state)
    except Exception:
        logger.exception("The condition for %s failed; a person is asked.", call.name)
        return True
    return verdict is not False


def _build_description(config: ToolConfig, call: ToolCall, state: State) -> str:
    if isinstance(config.description, str):
        return config.description
    try:
        return str(config.description(call, state))
    except Exception:
        logger.exception("The description for %s failed; the call is shown without one.", call.name)
        return ""
