"""Rules and options that type checkers refuse."""

from datetime import timedelta

from placet.hook import (
    CheckpointRetention,
    FileSaver,
    HumanInTheLoopHook,
    MemorySaver,
    ReactAgent,
    ToolConfig,
    requires_approval,
)


def delete(name: str) -> str:
    return name


def echo(messages: object) -> str:
    return str(messages)


ToolConfig(allowed_decisions=("aprove",))  # refused: arg-type, reportArgumentType
ToolConfig(allowed_decisions="approve")  # refused: arg-type, reportArgumentType
ToolConfig(when=True)  # refused: arg-type, reportArgumentType
ToolConfig(when=lambda call: True)  # refused: arg-type misc, reportArgumentType
ToolConfig(default="approve")  # refused: arg-type, reportArgumentType
ToolConfig(timeout="10m")  # refused: arg-type, reportArgumentType
ToolConfig("Deletes")  # refused: misc call-arg, reportCallIssue
HumanInTheLoopHook(["delete"])  # refused: arg-type, reportArgumentType
HumanInTheLoopHook({"delete": None})  # refused: dict-item, reportArgumentType
HumanInTheLoopHook({delete: True})  # refused: dict-item, reportArgumentType
HumanInTheLoopHook({"delete": True}, on_new_message="drop")  # refused: arg-type, reportArgumentType
HumanInTheLoopHook({"delete": True}, optonal=["delete"])  # refused: call-arg, reportCallIssue
hook = HumanInTheLoopHook({"delete": True})
ReactAgent("clerk", echo, [delete], [hook], "x.db")  # refused: arg-type, reportArgumentType
ReactAgent("clerk", echo, [delete], hook, MemorySaver())  # refused: arg-type, reportArgumentType
ReactAgent("clerk", echo, [delete], [HumanInTheLoopHook])  # refused: list-item, reportArgumentType
ReactAgent("clerk", echo, ["delete"])  # refused: list-item, reportArgumentType
MemorySaver(retain=3)  # refused: arg-type, reportArgumentType
FileSaver(lock_timeout=timedelta(seconds=1))  # refused: call-arg, reportCallIssue
CheckpointRetention(3)  # refused: misc call-arg, reportCallIssue


@requires_approval("Deletes", allowed_decisions=("aprove",))  # refused: arg-type, reportArgumentType
def wipe(name: str) -> str:
    return name


wipe(7)  # refused: arg-type, reportArgumentType
length: int = wipe("a")  # refused: assignment, reportAssignmentType
