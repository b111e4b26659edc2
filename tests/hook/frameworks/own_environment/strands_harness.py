"""Strands Agents with the approval plugin: a scripted model, and sessions in files."""

import json
from collections.abc import AsyncIterable, Iterable, Sequence
from pathlib import Path
from typing import Any

from strands import Agent, tool
from strands.models import Model
from strands.session.file_session_manager import FileSessionManager

from placet.errors import ThreadPaused
from placet.hook import InterruptionMetadata
from placet.hook.answer_validation import Feedback
from placet.hook.frameworks.strands import StrandsApproval
from placet.hook.thread_resumption import AgentThreads
from placet.testing.approvals import LAST_WORDS, Harness, Scene, ask_helper


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

    resumes_anywhere = False
    children = "wait"
    helper_is_gated = True

    def __init__(self, folder: Path, scene: Scene, **named: Any) -> None:
        super().__init__(folder, scene, **named)
        options: Any = {"saver": self.saver, "reviews": self.reviews, "clock": self.clock}
        self.approval = StrandsApproval(self.hook, **options)

    def build_agent(self, thread_id: str) -> Agent:
        return self.build_agent_of_session(thread_id.encode().hex())  # the name of a folder

    def build_agent_of_session(self, session_id: str) -> Agent:
        sessions = FileSessionManager(session_id=session_id, storage_dir=str(self.folder / "sessions"))
        tools: list[Any] = [tool(each) for each in self.tools]
        named: dict[str, Any] = {"callback_handler": None, "plugins": [self.approval]}
        scene = self.scene
        if scene.by_child:
            gated = named if self.helper_is_gated else {"callback_handler": None}
            helper = Agent(
                name="helper",
                agent_id="helper",
                description="Helps.",
                model=ScriptedStrandsModel(scene),
                tools=list(tools),
                **gated,
            )
            tools, scene = [helper.as_tool(name="helper"), *tools], ask_helper(input="clean up")
        model = ScriptedStrandsModel(scene)
        return Agent(agent_id="worker", model=model, tools=tools, session_manager=sessions, **named)

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

    def threads(self) -> AgentThreads:
        return self.approval.threads_of(self.build_agent_of_session)
