"""The options of one run that are passed on to Pydantic AI, for type checkers."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Generic, Literal, Required, TypedDict, TypeVar

if TYPE_CHECKING:
    from pydantic_ai import DeferredToolResults, RunUsage, UsageLimits
    from pydantic_ai.agent import AgentModelSettings, AgentRetries, EventStreamHandler
    from pydantic_ai.agent.abstract import AgentMetadata
    from pydantic_ai.capabilities import AgentCapability
    from pydantic_ai.messages import ModelMessage
    from pydantic_ai.models import KnownModelName, Model
    from pydantic_ai.output import OutputSpec
    from pydantic_ai.toolsets import AbstractToolset
    from pydantic_ai.workspaces import WorkspaceBackend, WorkspaceRef

DepsT = TypeVar("DepsT")
RunOutputT = TypeVar("RunOutputT")


class RunOptions(TypedDict, Generic[DepsT], total=False):
    """What `run` and `resume` pass on to `agent.run`."""

    deps: DepsT
    model: "Model | KnownModelName | str | None"
    instructions: Any
    model_settings: "AgentModelSettings[DepsT] | None"
    usage_limits: "UsageLimits | None"
    usage: "RunUsage | None"
    timeout: float | None
    metadata: "AgentMetadata[DepsT] | None"
    retries: "int | AgentRetries | None"
    toolsets: "Sequence[AbstractToolset[DepsT]] | None"
    capabilities: "Sequence[AgentCapability[DepsT]] | None"
    event_stream_handler: "EventStreamHandler[DepsT] | None"
    message_history: "Sequence[ModelMessage] | None"
    deferred_tool_results: "DeferredToolResults | None"
    workspace: "WorkspaceBackend | WorkspaceRef | Literal['new'] | None"


class TypedRunOptions(RunOptions[DepsT], Generic[DepsT, RunOutputT], total=False):
    """The options of a run with another output type than the agent's."""

    output_type: Required["OutputSpec[RunOutputT]"]
