"""A small agent: a model, its tools, and hooks that stop tool calls until a reviewer has decided them."""

from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from copy import deepcopy
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from placet.errors import HookError
from placet.hook.agent_loop import AgentLoop
from placet.hook.agent_steps import AgentSteps, ToolInterceptor, require_interceptors, split_hooks
from placet.hook.answer_validation import Feedback
from placet.hook.approval_rules import Hook, HumanInTheLoopHook, check_rules, have_rule_for
from placet.hook.argument_checks import (
    require_duration,
    require_function,
    require_grants,
    require_hooks,
    require_list,
    require_number,
    require_reviews,
    require_text,
    require_thread_id,
)
from placet.hook.checkpoint import Checkpoint
from placet.hook.driver import SyncDriver
from placet.hook.effects import LoopSteps
from placet.hook.events import AgentEvent, AgentOutcome, Model
from placet.hook.grants import GrantSource
from placet.hook.heartbeat import DEFAULT_LEASE, Heartbeat
from placet.hook.invocation import adapt_model
from placet.hook.receipts import ReceiptOutbox
from placet.hook.savers.saver import Saver, require_saver
from placet.hook.tools import Tool, index_tools
from placet.hook.turn_driver import TurnDriver
from placet.hook.workers import Workers

if TYPE_CHECKING:
    from placet.hook.async_driver import AsyncDriver
    from placet.hook.reviews import Reviews

INNER_AGENT_NOT_GATED = (
    "Calls of {tool} need a review, but the inner agent {agent} would run them without."
    " Give {agent} a hook with a rule for {tool}."
)


