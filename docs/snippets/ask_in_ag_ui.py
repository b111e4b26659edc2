import json
from collections.abc import Iterator
from uuid import uuid4

from ag_ui.core import (
    PROTOCOL_VERSION,
    BaseEvent,
    RunAgentInput,
    RunFinishedEvent,
    RunFinishedSuccessOutcome,
    RunStartedEvent,
    TextMessageContentEvent,
    TextMessageEndEvent,
    TextMessageStartEvent,
    ToolCallArgsEvent,
    ToolCallEndEvent,
    ToolCallResultEvent,
    ToolCallStartEvent,
)

from placet.errors import PlacetError
from placet.hook import (
    AgentResult,
    HumanInTheLoopHook,
    InterruptionMetadata,
    ReactAgent,
    SqliteSaver,
)
from placet.hook.frameworks.ag_ui import build_run_error, build_run_finished, read_resume


def send_warning(city: str) -> str:
    """Send a text message to everybody in a city."""
    sent.append(city)
    return f"Sent to everybody in {city}"


sent: list[str] = []


def model(messages: list[dict], tools: list[dict]) -> dict:
    """Stands for a language model."""
    if messages[-1]["role"] == "tool":
        return {"content": "Everybody is warned."}
    return {"tool_calls": [{"id": "call_1", "name": "send_warning", "arguments": {"city": "Bern"}}]}


hook = HumanInTheLoopHook({"send_warning": "Wakes up a whole city"})
agent = ReactAgent("weather", model, [send_warning], hooks=[hook], saver=SqliteSaver("threads.db"))


def run(given: RunAgentInput) -> Iterator[BaseEvent]:
    """Run the agent for an AG-UI client, and continue it when the client answers."""
    thread_id, run_id = given.thread_id, given.run_id
    yield RunStartedEvent(thread_id=thread_id, run_id=run_id, protocol_version=PROTOCOL_VERSION)
    try:
        if given.resume:
            outcome = agent.resume(thread_id)
            if isinstance(outcome, InterruptionMetadata):
                [answered] = read_resume(given.resume, [outcome])
                outcome = agent.resume(thread_id, answered)
        else:
            outcome = agent.invoke(str(given.messages[-1].content), thread_id=thread_id)
    except PlacetError as error:
        yield build_run_error(error)
        return
    if isinstance(outcome, InterruptionMetadata):
        yield from show_calls(outcome)
        yield build_run_finished(outcome, thread_id=thread_id, run_id=run_id)
    else:
        yield from show_reply(outcome)
        yield RunFinishedEvent(thread_id=thread_id, run_id=run_id, outcome=RunFinishedSuccessOutcome())


def show_calls(stopped: InterruptionMetadata) -> Iterator[BaseEvent]:
    """Say what the agent wants to do, before the interrupts that refer to it."""
    for call in stopped.undecided:
        yield ToolCallStartEvent(tool_call_id=call.id, tool_call_name=call.name)
        yield ToolCallArgsEvent(tool_call_id=call.id, delta=json.dumps(call.arguments))
        yield ToolCallEndEvent(tool_call_id=call.id)


def show_reply(result: AgentResult) -> Iterator[BaseEvent]:
    """Say what the calls of the last turn gave, and what the agent replies."""
    asked = max(number for number, message in enumerate(result.messages) if message["role"] == "user")
    for message in result.messages[asked:]:
        if message["role"] == "tool":
            yield ToolCallResultEvent(
                message_id=uuid4().hex, tool_call_id=message["tool_call_id"], content=message["content"]
            )
    reply = uuid4().hex
    yield TextMessageStartEvent(message_id=reply, role="assistant")
    yield TextMessageContentEvent(message_id=reply, delta=result.text)
    yield TextMessageEndEvent(message_id=reply)


# What follows is for the tests: a client.
question = {"id": "m1", "role": "user", "content": "Warn Bern"}
first = {"threadId": "t", "runId": "r1", "messages": [question]}
events = list(run(RunAgentInput.model_validate(first)))
assert [event.type.value for event in events] == [
    "RUN_STARTED",
    "TOOL_CALL_START",
    "TOOL_CALL_ARGS",
    "TOOL_CALL_END",
    "RUN_FINISHED",
]
interrupt = events[-1].outcome.interrupts[0]  # type: ignore[attr-defined]
assert sent == []

[_, error] = run(RunAgentInput.model_validate({**first, "runId": "r2"}))
assert error.type.value == "RUN_ERROR", "the thread waits, so it takes no message"

resume = [{"interruptId": interrupt.id, "status": "resolved", "payload": {"approved": True}}]
second = RunAgentInput.model_validate({"threadId": "t", "runId": "r3", "messages": [], "resume": resume})
events = list(run(second))
assert [event.type.value for event in events] == [
    "RUN_STARTED",
    "TOOL_CALL_RESULT",
    "TEXT_MESSAGE_START",
    "TEXT_MESSAGE_CONTENT",
    "TEXT_MESSAGE_END",
    "RUN_FINISHED",
]
assert [event.type for event in run(second)] == [event.type for event in events]
assert sent == ["Bern"]
