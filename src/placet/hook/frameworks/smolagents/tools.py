"""Gated tools: smolagents calls each tool through one of them."""

from collections.abc import Callable, Iterator
from typing import Any

from smolagents import CodeAgent, MultiStepAgent, Tool
from smolagents.local_python_executor import LocalPythonExecutor

from placet.errors import CallRejected, HookError
from placet.hook.approval_rules import Hook, check_rules, have_rule_for
from placet.hook.approver import Replace
from placet.hook.frameworks.waiting_calls import WaitingCalls

JSON_TYPES = ("string", "boolean", "integer", "number", "array", "object", "null")
TEXT = ("string", "any")
"""The output types of tools whose result may be a note for the model."""


class SmolagentsApproval(WaitingCalls):
    """Stops tool calls of an agent and its managed agents: `approval.gate(agent)`, then `agent.run(…)`.

    The options are those of WaitingCalls.
    """

    def __init__(self, *hooks: Hook, **options: Any) -> None:
        super().__init__(*hooks, **options)
        self._hooks = hooks

    def gate(self, agent: MultiStepAgent) -> None:
        """Stop the calls of the agent and of the agents that it manages, from now on."""
        agents = list(_list_agents(agent))
        check_rules(self._hooks, [name for each in agents for name in (*each.tools, *each.managed_agents)])
        for each in agents:
            _require_patience(each)
        for each in agents:
            for name, tool in list(each.tools.items()):
                if have_rule_for(self._hooks, name) and not isinstance(tool, GatedTool):
                    each.tools[name] = GatedTool(tool, self)


class GatedTool(Tool):  # type: ignore[misc,unused-ignore]
    """A tool that waits for the decision on each call before it runs.

    It has no attribute from which code of a CodeAgent could reach the plain tool or the approval.
    """

    skip_forward_signature_validation = True

    def __init__(self, tool: Tool, approval: WaitingCalls) -> None:
        self.name, self.description, self.inputs = tool.name, tool.description, tool.inputs
        self.output_type, self.output_schema = tool.output_type, getattr(tool, "output_schema", None)
        self.forward = _build_forward(tool, approval)
        super().__init__()


def _build_forward(tool: Tool, approval: WaitingCalls) -> Callable[..., Any]:
    def forward(*args: Any, **named: Any) -> Any:
        """Run the call as it was decided; raises CallRejected if it may not run."""
        arguments = {**dict(zip(tool.inputs, args, strict=False)), **named}
        if len(args) > len(tool.inputs) or len(arguments) < len(args) + len(named):
            raise TypeError(f"{tool.name} takes {', '.join(tool.inputs)}.")
        decided = approval.decide(tool.name, arguments, _read_schema(tool))
        permission = decided.permission
        if isinstance(permission, Replace):
            if permission.reason is not None:
                raise CallRejected(permission.result)
            return permission.result
        allowed = permission.call
        if allowed.name != tool.name:
            raise CallRejected(approval.fail(decided, HookError(ONLY_ARGUMENTS)))
        try:
            result = tool(**(arguments if allowed == decided.asked else allowed.arguments))
        except BaseException as error:
            approval.fail(decided, error if isinstance(error, Exception) else HookError(CUT_OFF))
            raise
        text = approval.finish(decided, result)
        return text if allowed != decided.asked and tool.output_type in TEXT else result

    return forward


ONLY_ARGUMENTS = "An edit can change the arguments of a call, not its tool."
CUT_OFF = "The call was cut off while it ran. It is not known whether it took effect."


def _list_agents(agent: MultiStepAgent) -> Iterator[MultiStepAgent]:
    """Yield the agent and all agents that it manages."""
    yield agent
    for managed in agent.managed_agents.values():
        if not isinstance(managed, MultiStepAgent):
            raise HookError(f"The calls of {type(managed).__name__} cannot be stopped.")
        yield from _list_agents(managed)


def _require_patience(agent: MultiStepAgent) -> None:
    """Raise HookError if the agent's code runs elsewhere, or is given up while a person thinks."""
    if not isinstance(agent, CodeAgent):
        return
    if not isinstance(agent.python_executor, LocalPythonExecutor):
        raise HookError("Code that runs in another process or sandbox calls its tools there.")
    if agent.python_executor.timeout_seconds is not None:
        raise HookError('Pass executor_kwargs={"timeout_seconds": None} to CodeAgent: people need longer.')


def _read_schema(tool: Tool) -> dict[str, Any]:
    """Return the JSON Schema of the tool's inputs."""
    kinds = {name: _read_kind(each) for name, each in tool.inputs.items()}
    required = [name for name, each in tool.inputs.items() if not each.get("nullable")]
    return {"type": "object", "properties": kinds, "required": required, "additionalProperties": False}


def _read_kind(given: Any) -> dict[str, Any]:
    kinds = given["type"] if isinstance(given["type"], list) else [given["type"]]
    known = [kind for kind in kinds if kind in JSON_TYPES]
    if len(known) < len(kinds):
        return {"description": given.get("description", "")}
    accepted = [*known, *(["null"] if given.get("nullable") else [])]
    return {
        "type": accepted[0] if len(accepted) == 1 else accepted,
        "description": given.get("description", ""),
    }
