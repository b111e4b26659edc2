"""A program with Pydantic AI that type checkers accept, and in which Pydantic AI's types stay."""

from dataclasses import dataclass
from typing import assert_type

from pydantic import BaseModel
from pydantic_ai import Agent, AgentRunResult, UsageLimits

from placet.hook import HumanInTheLoopHook, InterruptionMetadata, MemorySaver
from placet.hook.frameworks.pydantic_ai import PydanticAIApproval, PydanticOutcome


class Answer(BaseModel):
    text: str


@dataclass
class Session:
    user: str


hook = HumanInTheLoopHook({"send_mail": True})
approval = PydanticAIApproval(hook, saver=MemorySaver(), repeatable=["look"], agent="clerk")
agent = Agent("test", deps_type=Session, output_type=Answer, capabilities=[approval])
assert_type(agent, Agent[Session, Answer])
outcome = approval.run_sync(agent, "go", thread_id="t", deps=Session("ann"), usage_limits=UsageLimits())
assert_type(outcome, AgentRunResult[Answer] | InterruptionMetadata)
if not isinstance(outcome, InterruptionMetadata):
    assert_type(outcome.output.text, str)
number = approval.resume_sync(agent, "t", {"a": "approve"}, deps=Session("ann"), output_type=int)
assert_type(number, AgentRunResult[int] | InterruptionMetadata)
anything: PydanticOutcome = outcome


async def main() -> None:
    assert_type(
        await approval.resume(agent, "t", {"a": "reject"}, deps=Session("ann")),
        AgentRunResult[Answer] | InterruptionMetadata,
    )
    async for event in approval.stream(agent, "go", thread_id="t", deps=Session("ann")):
        if isinstance(event, AgentRunResult):
            assert_type(event.output, Answer)
