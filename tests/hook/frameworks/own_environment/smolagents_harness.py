"""An agent of smolagents with a scripted model; its tools are gated."""

from collections.abc import Mapping
from typing import Any

from smolagents import ChatMessage, MessageRole, Model, Tool, ToolCallingAgent
from smolagents.models import ChatMessageToolCall, ChatMessageToolCallFunction

from placet.errors import CallRejected
from placet.hook import ToolCall
from placet.hook.frameworks.smolagents import SmolagentsApproval
from placet.testing.approvals import Scene, ask_helper
from tests.hook.frameworks.own_environment.repeated_runs import RepeatedRunHarness, RunRecorder

END = (ToolCall(id="end", name="final_answer", arguments={"answer": "done"}),)


class RecordingApproval(RunRecorder, SmolagentsApproval):
    """The adapter."""


class ScriptedModel(Model):  # type: ignore[misc,unused-ignore]
    """Makes the calls of each turn; ends when one of them waits."""

    def __init__(self, scene: Scene, approval: RecordingApproval) -> None:
        super().__init__()
        self.turns, self.approval = list(scene.turns), approval

    def generate(self, messages: Any, *args: Any, **named: Any) -> ChatMessage:
        turn = self.turns.pop(0) if self.turns and not self.approval.errors else END
        calls = [
            ChatMessageToolCall(
                id=call.id,
                type="function",
                function=ChatMessageToolCallFunction(name=call.name, arguments=dict(call.arguments)),
            )
            for call in turn
        ]
        return ChatMessage(role=MessageRole.ASSISTANT, content=None, tool_calls=calls)


class RecordedTool(Tool):  # type: ignore[misc,unused-ignore]
    """A tool of the contract; smolagents wants the arguments in its docstring."""

    skip_forward_signature_validation = True
    output_type = "string"

    def __init__(self, function: Any) -> None:
        self.name = function.__name__
        self.description = function.__doc__
        names = [name for name in function.__annotations__ if name != "return"]
        self.inputs = {name: {"type": "string", "description": name} for name in names}
        self.forward = function
        super().__init__()


class RecordingAgent(ToolCallingAgent):  # type: ignore[misc,unused-ignore]
    """Keeps what its model reads of each call. Of parallel calls smolagents shows only the first failure."""

    def __init__(self, harness: "SmolagentsHarness", scene: Scene, approval: Any, **options: Any) -> None:
        self.harness = harness
        self.results: dict[str, str] = {}
        tools = [RecordedTool(function) for function in harness.tools]
        super().__init__(tools=tools, model=ScriptedModel(scene, approval), verbosity_level=0, **options)

    def execute_tool_call(self, tool_name: str, arguments: Any) -> Any:
        is_scripted = tool_name in {call.name for call in self.harness.calls}
        name = self.harness.find_call_id(tool_name, arguments) if is_scripted else ""
        try:
            result = super().execute_tool_call(tool_name, arguments)
        except Exception as error:
            rejected = isinstance(error.__cause__, CallRejected)
            self.results[name] = str(error.__cause__ if rejected else error)
            raise
        self.results[name] = str(result)
        return result


class SmolagentsHarness(RepeatedRunHarness):
    """A ToolCallingAgent with four tools; a child is an agent that it manages."""

    adapter = RecordingApproval

    def run_agent(self, approval: Any) -> Mapping[str, str]:
        agent = RecordingAgent(self, self.scene, approval)
        if self.scene.by_child:
            agent.name, agent.description = "helper", "Helps."
            agent = RecordingAgent(self, ask_helper(task="clean up"), approval, managed_agents=[agent])
        approval.gate(agent)
        agent.run("go")
        return {call_id: text for call_id, text in agent.results.items() if call_id}
