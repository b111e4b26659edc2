"""A crew with a scripted model, under the adapter's hooks."""

import json
from collections.abc import Mapping
from typing import Any

from crewai import Agent, BaseLLM, Crew, Task
from crewai.tools import tool

from placet.hook import ToolCall
from placet.hook.frameworks.crewai import CrewAIApproval
from placet.testing.approvals import LAST_WORDS, Scene
from tests.hook.frameworks.own_environment.repeated_runs import RepeatedRunHarness, RunRecorder

DELEGATION = ToolCall(
    id="h1",
    name="delegate_work_to_coworker",
    arguments={"task": "clean up", "context": "-", "coworker": "helper"},
)


class RecordingApproval(RunRecorder, CrewAIApproval):
    """The adapter."""


class ScriptedLLM(BaseLLM):
    """Makes the calls of each turn; ends when one of them waits."""

    scene: Any
    approval: Any
    results: Any

    def call(self, messages: Any, tools: Any = None, *args: Any, **named: Any) -> Any:
        said = sum(bool(message.get("tool_calls")) for message in messages)
        for message in messages:
            if message["role"] == "tool":
                self.results[message["tool_call_id"]] = message["content"]
        if self.approval.errors or said == len(self.scene.turns):
            return LAST_WORDS
        return [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": json.dumps(call.arguments)},
            }
            for call in self.scene.turns[said]
        ]

    def supports_function_calling(self) -> bool:
        return True


class CrewAIHarness(RepeatedRunHarness):
    """A crew of one agent with four tools; a child is a coworker to whom it delegates."""

    adapter = RecordingApproval
    forks_after_use = False

    def run_agent(self, approval: Any) -> Mapping[str, str]:
        results: dict[str, str] = {}

        def build_agent(role: str, scene: Scene, **options: Any) -> Agent:
            model = ScriptedLLM(model="scripted", scene=scene, approval=approval, results=results)
            tools = [tool(each) for each in self.tools]
            return Agent(role=role, goal="work", backstory="-", llm=model, tools=tools, **options)

        agents = [build_agent("helper" if self.scene.by_child else "worker", self.scene)]
        if self.scene.by_child:
            agents.insert(0, build_agent("worker", Scene(turns=((DELEGATION,),)), allow_delegation=True))
        task = Task(description="Do it.", expected_output="Words.", agent=agents[0])
        crew = Crew(agents=agents, tasks=[task])
        with approval.guard(crew):
            crew.kickoff()
        return results
