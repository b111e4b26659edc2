"""Answers that type checkers refuse."""

from placet.hook import InterruptionMetadata, MemorySaver, ReactAgent

agent = ReactAgent("clerk", lambda messages, tools: "done", saver=MemorySaver())
agent.resume("t", {"a": "aprove"})  # refused: dict-item, reportArgumentType
agent.resume("t", {"a": True})  # refused: dict-item, reportArgumentType
agent.resume("t", {"a": None})  # refused: dict-item, reportArgumentType
agent.resume("t", {"a": {"decision": "aprove"}})  # refused: typeddict-item dict-item, reportArgumentType
agent.resume("t", {"a": {"arguments": {}}})  # refused: typeddict-item dict-item, reportArgumentType
agent.resume("t", {"a": {"decision": "reject", "reson": ""}})  # refused: dict-item, reportArgumentType
agent.resume("t", ["a"])  # refused: list-item, reportArgumentType
agent.resume("t", "approve")  # refused: arg-type, reportArgumentType
agent.resume({"a": "approve"}, "t")  # refused: arg-type, reportArgumentType
agent.resume("t", True)  # refused: arg-type, reportArgumentType


def decide(waiting: InterruptionMetadata) -> None:
    waiting.approve()  # refused: call-arg, reportCallIssue
    waiting.edit("a", 7)  # refused: arg-type, reportArgumentType
    waiting.aprove_all()  # refused: attr-defined, reportAttributeAccessIssue