class ReactAgent:
    """Calls the model and runs its tools until the model needs none, or until a reviewer must decide.

    `invoke` and `resume` return an AgentResult, or an InterruptionMetadata whose calls wait for answers.
    The thread is saved in `saver` at every step, so any process with the same saver can resume it. The
    calls of a turn run one after another, in call order, unless their tools are marked parallel. A call
    runs at most once, or, if its tool is marked repeatable, at least once with the same idempotency key.
    `lease_for` is how long a process may be silent before another may take over its thread. With
    `reviews`, every interruption opens a case for reviewers, and `resume` without feedback applies their
    decisions. With `grants`, calls that a reviewer pre-approved run without asking. `hooks` may contain
    AgentSteps, which act before and after the agent and the model; `interceptors` run around each tool call.
    """

    def __init__(
        self,
        name: str,
        model: Model,
        tools: Iterable[Callable[..., object] | Tool] = (),
        hooks: Sequence[Hook | AgentSteps] = (),
        saver: Saver | None = None,
        *,
        reviews: "Reviews | None" = None,
        grants: GrantSource | None = None,
        interceptors: Iterable[ToolInterceptor] = (),
        instructions: str = "",
        max_turns: int = 50,
        lease_for: timedelta = DEFAULT_LEASE,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        require_text("name", name)
        if not name:
            raise ValueError("name: an agent needs a name, because its threads are found by it.")
        require_function("model", model, "a function of messages and tools that returns the reply")
        tools = require_list("tools", tools, "a list of functions")
        hooks, self._steps = split_hooks(require_list("hooks", hooks, "a list of hooks, such as [hook]"))
        self._interceptors = require_interceptors(interceptors)
        require_hooks(hooks, allows_none=True)
        require_reviews(reviews)
        require_grants(grants)
        require_text("instructions", instructions)
        require_number("max_turns", max_turns, at_least=1)
        require_duration("lease_for", lease_for)
        require_function("clock", clock, "a function that returns the time")
        self.name = name
        self.saver = require_saver(saver)
        self.reviews = reviews
        self._grants = grants
        self._model = adapt_model(model)
        self._tools = index_tools(tools)
        self._hooks = tuple(hooks)
        check_rules(self._hooks, self._tools)
        self._check_inner_agents(self._hooks)
        self._instructions = instructions
        self._max_turns = max_turns
        self._lease_for = lease_for
        self._heartbeat = Heartbeat(lease_for)
        self._clock = clock
        self.outbox = ReceiptOutbox(name=name, reviews=reviews, saver=self.saver, clock=clock)
        self._workers = Workers()
        self._loop = self._build_loop(name, opens_cases=reviews is not None)
        self._streaming_loop = self._build_loop(name, opens_cases=reviews is not None, emits_events=True)
        # The model gets copies: changing them does not change the schemas that its calls are checked against.
        self._schemas = deepcopy([tool.as_schema() for tool in self._tools.values()])

    def invoke(self, message: str, *, thread_id: str | None = None) -> AgentOutcome:
        """Send a message to the agent; without `thread_id` a new thread begins.

        Raises ThreadPaused while the thread waits for a reviewer, unless the hook's `on_new_message`
        says otherwise.
        """
        return self._driver().outcome(_start_turn(self._loop, message, thread_id))

    async def ainvoke(self, message: str, *, thread_id: str | None = None) -> AgentOutcome:
        """Async version of `invoke`."""
        return await self._async_driver().outcome(_start_turn(self._loop, message, thread_id))

    def stream(self, message: str, *, thread_id: str | None = None) -> Iterator[AgentEvent]:
        """Like `invoke`, but yield events on the way; the last event is the outcome."""
        return self._driver().events(_start_turn(self._streaming_loop, message, thread_id))

    def astream(self, message: str, *, thread_id: str | None = None) -> AsyncIterator[AgentEvent]:
        """Async version of `stream`."""
        return self._async_driver().events(_start_turn(self._streaming_loop, message, thread_id))

    def resume(self, thread_id: str, feedback: Feedback | None = None) -> AgentOutcome:
        """Continue a thread with decisions: an answered interruption, its calls, or decisions by call id.

        Raises InvalidFeedback, and then stores nothing, if an answer is not valid; ThreadBusy while
        another process works on the thread; NothingToResume. Answers that were given before return
        the stored outcome; AlreadyDecided, which carries that outcome, if they say something else.
        Without feedback, expired calls are ended, and a thread whose process died is taken over.
        """
        return self._driver().outcome(_resume_thread(self._loop, thread_id, feedback))

    async def aresume(self, thread_id: str, feedback: Feedback | None = None) -> AgentOutcome:
        """Async version of `resume`."""
        return await self._async_driver().outcome(_resume_thread(self._loop, thread_id, feedback))

    def stream_resume(self, thread_id: str, feedback: Feedback | None = None) -> Iterator[AgentEvent]:
        """Like `resume`, but yield events on the way; the last event is the outcome."""
        return self._driver().events(_resume_thread(self._streaming_loop, thread_id, feedback))

    def astream_resume(self, thread_id: str, feedback: Feedback | None = None) -> AsyncIterator[AgentEvent]:
        """Async version of `stream_resume`."""
        return self._async_driver().events(_resume_thread(self._streaming_loop, thread_id, feedback))

    def find_thread(self, checkpoint: Checkpoint) -> str | None:
        """Return the thread of this checkpoint if it is one of this agent, for `resume_pending`."""
        return checkpoint.thread_id if checkpoint.agent == self.name else None

    def as_tool(self, description: str, *, name: str | None = None, parallel: bool = False) -> Tool:
        """Return this agent as a tool of another agent; its interruptions appear in the outer agent.

        A `parallel` agent may run at the same time as the calls of other parallel tools.
        """
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
            parallel=parallel,
            agent=self,
        )

    def inner_loop(self, outer: str) -> AgentLoop:
        """Return this agent's loop for use inside another agent."""
        return self._build_loop(f"{outer}>{self.name}")

    def inner_driver(self, outer: str, saver: Saver, outbox: ReceiptOutbox | None) -> SyncDriver:
        """Return a driver for this agent inside another one, whose saver stores both threads."""
        return self._driver(f"{outer}>{self.name}", saver, outbox)

    def inner_async_driver(self, outer: str, saver: Saver, outbox: ReceiptOutbox | None) -> "AsyncDriver":
        """Async version of `inner_driver`."""
        return self._async_driver(f"{outer}>{self.name}", saver, outbox)

    def _check_inner_agents(self, hooks: Sequence[Hook]) -> None:
        """Raise HookError if an inner agent runs a tool without review that these hooks stop."""
        for inner in (tool.agent for tool in self._tools.values() if tool.agent is not None):
            for name in inner._tools:
                if _stops(hooks, name) and not have_rule_for(inner._hooks, name):
                    raise HookError(INNER_AGENT_NOT_GATED.format(tool=name, agent=inner.name))
            inner._check_inner_agents(hooks)

    def _build_loop(self, name: str, *, opens_cases: bool = False, emits_events: bool = False) -> AgentLoop:
        return AgentLoop(
            name,
            self._tools,
            self._hooks,
            opens_cases=opens_cases,
            emits_events=emits_events,
            has_steps=bool(self._steps),
            uses_grants=self._grants is not None,
            max_turns=self._max_turns,
            clock=self._clock,
        )

    def _driver(
        self, name: str | None = None, saver: Saver | None = None, outbox: ReceiptOutbox | None = None
    ) -> SyncDriver:
        return SyncDriver(**self._driver_options(name, saver, outbox))

    def _async_driver(
        self, name: str | None = None, saver: Saver | None = None, outbox: ReceiptOutbox | None = None
    ) -> "AsyncDriver":
        from placet.hook.async_driver import (
            AsyncDriver,
        )  # importing asyncio is a third of the hook's import time

        return AsyncDriver(**self._driver_options(name, saver, outbox))

    def _driver_options(
        self, name: str | None, saver: Saver | None, outbox: ReceiptOutbox | None
    ) -> dict[str, object]:
        return {
            "name": name or self.name,
            "model": self._model,
            "tools": self._schemas,
            "instructions": self._instructions,
            "saver": saver or self.saver,
            "lease_for": self._lease_for,
            "workers": self._workers,
            "heartbeat": self._heartbeat,
            "steps": self._steps,
            "interceptors": self._interceptors,
            "turn_driver": TurnDriver(
                name=name or self.name,
                hooks=self._hooks,
                reviews=self.reviews if name is None else None,
                grants=self._grants,
                clock=self._clock,
                outbox=outbox or self.outbox,
            ),
        }


def _resume_thread(flow: AgentLoop, thread_id: str, feedback: Feedback | None) -> LoopSteps:
    require_thread_id(thread_id)
    return flow.resume(thread_id, feedback)


def _start_turn(flow: AgentLoop, message: str, thread_id: str | None) -> LoopSteps:
    require_text("message", message)
    if thread_id is not None:
        require_thread_id(thread_id, "invoke(message, thread_id=…)")
    return flow.invoke(thread_id, message) if thread_id else flow.begin(message)


def _stops(hooks: Sequence[Hook], name: str) -> bool:
    return any(isinstance(hook, HumanInTheLoopHook) and not hook.never_stops(name) for hook in hooks)
