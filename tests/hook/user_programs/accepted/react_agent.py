"""A program with ReactAgent that type checkers accept."""

from collections.abc import Iterator
from typing import assert_type

from placet.hook import (
    AgentResult,
    FeedbackResult,
    HumanInTheLoopHook,
    InterruptionMetadata,
    MemorySaver,
    ReactAgent,
    ToolCall,
    ToolConfig,
    ToolFeedback,
    requires_approval,
)


async def is_dangerous(call: ToolCall, state: object) -> bool:
    return "DROP" in str(call.arguments)


def execute_sql(query: str) -> str:
    """Run a query."""
    return query


hook = HumanInTheLoopHook(
    {
        "execute_sql": ToolConfig(allowed_decisions=("approve", FeedbackResult.REJECTED), default="hold"),
        "write_*": "Files need approval",
        "read_*": False,
        "send_mail": ToolConfig(when=lambda call, state: call.arguments["to"] != "me"),
        "query": ToolConfig(when=is_dangerous, description=lambda call, state: call.name),
    },
    optional=["write_*", "read_*", "send_mail", "query"],
    on_new_message="queue",
)
agent = ReactAgent("clerk", lambda messages, tools: "done", [execute_sql], [hook], MemorySaver())
outcome = agent.invoke("go", thread_id="t")
assert_type(outcome, AgentResult | InterruptionMetadata)
if isinstance(outcome, InterruptionMetadata):
    agent.resume("t", outcome.approve_all())
    agent.resume("t", outcome.tool_feedbacks)
    agent.resume("t", [outcome.tool_feedbacks[0].reject("no")])
    agent.resume("t", (each.approve() for each in outcome.tool_feedbacks))
agent.resume("t", {"a": "approve", "b": FeedbackResult.REJECTED})
agent.resume("t", {"a": {"decision": "edit", "arguments": {"query": "SELECT 1"}}, "b": "reject"})
by_name: dict[str, FeedbackResult] = {"a": FeedbackResult("approve")}
agent.resume("t", by_name)


@requires_approval("Refunds need approval", allowed_decisions=("approve", "reject"))
def refund(cents: int, *, reason: str = "") -> int:
    return cents


@requires_approval(when=is_dangerous)
async def erase(name: str) -> bool:
    return True


@requires_approval()
def count() -> Iterator[int]:
    yield 1


async def main() -> None:
    assert_type(refund(5, reason="late"), int)
    assert_type(await erase("a"), bool)
    assert_type(count(), Iterator[int])
    assert_type(ToolFeedback(id="a", name="b").approve(), ToolFeedback)
