"""The options of one run that are passed on to the OpenAI Agents SDK, for type checkers."""

from typing import TYPE_CHECKING, Any, Generic, TypedDict, TypeVar

if TYPE_CHECKING:
    from agents import RunConfig, RunErrorHandlers, RunHooks
    from agents.memory import Session

ContextT = TypeVar("ContextT")


class RunnerOptions(TypedDict, Generic[ContextT], total=False):
    """What `run` and `resume` pass on to `Runner.run`."""

    context: ContextT | None
    max_turns: int | None
    hooks: "RunHooks[ContextT] | None"
    run_config: "RunConfig | dict[str, Any] | None"
    error_handlers: "RunErrorHandlers[ContextT] | None"
    previous_response_id: str | None
    auto_previous_response_id: bool
    conversation_id: str | None
    session: "Session | None"
