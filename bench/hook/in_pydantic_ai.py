"""Pydantic AI with its own deferred tools, and with our approval."""

from collections.abc import Callable, Iterator
from typing import Any
from uuid import uuid4

from pydantic_ai import Agent, DeferredToolRequests, Tool
from pydantic_ai.conversation import Conversation, ConversationTypeAdapter
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel

from bench.hook.ours import hook, saver
from bench.hook.scene import GO, LAST_WORDS, ON_A_LOOP, TOOL, WITH_PLACET, Contestant, Setting, apay
from bench.hook.store import ThreadStore, list_stores
from placet.hook import InterruptionMetadata
from placet.hook.frameworks.pydantic_ai import PydanticAIApproval

NAME = "Pydantic AI"


def own(setting: Setting) -> Iterator[Contestant]:
    """Tools that require approval: a run ends with DeferredToolRequests, the next begins with results."""
    for kept in list_stores(setting, NAME):
        yield Contestant(kept.name, _own_cycle(setting, kept))


def _own_cycle(setting: Setting, kept: ThreadStore) -> Callable[[], str]:
    tool = Tool(apay, name=TOOL, requires_approval=True)
    agent = Agent(_model(setting), tools=[tool], output_type=[str, DeferredToolRequests])
    loop = setting.loop()

    def keep(thread_id: str, conversation: Conversation) -> None:
        as_text = ConversationTypeAdapter.dump_json
        kept.put(thread_id, as_text(conversation).decode() if kept.as_text else conversation)

    async def run() -> str:
        thread_id = uuid4().hex
        stopped = await agent.run(GO)
        keep(thread_id, stopped.conversation)
        assert isinstance(stopped.output, DeferredToolRequests)
        waiting = [call.tool_call_id for call in stopped.output.approvals]
        kept.decide(thread_id, dict.fromkeys(waiting, "approve"))
        read: Any = kept.get(thread_id)
        conversation = ConversationTypeAdapter.validate_json(read) if kept.as_text else read
        requests = conversation.deferred_tool_requests
        assert requests is not None
        results = requests.build_results(approve_all=True)
        ended = await agent.run(conversation=conversation, deferred_tool_results=results)
        keep(thread_id, ended.conversation)
        return str(ended.output)

    return lambda: loop.run_until_complete(run())


def adapted(setting: Setting) -> Iterator[Contestant]:
    """Our capability in its place."""
    approval = PydanticAIApproval(hook(), saver=saver(setting, "pydantic-ai"), parallel=[TOOL])
    outputs = [str, DeferredToolRequests]  # as above: named here, it is not worked out again for each run
    agent = Agent(
        _model(setting), tools=[Tool(apay, name=TOOL)], output_type=outputs, capabilities=[approval]
    )
    loop = setting.loop()

    def cycle() -> str:
        thread_id = uuid4().hex
        stopped = approval.run_sync(agent, GO, thread_id=thread_id)
        assert isinstance(stopped, InterruptionMetadata)
        ended: Any = approval.resume_sync(agent, thread_id, stopped.approve_all())
        return str(ended.output)

    async def run() -> str:
        thread_id = uuid4().hex
        stopped = await approval.run(agent, GO, thread_id=thread_id)
        assert isinstance(stopped, InterruptionMetadata)
        ended: Any = await approval.resume(agent, thread_id, stopped.approve_all())
        return str(ended.output)

    yield Contestant(f"{NAME}{WITH_PLACET}", cycle)
    if setting.folder is not None:
        yield Contestant(f"{NAME}{WITH_PLACET}{ON_A_LOOP}", lambda: loop.run_until_complete(run()))


def _model(setting: Setting) -> FunctionModel:
    async def reply(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        last = messages[-1]
        if isinstance(last, ModelRequest) and any(isinstance(part, ToolReturnPart) for part in last.parts):
            return ModelResponse(parts=[TextPart(LAST_WORDS)])
        return ModelResponse(parts=[ToolCallPart(TOOL, dict(given), id) for id, given in setting.arguments()])

    return FunctionModel(reply)
