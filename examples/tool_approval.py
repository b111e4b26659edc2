"""An agent whose tool waits for a person: it is stopped, shown, approved, and goes on.

python -m examples.tool_approval
"""

from placet.hook import (
    AgentResult,
    HumanInTheLoopHook,
    InterruptionMetadata,
    MemorySaver,
    ReactAgent,
    ToolConfig,
)

POEM = "The river does not ask the stone.\nIt waits, and finds a way alone."


def poem(topic: str, lines: int = 2) -> str:
    """Write a poem.

    Args:
        topic: What it is about.
        lines: How long it is.
    """
    return "\n".join(POEM.splitlines()[:lines])


def model(messages: list[dict], tools: list[dict]) -> dict:
    """Stands for a language model: asks for a poem once, then repeats what it got."""
    if messages[-1]["role"] == "tool":
        return {"role": "assistant", "content": f"Here it is:\n{messages[-1]['content']}"}
    call = {"id": "call_1", "name": "poem", "arguments": {"topic": "patience"}}
    return {"role": "assistant", "content": "", "tool_calls": [call]}


hook = HumanInTheLoopHook(
    approval_on={"poem": ToolConfig(description="Please confirm that a poem is written")}
)
agent = ReactAgent("poet_agent", model, [poem], hooks=[hook], saver=MemorySaver())


def main() -> str:
    """Ask for a poem, approve the call, and return what the agent says."""
    outcome = agent.invoke("Write me a poem about patience.", thread_id="user-session-001")
    assert isinstance(outcome, InterruptionMetadata)
    for waiting in outcome.tool_feedbacks:
        print(f"Tool: {waiting.name}\nArguments: {waiting.arguments}\nDescription: {waiting.description}")
    outcome = agent.resume("user-session-001", outcome.approve_all())
    assert isinstance(outcome, AgentResult)
    return outcome.text


if __name__ == "__main__":
    said = main()
    print(said)
    assert POEM in said
