"""A program with the OpenAI Agents SDK that type checkers accept, and in which the SDK's types stay."""

from dataclasses import dataclass
from typing import assert_type

from agents import Agent, RunResult, RunResultStreaming, function_tool

from placet.hook import HumanInTheLoopHook, InterruptionMetadata, MemorySaver
from placet.hook.frameworks.openai_agents import OpenAIAgentsApproval, RepeatedResult


@dataclass
class Session:
    user: str


@function_tool
def send_mail(to: str) -> str:
    """Send a mail."""
    return to


approval = OpenAIAgentsApproval(HumanInTheLoopHook({"send_mail": True}), saver=MemorySaver(), agent="clerk")
tools = approval.gate_tools([send_mail])
agent = Agent[Session]("clerk", tools=tools)
outcome = approval.run_sync(agent, "go", thread_id="t", context=Session("ann"), max_turns=5)
assert_type(outcome, RunResult | RepeatedResult | InterruptionMetadata)
if isinstance(outcome, RunResult):
    assert_type(outcome.final_output_as(int), int)


async def main() -> None:
    again = await approval.resume(agent, "t", {"a": "approve"}, context=Session("ann"))
    assert_type(again, RunResult | RepeatedResult | InterruptionMetadata)
    async for event in approval.stream(agent, "go", thread_id="t"):
        if isinstance(event, RunResultStreaming):
            assert_type(event.current_turn, int)
