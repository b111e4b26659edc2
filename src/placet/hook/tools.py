"""A tool: a plain function whose signature and docstring tell a model how to call it."""

import inspect
from collections.abc import Callable, Iterable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar, overload

from placet.hook.argument_checks import (
    refuse,
    require_duration,
    require_flag,
    require_known_options,
    require_text,
)
from placet.hook.function_schema import build_schema, read_description
from placet.hook.tool_call import Arguments, ToolCall
from placet.protocol.json_schema import UnusableSchema, check_work, compile_schema, list_violations

if TYPE_CHECKING:
    from placet.hook.agent import ReactAgent

Function = TypeVar("Function", bound=Callable[..., Any])
IDEMPOTENCY_PARAMETER = "idempotency_key"
"""A repeatable tool with this parameter gets the call's idempotency key; the model does not see it."""
TOOL_OPTIONS = ("name", "description", "schema", "timeout", "repeatable", "parallel")
_OPTIONS_ATTRIBUTE = "__placet_tool__"
_IMMUTABLE_TYPES = frozenset({str, int, float, bool, type(None)})


@dataclass(frozen=True, kw_only=True, slots=True)
class Tool:
    """A function that a model may call.

    A `repeatable` call whose process died runs again with the same key. Calls of `parallel` tools that
    follow each other in a turn run at the same time; all others run one after another.
    """

    name: str
    description: str
    schema: Mapping[str, Any]
    function: Callable[..., Any]
    timeout: timedelta | None = None
    repeatable: bool = False
    parallel: bool = False
    takes_key: bool = False
    agent: "ReactAgent | None" = None
    """The agent that answers instead of the function; its interruptions appear in the calling agent."""
    checker: Any = field(default=None, repr=False, compare=False)
    """The validator for arguments, once the schema was found to be usable."""

    def __post_init__(self) -> None:
        require_text("name", self.name)
        require_text("description", self.description)
        if not isinstance(self.schema, Mapping):
            refuse("schema", "a JSON Schema as a mapping", self.schema)
        if not callable(self.function):
            refuse("function", "a function", self.function)
        if self.timeout is not None:
            require_duration("timeout", self.timeout)
        for name in ("repeatable", "parallel", "takes_key"):
            require_flag(name, getattr(self, name))

    def as_schema(self) -> dict[str, Any]:
        """Return the tool's description for a model."""
        return {"name": self.name, "description": self.description, "parameters": self.schema}

    def find_problems(self, arguments: Arguments) -> list[str]:
        """Return what is wrong with the arguments; an empty list if they match the schema."""
        checker = self.checker or compile_schema(self.schema)
        try:
            if not check_work(self.schema, arguments):
                return [] if checker.is_valid(arguments) else ["the arguments do not match the schema"]
        except UnusableSchema as error:
            return [f"the arguments cannot be checked: {error}"]
        return [] if checker.is_valid(arguments) else list_violations(checker, arguments)

    def prepare_arguments(self, arguments: Arguments, key: str) -> Arguments:
        """Return copies of the arguments for the function, so that it cannot change the recorded call."""
        own = copy_arguments(arguments)
        return {**own, IDEMPOTENCY_PARAMETER: key} if self.takes_key else own


def copy_arguments(arguments: Mapping[str, Any]) -> Arguments:
    """Return a copy of the arguments that may be modified."""
    return {
        name: _copy_value(value)
        if type(value) not in _IMMUTABLE_TYPES and isinstance(value, list | dict)
        else value
        for name, value in arguments.items()
    }


def _copy_value(value: Any) -> Any:
    try:
        return deepcopy(value)
    except RecursionError:  # deep nesting in a model's arguments must not break the thread
        return value


@overload
def tool(function: Function, /) -> Function: ...
@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    schema: Mapping[str, Any] | None = None,
    timeout: timedelta | float | None = None,
    repeatable: bool = False,
    parallel: bool = False,
) -> Callable[[Function], Function]: ...
def tool(function: Function | None = None, /, **options: Any) -> Function | Callable[[Function], Function]:
    """Set options of a tool; the function itself is unchanged."""
    require_known_options(options, TOOL_OPTIONS)
    for option in ("repeatable", "parallel"):
        require_flag(option, options.get(option, False))
    if function is not None and not callable(function):
        refuse("tool()", "above a function", function)

    def mark(marked: Function) -> Function:
        setattr(marked, _OPTIONS_ATTRIBUTE, options)
        return marked

    return mark if function is None else mark(function)


def as_tool(given: Callable[..., Any] | Tool) -> Tool:
    """Return a function as a tool; raises ValueError if no model could call it."""
    if isinstance(given, Tool):
        return given
    if not callable(given) or isinstance(given, type):
        refuse("tools", "a list of functions", given)
    options = dict(getattr(given, _OPTIONS_ATTRIBUTE, {}))
    name = str(options.get("name") or getattr(given, "__name__", ""))
    if not name.isidentifier():
        raise ValueError(f"{given!r} has no usable name: set one with @tool(name=…).")
    timeout = options.get("timeout")
    parameters = inspect.signature(given).parameters
    schema = options.get("schema") or build_schema(
        given, leave_out={IDEMPOTENCY_PARAMETER} if options.get("repeatable") else set()
    )
    return Tool(
        name=name,
        description=options.get("description") or read_description(given),
        schema=schema,
        function=given,
        timeout=None if timeout is None else require_duration("timeout", timeout, allows_seconds=True),
        repeatable=bool(options.get("repeatable")),
        parallel=bool(options.get("parallel")),
        takes_key=bool(options.get("repeatable")) and IDEMPOTENCY_PARAMETER in parameters,
        checker=_compile_checker(name, schema),
    )


def index_tools(given: Iterable[Callable[..., Any] | Tool]) -> dict[str, Tool]:
    """Return the tools by name; raises ValueError for duplicate names."""
    found: dict[str, Tool] = {}
    for made in map(as_tool, given):
        if made.name in found:
            raise ValueError(
                f"Two tools have the name {made.name}. Give one another name with @tool(name=…)."
            )
        found[made.name] = made
    return found


def refuse_unusable_calls(
    tools: Mapping[str, Tool], calls: Iterable[ToolCall], unreadable: Mapping[str, str]
) -> dict[str, str]:
    """Return what the model reads about calls that no tool can take; no reviewer is asked about them."""
    refused: dict[str, str] = {}
    for call in calls:
        tool = tools.get(call.name)
        if tool is None:
            refused[call.id] = describe_missing_tool(call.name)
        elif call.id in unreadable:
            refused[call.id] = f"Nothing was run: {unreadable[call.id]}."
        elif wrong := tool.find_problems(call.arguments):
            refused[call.id] = (
                f"Nothing was run, because the arguments do not match the schema: {'; '.join(wrong)}."
            )
    return refused


def describe_missing_tool(name: str) -> str:
    """Return what the model reads about a call of a tool that does not exist."""
    return f"There is no tool {name}. Nothing was run."


def _compile_checker(name: str, schema: Mapping[str, Any]) -> Any:
    try:
        return compile_schema(schema)
    except UnusableSchema as error:
        raise ValueError(f"The schema of {name} cannot be used: {error}") from error
