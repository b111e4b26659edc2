"""A crew with a scripted model; as a program, it kills itself while its tool runs."""

import json
import os
import signal
import sys
import tempfile
from pathlib import Path
from typing import Any

os.environ.update(
    CREWAI_DISABLE_TELEMETRY="true",
    CREWAI_STORAGE_DIR=tempfile.mkdtemp(prefix="crewai-"),
    CREWAI_TRACING_ENABLED="false",
    OTEL_SDK_DISABLED="true",
)

from crewai import Agent, BaseLLM, Crew, Task
from crewai.tools import tool

from placet.hook import HumanInTheLoopHook, SqliteSaver, ToolCall, ToolConfig
from placet.hook.frameworks.crewai import CrewAIApproval
from placet.testing.approvals import RUNS, Toolbox
from placet.testing.contracts.tool_approval import SQL

HOOK = HumanInTheLoopHook(
    {
        "execute_sql": "SQL needs approval",
        "send_email": ToolConfig(allowed_decisions=("approve", "reject", "respond")),
    }
)


class ScriptedLLM(BaseLLM):
    """Makes the calls of each turn, then repeats what the tools returned."""

    turns: Any = ()

    def call(self, messages: Any, tools: Any = None, *args: Any, **named: Any) -> Any:
        said = sum(bool(message.get("tool_calls")) for message in messages)
        if said < len(self.turns):
            return [
                {
                    "id": call.id,
                    "type": "function",
                    "function": {"name": call.name, "arguments": json.dumps(call.arguments)},
                }
                for call in self.turns[said]
            ]
        return json.dumps([message["content"] for message in messages if message["role"] == "tool"])

    def supports_function_calling(self) -> bool:
        return True


def build_agent(folder: Path, *turns: tuple[ToolCall, ...], role: str = "worker", **options: Any) -> Agent:
    tools = [tool(each) for each in Toolbox(folder).functions]
    model = ScriptedLLM(model="scripted", turns=turns)
    return Agent(role=role, goal="work", backstory="-", llm=model, tools=tools, **options)


def build_crew(*agents: Agent) -> Crew:
    task = Task(description="Do it.", expected_output="What the tools said.", agent=agents[0])
    return Crew(agents=list(agents), tasks=[task])


def read_results(output: Any) -> list[str]:
    """Return what the model read of its calls."""
    results: list[str] = json.loads(str(output))
    return results


def main(folder: Path) -> None:
    """Approve a call whose tool kills the process."""

    @tool
    def execute_sql(query: str) -> str:
        """Run a query."""
        with (folder / RUNS).open("a") as runs:
            runs.write(json.dumps(["execute_sql", {"query": query}]) + "\n")
        os.kill(os.getpid(), signal.SIGKILL)
        return "never"

    agent = build_agent(folder, (SQL,))
    agent.tools = [execute_sql, *(agent.tools or [])[2:]]
    saver = SqliteSaver(folder / "approvals.db")
    approval = CrewAIApproval(HOOK, saver=saver, run_id="r", ask=lambda stopped: stopped.approve_all())
    crew = build_crew(agent)
    with approval.guard(crew):
        crew.kickoff()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
