"""Microsoft's Agent Framework with the approval middleware: a scripted model, and sessions in files."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Iterable, Sequence
from pathlib import Path
from typing import Any

from agent_framework import (
    Agent,
    AgentSession,
    BaseChatClient,
    ChatMiddlewareLayer,
    ChatResponse,
    ChatResponseUpdate,
    Content,
    FunctionInvocationLayer,
    Message,
    ResponseStream,
    tool,
)

from placet.hook import InterruptionMetadata
from placet.hook.answer_validation import Feedback
from placet.hook.frameworks.agent_framework import AgentFrameworkApproval
from placet.hook.thread_resumption import AgentThreads
from placet.testing.approvals import LAST_WORDS, Harness, Scene, ask_helper


class ScriptedClient(FunctionInvocationLayer, ChatMiddlewareLayer, BaseChatClient):  # type: ignore[misc,unused-ignore]
    """Makes the calls of the scene, turn by turn."""

    scene: Any = None

    def _inner_get_response(self, *, messages: Any, stream: bool, options: Any, **named: Any) -> Any:
        asked = [content for message in messages for content in message.contents]
        ids = {content.call_id for content in asked if content.type == "function_call"}
        turns = (turn for turn in self.scene.turns if not ids & {call.id for call in turn})
        calls = next(turns, ())
        contents = [
            Content.from_function_call(call_id=call.id, name=call.name, arguments=json.dumps(call.arguments))
            for call in calls
        ]
        contents = contents or [Content.from_text(LAST_WORDS)]
        if stream:
            return ResponseStream(self.update(contents), finalizer=ChatResponse.from_updates)
        return self.respond(contents)

    async def respond(self, contents: list[Any]) -> ChatResponse:
        return ChatResponse(messages=[Message(role="assistant", contents=contents)])

    async def update(self, contents: list[Any]) -> AsyncIterator[ChatResponseUpdate]:
        yield ChatResponseUpdate(role="assistant", contents=contents)


class AgentFrameworkHarness(Harness):
    """An agent with four tools and the middleware; its session is stored after each run."""

    is_async = True
    resumes_anywhere = False
    children = "are refused"

    def __init__(self, folder: Path, scene: Scene, **named: Any) -> None:
        super().__init__(folder, scene, **named)
        options: Any = {"saver": self.saver, "reviews": self.reviews, "clock": self.clock}
        self.approval = AgentFrameworkApproval(self.hook, **options)
        self.agent = self.build_agent()
        if scene.by_child:
            helper = self.build_agent(name="helper").as_tool()
            tools = [helper, *self.agent.default_options["tools"]]
            self.agent = self.build_agent(tools=tools, scene=ask_helper(task="clean up"))

    def build_agent(self, **options: Any) -> Agent:
        client = ScriptedClient()
        client.scene = options.pop("scene", self.scene)
        tools = [tool(each, approval_mode="never_require") for each in self.tools]
        options = {"name": "worker", "tools": tools, "middleware": self.approval.middleware, **options}
        return Agent(client=client, **options)

    def load(self, thread_id: str) -> AgentSession:
        path = self.folder / f"{thread_id.encode().hex()}.json"
        if path.exists():
            return AgentSession.from_dict(json.loads(path.read_text()))
        return AgentSession(session_id=thread_id)

    def save(self, thread_id: str, session: AgentSession) -> None:
        new = self.folder / f"{thread_id.encode().hex()}.{id(session)}"
        new.write_text(json.dumps(session.to_dict()))
        new.rename(self.folder / f"{thread_id.encode().hex()}.json")

    def drive(
        self, thread_id: str, session: AgentSession, run: Awaitable[Any]
    ) -> InterruptionMetadata | None:
        async def wait() -> Any:
            return await run

        asyncio.run(wait())
        self.save(thread_id, session)
        return self.approval.waiting(session)

    def start(self, thread_id: str) -> InterruptionMetadata | None:
        session = self.load(thread_id)
        return self.drive(thread_id, session, self.agent.run("go", session=session))

    def resume(self, thread_id: str, feedback: Feedback | None) -> InterruptionMetadata | None:
        session = self.load(thread_id)
        return self.drive(thread_id, session, self.approval.resume(self.agent, session, feedback))

    def stream(self, thread_id: str) -> Iterable[InterruptionMetadata]:
        session = self.load(thread_id)
        stream = self.agent.run("go", session=session, stream=True)
        stopped = self.drive(thread_id, session, stream.get_final_response())
        return [] if stopped is None else [stopped]

    def read_tool_results(self, thread_id: str) -> Sequence[tuple[str, str]]:
        messages = self.load(thread_id).state.get("in_memory", {}).get("messages", [])
        contents = [content for message in messages for content in message.contents]
        return [
            (content.call_id, content.result) for content in contents if content.type == "function_result"
        ]

    def threads(self) -> AgentThreads:
        return self.approval.threads_of(
            self.agent, self.load, lambda session: self.save(session.session_id, session)
        )
