"""Our own loop as the contract of every framework drives it."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from placet.hook import AgentResult, InterruptionMetadata, ReactAgent
from placet.hook.answer_validation import Feedback
from placet.hook.checkpoint import Message
from placet.hook.events import AgentEvent, AgentOutcome
from placet.testing.approvals import LAST_WORDS, Harness, Scene


class OwnLoop(Harness):
    """A ReactAgent on a SQLite file."""

    children = "wait"

    def __init__(self, folder: Path, scene: Scene, **named: Any) -> None:
        super().__init__(folder, scene, **named)
        self.agent = self._build_agent("clerk", self._model, self.tools)
        if scene.by_child:
            child = self.agent.as_tool("Helps.", name="helper")
            self.agent = self._build_agent("chief", self._ask_helper, [child, *self.tools])

    def _build_agent(self, name: str, model: Any, tools: Iterable[Any]) -> ReactAgent:
        options: Any = {"reviews": self.reviews, "clock": self.clock}
        return ReactAgent(name, model, tools, [self.hook], self.saver, **options)

    def start(self, thread_id: str) -> InterruptionMetadata | None:
        return _waiting(self.agent.invoke("go", thread_id=thread_id))

    def resume(self, thread_id: str, feedback: Feedback | None) -> InterruptionMetadata | None:
        return _waiting(self.agent.resume(thread_id, feedback))

    def stream(self, thread_id: str) -> Iterable[InterruptionMetadata]:
        events: Iterable[AgentEvent] = self.agent.stream("go", thread_id=thread_id)
        return [event for event in events if isinstance(event, InterruptionMetadata)]

    def read_tool_results(self, thread_id: str) -> Sequence[tuple[str, str]]:
        kept = self.saver.get(thread_id)
        messages = () if kept is None else kept.checkpoint.messages
        results = [message for message in messages if message["role"] == "tool"]
        return [(message["tool_call_id"], message["content"]) for message in results]

    def threads(self) -> ReactAgent:
        return self.agent

    def _model(self, messages: Sequence[Message]) -> Message:
        said = sum(message["role"] == "assistant" for message in messages)
        if said == len(self.scene.turns):
            return {"content": LAST_WORDS}
        return {"tool_calls": [call.to_dict() for call in self.scene.turns[said]]}

    def _ask_helper(self, messages: Sequence[Message]) -> Message:
        if messages[-1]["role"] == "tool":
            return {"content": LAST_WORDS}
        return {"tool_calls": [{"id": "h1", "name": "helper", "arguments": {"task": "clean up"}}]}


def _waiting(outcome: AgentOutcome) -> InterruptionMetadata | None:
    return None if isinstance(outcome, AgentResult) else outcome
