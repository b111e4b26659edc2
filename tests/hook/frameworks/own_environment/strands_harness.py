"""Strands Agents with the approval plugin: a scripted model, and sessions in files."""

import json
from collections.abc import AsyncIterable, Iterable, Sequence
from pathlib import Path
from typing import Any, ClassVar

from strands import Agent, tool
from strands.models import Model
from strands.session.file_session_manager import FileSessionManager

from placet.errors import ThreadPaused
from placet.hook import InterruptionMetadata, SqliteSaver
from placet.hook.answer_validation import Feedback
from placet.hook.frameworks.strands import StrandsApproval
from placet.testing.approvals import LAST_WORDS, Harness, Scene
from tests.hook.killable_process import MortalSaver, make_mortal


class ScriptedStrandsModel(Model):
    """Makes the calls of the scene, turn by turn."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene

    def update_config(self, **model_config: Any) -> None:
        return

    def get_config(self) -> dict[str, Any]:
        return {}

    def structured_output(self, *args: Any, **named: Any) -> Any:
        raise NotImplementedError

    async def stream(self, messages: Any, *args: Any, **named: Any) -> AsyncIterable[Any]:
        said = sum(message["role"] == "assistant" for message in messages)
        calls = self.scene.turns[said] if said < len(self.scene.turns) else ()
        yield {"messageStart": {"role": "assistant"}}
        for call in calls:
            use = {"toolUse": {"name": call.name, "toolUseId": call.id}}
            yield {"contentBlockStart": {"start": use}}
            yield {"contentBlockDelta": {"delta": {"toolUse": {"input": json.dumps(call.arguments)}}}}
            yield {"contentBlockStop": {}}
        if not calls:
            yield {"contentBlockStart": {"start": {}}}
            yield {"contentBlockDelta": {"delta": {"text": LAST_WORDS}}}
            yield {"contentBlockStop": {}}
        yield {"messageStop": {"stopReason": "tool_use" if calls else "end_turn"}}


class StrandsHarness(Harness):
    """An agent of Strands with four tools, stopped by the plugin."""

    saver_type: ClassVar[type[SqliteSaver]] = SqliteSaver

    def __init__(self, folder: Path, scene: Scene, **named: Any) -> None:
        super().__init__(folder, scene, **named)
        self.saver = self.saver_type(folder / "approvals.db", clock=self.clock)
        self.approval = StrandsApproval(self.hook, saver=self.saver, clock=self.clock)

    def build_agent(self, thread_id: str) -> Agent:
        name = thread_id.encode().hex()  # the name of a folder
        sessions = FileSessionManager(session_id=name, storage_dir=str(self.folder / "sessions"))
        return Agent(
            agent_id="worker",
            model=ScriptedStrandsModel(self.scene),
            tools=[tool(each) for each in self.tools],
            session_manager=sessions,
            plugins=[self.approval],
            callback_handler=None,
        )

    def start(self, thread_id: str) -> InterruptionMetadata | None:
        agent = self.build_agent(thread_id)
        try:
            agent("go")
        except TypeError as error:  # Strands itself refuses a message while interrupts are open
            raise ThreadPaused from error
        return self.approval.waiting(agent)

    def resume(self, thread_id: str, feedback: Feedback | None) -> InterruptionMetadata | None:
        agent = self.build_agent(thread_id)
        self.approval.resume(agent, feedback)
        return self.approval.waiting(agent)

    def stream(self, thread_id: str) -> Iterable[InterruptionMetadata]:
        stopped = self.start(thread_id)
        return [] if stopped is None else [stopped]

    def read_tool_results(self, thread_id: str) -> Sequence[tuple[str, str]]:
        blocks = [block for message in self.build_agent(thread_id).messages for block in message["content"]]
        results = [block["toolResult"] for block in blocks if "toolResult" in block]
        return [(result["toolUseId"], result["content"][0]["text"]) for result in results]

    def close(self) -> None:
        self.saver.close()


class KillableStrands(StrandsHarness):
    """May be killed before each write of its saver and each run of a tool."""

    saver_type = MortalSaver

    def build_agent(self, thread_id: str) -> Agent:
        self.tools = tuple(map(make_mortal, self.tools))
        return super().build_agent(thread_id)
