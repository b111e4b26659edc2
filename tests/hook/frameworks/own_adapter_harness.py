"""The adapter of the guide "Write your own adapter" as the contract of every adapter drives it."""

import importlib.util
import sys
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

from placet.hook import Approver, InterruptionMetadata
from placet.hook.answer_validation import Feedback
from placet.hook.thread_resumption import AgentThreads
from placet.hook.tools import as_tool
from placet.testing.approvals import LAST_WORDS, Harness, Scene

SNIPPET = Path(__file__).parents[3] / "docs/snippets/own_adapter.py"


@cache
def load_snippet() -> ModuleType:
    """Return the part of the guide's program that is above what its users write."""
    program = SNIPPET.read_text("utf-8").partition("\n# What your users write\n")[0]
    spec = importlib.util.spec_from_loader("own_adapter", loader=None)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[module.__name__] = module
    exec(compile(program, str(SNIPPET), "exec"), module.__dict__)
    return module


class LittleHarness(Harness):
    """The guide's framework with the guide's adapter."""

    def __init__(self, folder: Path, scene: Scene, **named: Any) -> None:
        super().__init__(folder, scene, **named)
        own = load_snippet()
        tools = [as_tool(function) for function in self.tools]
        approver = Approver(self.hook, saver=self.saver, reviews=self.reviews, clock=self.clock)
        self.approval = own.LittleApproval(approver, {tool.name: tool.schema for tool in tools})
        functions = {tool.name: tool.function for tool in tools}
        self.agent = own.LittleFramework(folder / "threads.db", self.reply, functions, self.approval)

    def reply(self, messages: Sequence[dict[str, Any]]) -> dict[str, Any]:
        said = sum(message["role"] == "assistant" for message in messages)
        if said == len(self.scene.turns):
            return {"content": LAST_WORDS}
        return {"content": "", "tool_calls": [call.to_dict() for call in self.scene.turns[said]]}

    def start(self, thread_id: str) -> InterruptionMetadata | None:
        return keep_interruption(self.approval.send(self.agent, thread_id, "go"))

    def resume(self, thread_id: str, feedback: Feedback | None) -> InterruptionMetadata | None:
        return keep_interruption(self.approval.resume(self.agent, thread_id, feedback))

    def stream(self, thread_id: str) -> Iterable[InterruptionMetadata]:
        stopped = self.start(thread_id)
        return [] if stopped is None else [stopped]

    def read_tool_results(self, thread_id: str) -> Sequence[tuple[str, str]]:
        results = [message for message in self.agent.load(thread_id) if message["role"] == "tool"]
        return [(message["tool_call_id"], message["content"]) for message in results]

    def threads(self) -> AgentThreads:
        return self.approval.approver.threads_of(self.resume_turn)

    def resume_turn(self, key: str) -> InterruptionMetadata | None:
        return self.resume(key.rpartition("/")[0], None)

    def close(self) -> None:
        self.agent.rows.close()
        super().close()


def keep_interruption(outcome: str | InterruptionMetadata) -> InterruptionMetadata | None:
    return outcome if isinstance(outcome, InterruptionMetadata) else None
