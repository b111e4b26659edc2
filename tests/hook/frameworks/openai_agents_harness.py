"""Drives the OpenAI Agents SDK with a scripted model through the contract; nothing is traced or sent."""

import asyncio
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from agents import Agent, Model, ModelResponse, RunConfig, Usage, function_tool
from agents.testing import ScriptedModel, assistant_message, function_call

from placet.hook import InterruptionMetadata
from placet.hook.answer_validation import Feedback
from placet.hook.frameworks.openai_agents import OpenAIAgentsApproval
from placet.hook.thread_resumption import AgentThreads
from placet.testing.approvals import LAST_WORDS, Harness, Scene, ask_helper

QUIET = RunConfig(tracing_disabled=True)


class ScriptedSdkModel(Model):
    """A model that asks for the scene's calls, turn by turn."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene

    async def get_response(
        self, system_instructions: Any, input: Any, *rest: Any, **named: Any
    ) -> ModelResponse:
        return ModelResponse(output=self.reply(input), usage=Usage(), response_id=None)

    def stream_response(self, system_instructions: Any, input: Any, *rest: Any, **named: Any) -> Any:
        told = ScriptedModel([self.reply(input)])
        return told.stream_response(system_instructions, input, *rest, **named)

    def reply(self, given: Any) -> list[Any]:
        asked = {item["call_id"] for item in given if item.get("type") == "function_call"}
        turns = (turn for turn in self.scene.turns if not asked & {call.id for call in turn})
        turn = next(turns, None)
        if turn is None:
            return [assistant_message(LAST_WORDS)]
        return [function_call(call.name, call.arguments, call_id=call.id) for call in turn]


class OpenAIAgents(Harness):
    is_async = True
    children = "wait"

    def __init__(self, folder: Path, scene: Scene, **named: Any) -> None:
        super().__init__(folder, scene, **named)
        options: Any = {"saver": self.saver, "reviews": self.reviews, "clock": self.clock}
        self.approval = OpenAIAgentsApproval(self.hook, **options)
        tools: Any = [function_tool(tool) for tool in self.tools]
        self.agent = self.build_agent(scene, tools)
        if scene.by_child:
            helper = self.agent.as_tool("helper", "Helps.", run_config=QUIET)
            self.agent = self.build_agent(ask_helper(input="clean up"), [helper, *tools])

    def build_agent(self, scene: Scene, tools: Sequence[Any]) -> Agent[Any]:
        return Agent(name="assistant", model=ScriptedSdkModel(scene), tools=self.approval.gate_tools(tools))

    def start(self, thread_id: str) -> InterruptionMetadata | None:
        running = self.approval.run(self.agent, "Do it.", thread_id=thread_id, run_config=QUIET)
        return _stopped(asyncio.run(running))

    def resume(self, thread_id: str, feedback: Feedback | None) -> InterruptionMetadata | None:
        return _stopped(asyncio.run(self.approval.resume(self.agent, thread_id, feedback, run_config=QUIET)))

    def stream(self, thread_id: str) -> Iterable[InterruptionMetadata]:
        async def watch() -> list[Any]:
            events = self.approval.stream(self.agent, "Do it.", thread_id=thread_id, run_config=QUIET)
            return [event async for event in events]

        return [event for event in asyncio.run(watch()) if isinstance(event, InterruptionMetadata)]

    def read_tool_results(self, thread_id: str) -> Sequence[tuple[str, str]]:
        return [
            (item["call_id"], item["output"])
            for item in self.approval.messages(thread_id)
            if item.get("type") == "function_call_output"
        ]

    def threads(self) -> AgentThreads:
        return self.approval.threads_of(self.agent, run_config=QUIET)


def _stopped(outcome: Any) -> InterruptionMetadata | None:
    if isinstance(outcome, InterruptionMetadata):
        return outcome
    assert outcome.final_output == LAST_WORDS
    return None
