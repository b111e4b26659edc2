"""The OpenAI Agents SDK with its own `needs_approval`, and with our approval; nothing is traced or sent."""

from collections.abc import Callable, Iterator
from typing import Any
from uuid import uuid4

from agents import Agent, Model, ModelResponse, RunConfig, Runner, RunState, Usage, function_tool
from agents.testing import assistant_message, function_call

from bench.hook.ours import hook, saver
from bench.hook.scene import GO, LAST_WORDS, ON_A_LOOP, TOOL, WITH_PLACET, Contestant, Setting, apay
from bench.hook.store import ThreadStore, list_stores
from placet.hook import InterruptionMetadata
from placet.hook.frameworks.openai_agents import OpenAIAgentsApproval

NAME = "OpenAI Agents"
QUIET = RunConfig(tracing_disabled=True)


class Scripted(Model):
    """Asks for the calls, then says its last words."""

    def __init__(self, setting: Setting) -> None:
        self._setting = setting

    async def get_response(
        self, system_instructions: Any, input: Any, *rest: Any, **named: Any
    ) -> ModelResponse:
        last = input[-1] if isinstance(input, list) else {}
        output: list[Any] = [assistant_message(LAST_WORDS)]
        if last.get("type") != "function_call_output":
            output = [function_call(TOOL, made, call_id=id) for id, made in self._setting.arguments()]
        return ModelResponse(output=output, usage=Usage(), response_id=None)

    def stream_response(self, *given: Any, **named: Any) -> Any:
        raise NotImplementedError


def own(setting: Setting) -> Iterator[Contestant]:
    """A run ends with interruptions; its state is kept, and run again once they are approved."""
    for kept in list_stores(setting, NAME):
        yield Contestant(kept.name, _own_cycle(setting, kept))


def _own_cycle(setting: Setting, kept: ThreadStore) -> Callable[[], str]:
    tool = function_tool(apay, name_override=TOOL, needs_approval=True)
    agent = Agent(name="payer", model=Scripted(setting), tools=[tool])
    loop = setting.loop()

    async def run() -> str:
        thread_id = uuid4().hex
        stopped = await Runner.run(agent, GO, run_config=QUIET)
        state = stopped.to_state()
        kept.put(thread_id, state.to_string() if kept.as_text else state)
        waiting = [item.call_id or "" for item in stopped.interruptions]
        kept.decide(thread_id, dict.fromkeys(waiting, "approve"))
        read: Any = kept.get(thread_id)
        state = await RunState.from_string(agent, read) if kept.as_text else read
        for item in state.get_interruptions():
            state.approve(item)
        ended = await Runner.run(agent, state, run_config=QUIET)
        kept.put(thread_id, ended.to_state().to_string() if kept.as_text else ended.to_state())
        return str(ended.final_output)

    return lambda: loop.run_until_complete(run())


def adapted(setting: Setting) -> Iterator[Contestant]:
    """Our approval in its place."""
    approval = OpenAIAgentsApproval(hook(), saver=saver(setting, "openai-agents"), parallel=[TOOL])
    tools = approval.gate_tools([function_tool(apay, name_override=TOOL)])
    agent = Agent(name="payer", model=Scripted(setting), tools=tools)
    loop = setting.loop()

    def cycle() -> str:
        thread_id = uuid4().hex
        stopped = approval.run_sync(agent, GO, thread_id=thread_id, run_config=QUIET)
        assert isinstance(stopped, InterruptionMetadata)
        ended: Any = approval.resume_sync(agent, thread_id, stopped.approve_all(), run_config=QUIET)
        return str(ended.final_output)

    async def run() -> str:
        thread_id = uuid4().hex
        stopped = await approval.run(agent, GO, thread_id=thread_id, run_config=QUIET)
        assert isinstance(stopped, InterruptionMetadata)
        ended: Any = await approval.resume(agent, thread_id, stopped.approve_all(), run_config=QUIET)
        return str(ended.final_output)

    yield Contestant(f"{NAME}{WITH_PLACET}", cycle)
    if setting.folder is not None:
        yield Contestant(f"{NAME}{WITH_PLACET}{ON_A_LOOP}", lambda: loop.run_until_complete(run()))
