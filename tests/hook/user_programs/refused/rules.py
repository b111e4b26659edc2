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


ToolConfig(allowed_decisions=("aprove",))  # type: ignore[arg-type]  # reportArgumentType
ToolConfig(allowed_decisions="approve")  # type: ignore[arg-type]  # reportArgumentType
ToolConfig(when=True)  # type: ignore[arg-type]  # reportArgumentType
ToolConfig(when=lambda call: True)  # type: ignore[arg-type, misc]  # reportArgumentType
ToolConfig(default="approve")  # type: ignore[arg-type]  # reportArgumentType
ToolConfig(timeout="10m")  # type: ignore[arg-type]  # reportArgumentType
ToolConfig("Deletes")  # type: ignore[call-arg]  # reportCallIssue
HumanInTheLoopHook(["delete"])  # type: ignore[arg-type]  # reportArgumentType
HumanInTheLoopHook({"delete": None})  # type: ignore[dict-item]  # reportArgumentType
HumanInTheLoopHook({delete: True})  # type: ignore[dict-item]  # reportArgumentType
HumanInTheLoopHook({"delete": True}, on_new_message="drop")  # type: ignore[arg-type]  # reportArgumentType
HumanInTheLoopHook({"delete": True}, optonal=["delete"])  # type: ignore[call-arg]  # reportCallIssue
hook = HumanInTheLoopHook({"delete": True})
ReactAgent("clerk", echo, [delete], [hook], "x.db")  # type: ignore[arg-type]  # reportArgumentType
ReactAgent("clerk", echo, [delete], hook, MemorySaver())  # type: ignore[arg-type]  # reportArgumentType
ReactAgent("clerk", echo, [delete], [HumanInTheLoopHook])  # type: ignore[list-item]  # reportArgumentType
ReactAgent("clerk", echo, ["delete"])  # type: ignore[list-item]  # reportArgumentType
MemorySaver(retain=3)  # type: ignore[arg-type]  # reportArgumentType
FileSaver(lock_timeout=timedelta(seconds=1))  # type: ignore[call-arg]  # reportCallIssue
CheckpointRetention(3)  # type: ignore[call-arg]  # reportCallIssue


@requires_approval("Deletes", allowed_decisions=("aprove",))  # type: ignore[arg-type]  # reportArgumentType
def wipe(name: str) -> str:
    return name


wipe(7)  # type: ignore[arg-type]  # reportArgumentType
length: int = wipe("a")  # type: ignore[assignment]  # reportAssignmentType
