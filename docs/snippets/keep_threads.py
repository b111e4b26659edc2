from datetime import timedelta

from placet.hook import CheckpointRetention, HumanInTheLoopHook, ReactAgent, Saver, SqliteSaver

saver = SqliteSaver("threads.db", retain=CheckpointRetention(count=5, age=timedelta(days=30)))


def write_file(path: str, text: str) -> str:
    """Write a text to a file."""
    return f"{len(text)} characters are in {path}"


def agent(model) -> ReactAgent:
    """In every process the same agent, with the same saver."""
    hook = HumanInTheLoopHook(approval_on={"write_file": "Writes to the disk"})
    return ReactAgent("writer", model, [write_file], hooks=[hook], saver=saver)


def waiting(saver: Saver) -> list[str]:
    """Who waits for a person, the longest first."""
    return [
        f"{thread_id}: {call.name} {call.arguments}"
        for thread_id in saver.list_threads("paused")
        if (kept := saver.get(thread_id)) and kept.checkpoint.interruption
        for call in kept.checkpoint.interruption.tool_feedbacks
    ]


# What follows is for the tests.
def scripted(messages, *_):
    if messages[-1]["role"] == "tool":
        return {"role": "assistant", "content": messages[-1]["content"]}
    call = {"id": "call_1", "name": "write_file", "arguments": {"path": "a.txt", "text": "Hello"}}
    return {"role": "assistant", "content": "", "tool_calls": [call]}


from placet.hook import AgentResult, InterruptionMetadata  # noqa: E402

interruption = agent(scripted).invoke("Write Hello", thread_id="user 7")
assert isinstance(interruption, InterruptionMetadata)
assert waiting(saver) == ["user 7: write_file {'path': 'a.txt', 'text': 'Hello'}"]
result = agent(scripted).resume("user 7", interruption.approve_all())
assert isinstance(result, AgentResult)
assert result.text == "5 characters are in a.txt"
assert waiting(saver) == []
saver.release("user 7")
assert saver.get("user 7") is None
saver.close()
