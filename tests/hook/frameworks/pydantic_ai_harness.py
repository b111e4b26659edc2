"""Drives Pydantic AI with a scripted model through the contract."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterable, Sequence
from pathlib import Path
from typing import Any

from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, FunctionModel

from placet.hook import InterruptionMetadata
from placet.hook.answer_validation import Feedback
from placet.hook.frameworks.pydantic_ai import PydanticAIApproval
from placet.hook.thread_resumption import AgentThreads
from placet.testing.approvals import LAST_WORDS, Harness, Scene, ask_helper


def make_scripted_model(scene: Scene) -> FunctionModel:
    """A model that asks for the scene's calls, turn by turn."""

    def reply(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        number = sum(isinstance(message, ModelResponse) for message in messages)
        if number >= len(scene.turns):
            return ModelResponse(parts=[TextPart(LAST_WORDS)])
        turn = scene.turns[number]
        return ModelResponse(parts=[ToolCallPart(call.name, call.arguments, call.id) for call in turn])

    async def pieces(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[Any]:
        for number, part in enumerate(reply(messages, info).parts):
            if isinstance(part, ToolCallPart):
                yield {
                    number: DeltaToolCall(
                        part.tool_name, json.dumps(part.args), tool_call_id=part.tool_call_id
                    )
                }
            elif isinstance(part, TextPart):
                yield part.content

    return FunctionModel(reply, stream_function=pieces)


class PydanticAI(Harness):
    is_async = True
    children = "are refused"

    def __init__(self, folder: Path, scene: Scene, **named: Any) -> None:
        super().__init__(folder, scene, **named)
        options: Any = {"saver": self.saver, "reviews": self.reviews, "clock": self.clock}
        self.approval = PydanticAIApproval(self.hook, **options)
        self.agent = self.build_agent(scene, self.tools)
        if scene.by_child:
            child = self.agent

            async def helper(task: str) -> str:
                """Help."""
                return str((await child.run(task)).output)

            self.agent = self.build_agent(ask_helper(task="clean up"), (helper, *self.tools))

    def build_agent(self, scene: Scene, tools: Sequence[Any]) -> Agent[None, str]:
        return Agent(make_scripted_model(scene), tools=tools, capabilities=[self.approval])

    def start(self, thread_id: str) -> InterruptionMetadata | None:
        return _stopped(asyncio.run(self.approval.run(self.agent, "Do it.", thread_id=thread_id)))

    def resume(self, thread_id: str, feedback: Feedback | None) -> InterruptionMetadata | None:
        return _stopped(asyncio.run(self.approval.resume(self.agent, thread_id, feedback)))

    def stream(self, thread_id: str) -> Iterable[InterruptionMetadata]:
        async def watch() -> list[Any]:
            return [event async for event in self.approval.stream(self.agent, "Do it.", thread_id=thread_id)]

        return [event for event in asyncio.run(watch()) if isinstance(event, InterruptionMetadata)]

    def read_tool_results(self, thread_id: str) -> Sequence[tuple[str, str]]:
        return [
            (part.tool_call_id, str(part.content))
            for message in self.approval.messages(thread_id)
            for part in message.parts
            if isinstance(part, ToolReturnPart)
        ]

    def threads(self) -> AgentThreads:
        return self.approval.threads_of(self.agent)


def _stopped(outcome: Any) -> InterruptionMetadata | None:
    if isinstance(outcome, InterruptionMetadata):
        return outcome
    assert outcome.output == LAST_WORDS
    return None
