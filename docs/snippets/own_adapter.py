"""An adapter of your own: a framework with a seam before and after each tool call, and the lines for it."""

import json
import os
import sqlite3
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from placet import PlacetClient
from placet.errors import ThreadPaused
from placet.hook import (
    Approver,
    HumanInTheLoopHook,
    InterruptionMetadata,
    Replace,
    ServerReviews,
    SqliteSaver,
    ToolCall,
    Wait,
)
from placet.hook.answer_validation import Feedback

Message = dict[str, Any]


class Seams(Protocol):
    """What the framework calls before and after each tool call."""

    def before(self, thread_id: str, messages: list[Message], call: Message) -> Message | str: ...

    def after(self, thread_id: str, messages: list[Message], call: Message, result: str) -> str: ...


class LittleFramework:
    """Stands for your framework: stores threads, calls the model, and runs its tools one after another."""

    def __init__(self, file: str, model: Callable[..., Message], tools: Mapping[str, Any], seams: Seams):
        self.model, self.tools, self.seams = model, tools, seams
        self.rows = sqlite3.connect(file, isolation_level=None, check_same_thread=False)
        self.rows.execute("CREATE TABLE IF NOT EXISTS threads (id TEXT PRIMARY KEY, messages TEXT)")

    def load(self, thread_id: str) -> list[Message]:
        row = self.rows.execute("SELECT messages FROM threads WHERE id = ?", (thread_id,)).fetchone()
        return json.loads(row[0]) if row else []

    def save(self, thread_id: str, messages: list[Message]) -> None:
        self.rows.execute("REPLACE INTO threads VALUES (?, ?)", (thread_id, json.dumps(messages)))

    def run(self, thread_id: str, *new: Message) -> str:
        messages = [*self.load(thread_id), *new]
        while True:
            for call in open_calls(messages):
                said = self.seams.before(thread_id, messages, call)
                if not isinstance(said, str):
                    result = self.tools[said["name"]](**said["arguments"])
                    said = self.seams.after(thread_id, messages, call, result)
                messages.append({"role": "tool", "tool_call_id": call["id"], "content": said})
                self.save(thread_id, messages)
            if messages[-1]["role"] == "assistant":
                return str(messages[-1]["content"])
            messages.append({"role": "assistant", **self.model(messages)})
            self.save(thread_id, messages)


def open_calls(messages: list[Message]) -> list[Message]:
    """Return the calls without a result of the model's last reply."""
    replies = [number for number, message in enumerate(messages) if message["role"] == "assistant"]
    calls = messages[replies[-1]].get("tool_calls", []) if replies else []
    ended = {message.get("tool_call_id") for message in messages[replies[-1] :]} if replies else set()
    return [call for call in calls if call["id"] not in ended]


# The adapter


class Stopped(Exception):
    """Ends the framework's run: calls wait for a reviewer."""

    def __init__(self, interruption: InterruptionMetadata) -> None:
        self.interruption = interruption


class LittleApproval:
    """Connects the seams of LittleFramework to an Approver."""

    def __init__(self, approver: Approver, schemas: Mapping[str, Mapping[str, Any] | None]) -> None:
        self.approver, self.schemas = approver, schemas

    def before(self, thread_id: str, messages: list[Message], call: Message) -> Message | str:
        key, turn = name_turn(thread_id, messages)
        context: Any = {"turn": turn, "state": {"messages": messages}, "schemas": self.schemas}
        permission = self.approver.ask(key, ToolCall(**call), **context)
        if isinstance(permission, Wait):
            raise Stopped(permission.interruption)
        return permission.result if isinstance(permission, Replace) else permission.call.to_dict()

    def after(self, thread_id: str, messages: list[Message], call: Message, result: str) -> str:
        return self.approver.finish(name_turn(thread_id, messages)[0], ToolCall(**call), result)

    def send(self, agent: LittleFramework, thread_id: str, text: str) -> str | InterruptionMetadata:
        if open_calls(agent.load(thread_id)):
            raise ThreadPaused
        return self.run(agent, thread_id, {"role": "user", "content": text})

    def resume(
        self, agent: LittleFramework, thread_id: str, feedback: Feedback | None = None
    ) -> str | InterruptionMetadata:
        key, turn = name_turn(thread_id, agent.load(thread_id))
        if feedback is not None or self.approver.waiting(key) or not turn:
            self.approver.answer(key, feedback)
        return self.run(agent, thread_id)

    def run(self, agent: LittleFramework, thread_id: str, *new: Message) -> str | InterruptionMetadata:
        try:
            return agent.run(thread_id, *new)
        except Stopped as stopped:
            return stopped.interruption


def name_turn(thread_id: str, messages: list[Message]) -> tuple[str, list[ToolCall]]:
    """Return the key of the thread's last turn with calls, and those calls."""
    turns = [message["tool_calls"] for message in messages if message.get("tool_calls")]
    return f"{thread_id}/{len(turns)}", [ToolCall(**call) for call in turns[-1]] if turns else []


# What your users write


def refund(order: str) -> str:
    """Pay an order back."""
    return f"refunded {order}"


def model(messages: list[Message]) -> Message:
    """Stand in for the model: ask for a refund, then repeat the tool's result."""
    if messages[-1]["role"] == "tool":
        return {"content": messages[-1]["content"]}
    return {"content": "", "tool_calls": [{"id": "c1", "name": "refund", "arguments": {"order": "17"}}]}


client = PlacetClient(os.environ["PLACET_SERVER"], os.environ["PLACET_KEY"])
hook = HumanInTheLoopHook({"refund": "Refunds need approval"})
approver = Approver(hook, saver=SqliteSaver("approvals.db"), reviews=ServerReviews(client))
approval = LittleApproval(approver, {"refund": None})
agent = LittleFramework("threads.db", model, {"refund": refund}, approval)

stopped = approval.send(agent, "order 17", "Pay the customer back.")
assert isinstance(stopped, InterruptionMetadata)
assert stopped.case is not None
print("Please decide:", stopped.case["review_url"])
assert isinstance(approval.resume(agent, "order 17"), InterruptionMetadata), "nobody has decided yet"
assert approval.resume(agent, "order 17", stopped.approve_all()) == "refunded 17"
client.close()
