"""A small agent: a model, its tools, and hooks that stop calls until a person has decided them."""

from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from copy import deepcopy
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from placet.hook.agent_loop import AgentLoop
from placet.hook.answer_validation import Feedback
from placet.hook.driver import SyncDriver
from placet.hook.effects import LoopSteps
from placet.hook.events import Event, Model, Outcome
from placet.hook.grants import GrantSource
from placet.hook.heartbeat import DEFAULT_LEASE, Heartbeat
from placet.hook.invocation import adapt_model
from placet.hook.policy import Hook
from placet.hook.savers.memory import MemorySaver
from placet.hook.savers.saver import Saver
from placet.hook.tools import Tool, index_tools
from placet.hook.workers import Workers

if TYPE_CHECKING:
    from placet.hook.async_driver import AsyncDriver
    from placet.hook.reviews import Reviews


class ReactAgent:
    """Calls the model, has its tools run, and goes on until the model needs none, or a person is needed.

    `invoke` and `resume` return an AgentResult, or an InterruptionMetadata that waits for answers. The thread
    is kept in `saver` at every step: any process that has it can resume. Every call runs at most once, or,
    for a tool marked repeatable, at least once with the same key. `lease_for` is how long a process may be
    silent before another may take its thread for dead. With `reviews`, every interruption opens a case where
    people decide it, and `resume` without feedback takes up what they decided. With `grants`, calls that a
    person allowed before run without asking.
    """

    def __init__(
        self,
        name: str,
        model: Model,
        tools: Iterable[Callable[..., object] | Tool] = (),
        hooks: Sequence[Hook] = (),
        saver: Saver | None = None,
        *,
        reviews: "Reviews | None" = None,
        grants: GrantSource | None = None,
        instructions: str = "",
        max_turns: int = 50,
        lease_for: timedelta = DEFAULT_LEASE,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        if not name:
            raise ValueError("An agent needs a name: its threads are found by it.")
        self.name = name
        self.saver = MemorySaver() if saver is None else saver
        self._reviews = reviews
        self._grants = grants
        self._model = adapt_model(model)
        self._tools = index_tools(tools)
        self._hooks = tuple(hooks)
        self._instructions = instructions
        self._max_turns = max_turns
        self._lease_for = lease_for
        self._heartbeat = Heartbeat(lease_for)
        self._clock = clock
        self._workers = Workers()
        self._flow = self._flow_named(name, asks=reviews is not None)
        self._told = self._flow_named(name, asks=reviews is not None, tells=True)
        # A model may change what it is told of the tools, but not what their calls are checked against.
        self._schemas = deepcopy([tool.as_schema() for tool in self._tools.values()])

    def invoke(self, message: str, *, thread_id: str | None = None) -> Outcome:
        """Take a message; without a thread's id a new thread begins.

        Raises ThreadPaused while the thread waits for a person, unless the hook says what else to do.
        """
        return self._driver().outcome(_start_turn(self._flow, message, thread_id))

    async def ainvoke(self, message: str, *, thread_id: str | None = None) -> Outcome:
        """As `invoke`, on an event loop."""
        return await self._adriver().outcome(_start_turn(self._flow, message, thread_id))

    def stream(self, message: str, *, thread_id: str | None = None) -> Iterator[Event]:
        """As `invoke`, reporting on the way; the last event is the outcome."""
        return self._driver().events(_start_turn(self._told, message, thread_id))

    def astream(self, message: str, *, thread_id: str | None = None) -> AsyncIterator[Event]:
        """As `stream`, on an event loop."""
        return self._adriver().events(_start_turn(self._told, message, thread_id))

    def resume(self, thread_id: str, feedback: Feedback | None = None) -> Outcome:
        """Go on with what a person decided: the answered interruption, its calls, or decisions by call id.

        Raises InvalidFeedback, having kept nothing, if an answer does not fit; ThreadBusy while another
        process is at work; NothingToResume. Answers that were given before bring back what came of them.
        Without feedback, calls whose time is over are ended, and what a dead process left is taken up.
        """
        return self._driver().outcome(self._flow.resume(thread_id, feedback))

    async def aresume(self, thread_id: str, feedback: Feedback | None = None) -> Outcome:
        """As `resume`, on an event loop."""
        return await self._adriver().outcome(self._flow.resume(thread_id, feedback))

    def stream_resume(self, thread_id: str, feedback: Feedback | None = None) -> Iterator[Event]:
        """As `resume`, reporting on the way; the last event is the outcome."""
        return self._driver().events(self._told.resume(thread_id, feedback))

    def astream_resume(self, thread_id: str, feedback: Feedback | None = None) -> AsyncIterator[Event]:
        """As `stream_resume`, on an event loop."""
        return self._adriver().events(self._told.resume(thread_id, feedback))

    def as_tool(self, description: str, *, name: str | None = None) -> Tool:
        """This agent as a tool of another one; what it stops surfaces there, with the way to it."""
        task = {"type": "string", "description": "What the agent is to do, with all it needs to know."}
        return Tool(
            name=name or self.name,
            description=description,
            schema={
                "type": "object",
                "properties": {"task": task},
                "required": ["task"],
                "additionalProperties": False,
            },
            function=self.invoke,
            agent=self,
        )

    def flow_inside(self, outer: str) -> AgentLoop:
        """This agent's loop under another agent."""
        return self._flow_named(f"{outer}>{self.name}")

    def driver_inside(self, outer: str, saver: Saver) -> SyncDriver:
        """A driver for this agent inside another one, whose saver keeps both."""
        return self._driver(f"{outer}>{self.name}", saver)

    def adriver_inside(self, outer: str, saver: Saver) -> "AsyncDriver":
        """As `driver_inside`, on an event loop."""
        return self._adriver(f"{outer}>{self.name}", saver)

    def _flow_named(self, name: str, *, asks: bool = False, tells: bool = False) -> AgentLoop:
        return AgentLoop(
            name,
            self._tools,
            self._hooks,
            asks=asks,
            tells=tells,
            spends=self._grants is not None,
            max_turns=self._max_turns,
            clock=self._clock,
        )

    def _driver(self, name: str | None = None, saver: Saver | None = None) -> SyncDriver:
        return SyncDriver(**self._parts(name, saver))

    def _adriver(self, name: str | None = None, saver: Saver | None = None) -> "AsyncDriver":
        from placet.hook.async_driver import AsyncDriver  # asyncio is a third of what the hook would load

        return AsyncDriver(**self._parts(name, saver))

    def _parts(self, name: str | None, saver: Saver | None) -> dict[str, object]:
        return {
            "name": name or self.name,
            "model": self._model,
            "tools": self._schemas,
            "instructions": self._instructions,
            "saver": saver or self.saver,
            "lease_for": self._lease_for,
            "workers": self._workers,
            "heartbeat": self._heartbeat,
            "reviews": self._reviews if name is None else None,
            "grants": self._grants,
        }


def _start_turn(flow: AgentLoop, message: str, thread_id: str | None) -> LoopSteps:
    return flow.invoke(thread_id, message) if thread_id else flow.begin(message)
