"""Answers that type checkers refuse."""

from placet.hook import InterruptionMetadata, MemorySaver, ReactAgent

agent = ReactAgent("clerk", lambda messages, tools: "done", saver=MemorySaver())
agent.resume("t", {"a": "aprove"})  # type: ignore[dict-item]  # reportArgumentType
agent.resume("t", {"a": True})  # type: ignore[dict-item]  # reportArgumentType
agent.resume("t", {"a": None})  # type: ignore[dict-item]  # reportArgumentType
agent.resume("t", {"a": {"decision": "aprove"}})  # type: ignore[dict-item]  # reportArgumentType
agent.resume("t", {"a": {"arguments": {}}})  # type: ignore[dict-item]  # reportArgumentType
agent.resume("t", {"a": {"decision": "reject", "reson": ""}})  # type: ignore[dict-item]  # reportArgumentType
agent.resume("t", ["a"])  # type: ignore[list-item]  # reportArgumentType
agent.resume("t", "approve")  # type: ignore[arg-type]  # reportArgumentType
agent.resume({"a": "approve"}, "t")  # type: ignore[arg-type]  # reportArgumentType
agent.resume("t", True)  # type: ignore[arg-type]  # reportArgumentType


def decide(waiting: InterruptionMetadata) -> None:
    waiting.approve()  # type: ignore[call-arg]  # reportCallIssue
    waiting.edit("a", 7)  # type: ignore[arg-type]  # reportArgumentType
    waiting.aprove_all()  # type: ignore[attr-defined]  # reportAttributeAccessIssue
