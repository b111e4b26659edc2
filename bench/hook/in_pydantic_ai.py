"""Pydantic AI with its own deferred tools, and with our approval."""

from typing import Any
from uuid import uuid4

from pydantic_ai import Agent, AgentRunResult, DeferredToolRequests, Tool
from pydantic_ai.messages import (
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel

from assent.hook import InterruptionMetadata
from assent.hook.frameworks.pydantic_ai import Approval
from bench.hook.ours import hook, saver
from bench.hook.scene import AS_TEXT, GO, LAST_WORDS, TOOL, Contestant, Setting, apay
from bench.hook.store import store

NAME = "Pydantic AI"


def own(setting: Setting, *, as_text: bool = False) -> Contestant:
    """Tools that require approval: a run ends with DeferredToolRequests, the next begins with results."""
    tool = Tool(apay, name=TOOL, requires_approval=True)
    agent = Agent(_model(setting), tools=[tool], output_type=[str, DeferredToolRequests])
    kept, loop = store(setting, "pydantic-ai", as_text=as_text), setting.loop()

    def keep(thread_id: str, result: AgentRunResult[Any]) -> None:
        kept.put(thread_id, result.all_messages_json().decode() if kept.as_text else result.all_messages())

    async def run() -> str:
        thread_id = uuid4().hex
        stopped = await agent.run(GO)
        keep(thread_id, stopped)
        assert isinstance(stopped.output, DeferredToolRequests)
        results = stopped.output.build_results(approve_all=True)
        kept.decide(thread_id, dict.fromkeys(results.approvals, "approve"))
        read: Any = kept.get(thread_id)
        history = ModelMessagesTypeAdapter.validate_json(read) if kept.as_text else read
        ended = await agent.run(message_history=history, deferred_tool_results=results)
        keep(thread_id, ended)
        return str(ended.output)

    return Contestant(f"{NAME}{AS_TEXT}" if as_text else NAME, lambda: loop.run_until_complete(run()))


def adapted(setting: Setting) -> Contestant:
    """Our capability in its place."""
    approval = Approval(hook(), saver=saver(setting, "pydantic-ai"))
    outputs = [str, DeferredToolRequests]  # as above: named here, it is not worked out again for each run
    agent = Agent(
        _model(setting), tools=[Tool(apay, name=TOOL)], output_type=outputs, capabilities=[approval]
    )
    loop = setting.loop()

    async def run() -> str:
        thread_id = uuid4().hex
        stopped = await approval.run(agent, GO, thread_id=thread_id)
        assert isinstance(stopped, InterruptionMetadata)
        ended: Any = await approval.resume(agent, thread_id, stopped.approve_all())
        return str(ended.output)

    return Contestant(f"{NAME} with Assent", lambda: loop.run_until_complete(run()))


def _model(setting: Setting) -> FunctionModel:
    async def reply(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        last = messages[-1]
        if isinstance(last, ModelRequest) and any(isinstance(part, ToolReturnPart) for part in last.parts):
            return ModelResponse(parts=[TextPart(LAST_WORDS)])
        return ModelResponse(parts=[ToolCallPart(TOOL, dict(given), id) for id, given in setting.arguments()])

    return FunctionModel(reply)
