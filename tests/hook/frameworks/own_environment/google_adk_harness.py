"""Google ADK with the approval plugin: a scripted model, and sessions in SQLite."""

import asyncio
from collections.abc import AsyncGenerator, Coroutine, Iterable, Sequence
from pathlib import Path
from typing import Any

from google.adk.agents import Agent
from google.adk.apps import App
from google.adk.models import BaseLlm, LlmRequest, LlmResponse
from google.adk.runners import Runner
from google.adk.sessions.sqlite_session_service import SqliteSessionService
from google.genai import types

from placet.hook import InterruptionMetadata, ToolCall
from placet.hook.answer_validation import Feedback
from placet.hook.frameworks.google_adk import ApprovalPlugin
from placet.hook.thread_resumption import AgentThreads
from placet.testing.approvals import LAST_WORDS, Harness, Scene

USER = "user"


class ScriptedModel(BaseLlm):
    """Makes the calls of the scene, turn by turn."""

    scene: Any

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        said = sum(content.role == "model" for content in llm_request.contents)
        parts = [types.Part(text=LAST_WORDS)]
        if said < len(self.scene.turns):
            calls = [
                types.FunctionCall(id=call.id, name=call.name, args=dict(call.arguments))
                for call in self.scene.turns[said]
            ]
            parts = [types.Part(function_call=call) for call in calls]
        yield LlmResponse(content=types.Content(role="model", parts=parts))


def build_message(text: str) -> types.Content:
    return types.Content(role="user", parts=[types.Part(text=text)])


class GoogleAdkHarness(Harness):
    """An agent of ADK with four tools, stopped by the plugin."""

    is_async = True
    resumes_anywhere = False
    children = "wait"

    def __init__(self, folder: Path, scene: Scene, **named: Any) -> None:
        super().__init__(folder, scene, **named)
        options: Any = {"saver": self.saver, "reviews": self.reviews, "clock": self.clock}
        self.plugin = ApprovalPlugin(self.hook, **options)
        self.agent = self.build_agent("worker", scene)
        if scene.by_child:
            hand_over = ToolCall(id="h1", name="transfer_to_agent", arguments={"agent_name": "helper"})
            helper = self.build_agent("helper", scene)
            self.agent = self.build_agent("worker", Scene(turns=((hand_over,),)), sub_agents=[helper])

    def build_agent(self, name: str, scene: Scene, **options: Any) -> Agent:
        model = ScriptedModel(model="scripted", scene=scene)
        return Agent(name=name, model=model, tools=list(self.tools), **options)

    def build_runner(self) -> Runner:
        sessions = SqliteSessionService(str(self.folder / "sessions.db"))
        app = App(name="shop", root_agent=self.agent, plugins=[self.plugin])
        return Runner(app=app, session_service=sessions)

    def start(self, thread_id: str) -> InterruptionMetadata | None:
        return self.drive(self.send(thread_id))

    def resume(self, thread_id: str, feedback: Feedback | None) -> InterruptionMetadata | None:
        return self.drive(self.take_up(thread_id, feedback))

    def stream(self, thread_id: str) -> Iterable[InterruptionMetadata]:
        stopped = self.start(thread_id)
        return [] if stopped is None else [stopped]

    def drive(self, steps: Coroutine[Any, Any, InterruptionMetadata | None]) -> InterruptionMetadata | None:
        return asyncio.run(steps)

    async def send(self, thread_id: str) -> InterruptionMetadata | None:
        runner = self.build_runner()
        named = {"app_name": "shop", "user_id": USER, "session_id": thread_id}
        if await runner.session_service.get_session(**named) is None:
            await runner.session_service.create_session(**named)
        message = build_message("go")
        try:
            async for _ in runner.run_async(user_id=USER, session_id=thread_id, new_message=message):
                pass
        except RuntimeError as error:  # ADK wraps what a plugin raises
            raise error.__cause__ or error from error
        return await self.find_waiting(runner, thread_id)

    async def take_up(self, thread_id: str, feedback: Feedback | None) -> InterruptionMetadata | None:
        runner = self.build_runner()
        async for _ in self.plugin.resume(runner, user_id=USER, session_id=thread_id, feedback=feedback):
            pass
        return await self.find_waiting(runner, thread_id)

    async def find_waiting(self, runner: Runner, thread_id: str) -> InterruptionMetadata | None:
        session = await runner.session_service.get_session(
            app_name="shop", user_id=USER, session_id=thread_id
        )
        return None if session is None else await self.plugin.waiting(session)

    def read_tool_results(self, thread_id: str) -> Sequence[tuple[str, str]]:
        sessions = SqliteSessionService(str(self.folder / "sessions.db"))
        named = {"app_name": "shop", "user_id": USER, "session_id": thread_id}
        session = asyncio.run(sessions.get_session(**named))
        results: dict[str, str] = {}
        for event in session.events if session else []:
            for reply in event.get_function_responses():
                if event.author != "user":
                    results[reply.id or ""] = str((reply.response or {}).get("result"))
        return list(results.items())

    def threads(self) -> AgentThreads:
        return self.plugin.threads_of(self.build_runner())
