"""Uses of the adapters that type checkers refuse, because the framework's types stay."""

from dataclasses import dataclass

from agents import Agent as SdkAgent
from langchain.agents import create_agent
from langgraph.checkpoint.memory import InMemorySaver
from pydantic_ai import Agent

from placet.hook import HumanInTheLoopHook, InterruptionMetadata, MemorySaver
from placet.hook.frameworks.langchain import ApprovalMiddleware, resume
from placet.hook.frameworks.openai_agents import OpenAIAgentsApproval
from placet.hook.frameworks.pydantic_ai import PydanticAIApproval


@dataclass
class Session:
    user: str


hook = HumanInTheLoopHook({"send_mail": True})
ApprovalMiddleware(hook)  # type: ignore[call-arg]  # reportCallIssue
ApprovalMiddleware(hook, saver="x.db")  # type: ignore[arg-type]  # reportArgumentType
ApprovalMiddleware([hook], saver=MemorySaver())  # type: ignore[arg-type]  # reportArgumentType
ApprovalMiddleware({"send_mail": True}, saver=MemorySaver())  # type: ignore[arg-type]  # reportArgumentType
ApprovalMiddleware(hook, saver=MemorySaver(), lease=3)  # type: ignore[call-arg]  # reportCallIssue
approval = ApprovalMiddleware[Session](hook, saver=MemorySaver())
graph = create_agent("model", middleware=[approval], context_schema=Session, checkpointer=InMemorySaver())
resume(graph, "t", {"a": "aprove"})  # type: ignore[dict-item]  # reportArgumentType reportCallIssue
resume("t", graph, None)  # type: ignore[call-overload]  # reportArgumentType reportCallIssue
resume(graph, "t", None, context=7)  # type: ignore[call-overload]  # reportArgumentType reportCallIssue

capability = PydanticAIApproval(hook, saver=MemorySaver())
PydanticAIApproval(hook, saver=MemorySaver(), parralel=["look"])  # type: ignore[call-arg]  # reportCallIssue
agent = Agent("test", deps_type=Session, output_type=int, capabilities=[capability])
capability.run_sync(agent, "go", thread_id="t", deps=7)  # type: ignore[misc]  # reportArgumentType
capability.resume_sync("t", agent)  # type: ignore[call-overload]  # reportArgumentType reportCallIssue
outcome = capability.resume_sync(agent, "t", {"a": "approve"})
print(outcome.output)  # type: ignore[union-attr]  # reportAttributeAccessIssue
if not isinstance(outcome, InterruptionMetadata):
    text: str = outcome.output  # type: ignore[assignment]  # reportAssignmentType

sdk_approval = OpenAIAgentsApproval(hook, saver=MemorySaver())
sdk_agent = SdkAgent[Session]("clerk")
sdk_approval.run_sync(sdk_agent, "go", thread_id="t", context=7)  # type: ignore[misc]  # reportArgumentType
sdk_approval.run_sync(agent, "go", thread_id="t")  # type: ignore[arg-type]  # reportArgumentType
sdk_approval.resume_sync("t", sdk_agent)  # type: ignore[arg-type]  # reportArgumentType
sdk_approval.gate_tools([Session("ann")])  # type: ignore[list-item]  # reportArgumentType
sdk_approval.run_sync(sdk_agent, "go", thread_id="t", maxturns=3)  # type: ignore[call-arg]  # reportCallIssue
