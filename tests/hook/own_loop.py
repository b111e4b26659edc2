"""Our own loop as the contract of every framework drives it."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from placet.hook import AgentResult, InterruptionMetadata, ReactAgent, SqliteSaver
from placet.hook.answer_validation import Feedback
from placet.hook.checkpoint import Message
from placet.hook.events import AgentEvent, AgentOutcome
from placet.testing.approvals import LAST_WORDS, Harness, Scene


class OwnLoop(Harness):
    """A ReactAgent on a SQLite file."""

    def __init__(self, folder: Path, scene: Scene, **named: Any) -> None:
        super().__init__(folder, scene, **named)
        self.saver = SqliteSaver(folder / "threads.db")
        self.agent = ReactAgent("clerk", self._model, self.tools, [self.hook], self.saver, clock=self.clock)

    def start(self, thread_id: str) -> InterruptionMetadata | None:
        return _waiting(self.agent.invoke("go", thread_id=thread_id))

    def resume(self, thread_id: str, feedback: Feedback | None) -> InterruptionMetadata | None:
        return _waiting(self.agent.resume(thread_id, feedback))

    def stream(self, thread_id: str) -> Iterable[InterruptionMetadata]:
        events: Iterable[AgentEvent] = self.agent.stream("go", thread_id=thread_id)
        return [event for event in events if isinstance(event, InterruptionMetadata)]

    def read_tool_results(self, thread_id: str) -> Sequence[tuple[str, str]]:
        kept = self.saver.get(thread_id)
        assert kept is not None
        results = [message for message in kept.checkpoint.messages if message["role"] == "tool"]
        return [(message["tool_call_id"], message["content"]) for message in results]

    def close(self) -> None:
        self.saver.close()

    def _model(self, messages: Sequence[Message]) -> Message:
        said = sum(message["role"] == "assistant" for message in messages)
        if said == len(self.scene.turns):
            return {"content": LAST_WORDS}
        return {"tool_calls": [call.to_dict() for call in self.scene.turns[said]]}


def _waiting(outcome: AgentOutcome) -> InterruptionMetadata | None:
    return None if isinstance(outcome, AgentResult) else outcome
