"""Running agents in stored threads: the base of adapters for frameworks that store no threads."""

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Coroutine
from concurrent.futures import Future
from functools import partial
from typing import Any, Generic, TypeVar, Unpack

from placet.hook.answer_validation import Feedback
from placet.hook.approval_rules import Hook
from placet.hook.argument_checks import (
    require_hooks,
    require_known_options,
    require_names,
    require_text,
    require_thread_id,
)
from placet.hook.frameworks.run_steps import RunSteps, drive, drive_streaming, run_on_thread_loop
from placet.hook.frameworks.thread_store import ClaimedThread, FrameworkThreads
from placet.hook.gate import GateOptions
from placet.hook.interruption import InterruptionMetadata
from placet.hook.savers.saver import Saver
from placet.hook.thread_resumption import AgentThreads

AgentT = TypeVar("AgentT")
OutcomeT = TypeVar("OutcomeT")
ThreadClaim = Callable[[], Any]
"""A function that claims the thread of a run."""


class RunsOptions(GateOptions, total=False):
    """The options of ApprovalRuns."""

    repeatable: Collection[str]
    parallel: Collection[str]


class ApprovalRuns(ABC, Generic[AgentT, OutcomeT]):
    """Runs agents in threads that outlive the process; the `options` of a run are the framework's own.

    With `reviews`, each stopped turn opens a case under the name `agent`; with `grants`, pre-approved
    calls run without asking. `repeatable` names tools that may run again if their process died. The calls
    of a turn run one after another, unless their tools are named in `parallel`.
    """

    def __init__(
        self,
        *hooks: Hook,
        saver: Saver,
        repeatable: Collection[str] = (),
        parallel: Collection[str] = (),
        **options: Unpack[GateOptions],
    ) -> None:
        require_hooks(hooks)
        require_known_options(options, GateOptions.__annotations__)
        self.parallel = frozenset(require_names("parallel", parallel))
        self.threads = FrameworkThreads(hooks, saver, repeatable=repeatable, **options)

    async def run(self, agent: AgentT, prompt: str, *, thread_id: str, **options: Any) -> OutcomeT:
        """Send a message; return the framework's result, or the calls that wait for a reviewer.

        Raises ThreadPaused if calls are already waiting, ThreadBusy if another process works on the
        thread.
        """
        return await self._drive(agent, self._start_steps(agent, thread_id, prompt), options)

    async def resume(
        self, agent: AgentT, thread_id: str, feedback: Feedback | None = None, **options: Any
    ) -> OutcomeT:
        """Answer waiting calls, all or some, and continue when none is undecided.

        Raises InvalidFeedback, and then stores nothing, NothingToResume, or ThreadBusy. Without
        feedback, expired calls are rejected.
        """
        return await self._drive(agent, self._resume_steps(agent, thread_id, feedback), options)

    def run_sync(self, agent: AgentT, prompt: str, *, thread_id: str, **options: Any) -> OutcomeT:
        """Synchronous version of `run`."""
        return run_on_thread_loop(self._drive(agent, self._start_steps(agent, thread_id, prompt), options))

    def resume_sync(
        self, agent: AgentT, thread_id: str, feedback: Feedback | None = None, **options: Any
    ) -> OutcomeT:
        """Synchronous version of `resume`."""
        return run_on_thread_loop(self._drive(agent, self._resume_steps(agent, thread_id, feedback), options))

    def stream(
        self, agent: AgentT, prompt: str, *, thread_id: str, **options: Any
    ) -> AsyncGenerator[Any, None]:
        """Like `run`, but yield the framework's events; the last one is the outcome."""
        return self._stream(agent, self._start_steps(agent, thread_id, prompt), options)

    def resume_stream(
        self, agent: AgentT, thread_id: str, feedback: Feedback | None = None, **options: Any
    ) -> AsyncGenerator[Any, None]:
        """Like `resume`, but yield the framework's events; the last one is the outcome."""
        return self._stream(agent, self._resume_steps(agent, thread_id, feedback), options)

    def threads_of(self, agent: AgentT, **options: Any) -> AgentThreads:
        """Return the agent with its threads, for `resume_pending` and `resume_as_decided`."""
        return self.threads.gate.threads_of(
            lambda thread_id: self.resume_sync(agent, thread_id, **options),
            aresume=lambda thread_id: self.resume(agent, thread_id, **options),
            find_thread=self.threads.find_thread,
        )

    def waiting(self, thread_id: str) -> InterruptionMetadata | None:
        """Return the calls of this thread that wait for a reviewer, with the decisions so far."""
        return self.threads.waiting(thread_id)

    @abstractmethod
    def _build_steps(self, agent: AgentT, claim: ThreadClaim, prompt: str | None) -> RunSteps[OutcomeT]:
        """Claim the thread, run the framework, and pause or finish the thread."""

    @abstractmethod
    def _run(self, agent: AgentT, options: dict[str, Any], step: Any) -> Awaitable[Any]:
        """Run the framework."""

    @abstractmethod
    def _run_events(self, agent: AgentT, options: dict[str, Any], step: Any) -> AsyncGenerator[Any, None]:
        """Run the framework and yield its events; the last one is a StreamResult."""

    def _check(self, agent: AgentT, options: dict[str, Any]) -> None:
        """Raise HookError for an agent whose calls would not be stopped; nothing has started yet."""

    def _claim_thread(self, claim: ThreadClaim) -> RunSteps[Any]:
        """Return the claimed thread; if the run is cancelled meanwhile, release it when the claim returns."""
        found: Future[Any] = Future()

        def take() -> Any:
            found.set_result(claim())
            return found.result()

        try:
            return (yield take)
        except BaseException:
            found.add_done_callback(self._give_back)
            raise

    def _give_back(self, found: Future[Any]) -> None:
        if isinstance(held := found.result(), ClaimedThread):
            self.threads.release_thread(held)

    def _start_steps(self, agent: AgentT, thread_id: str, prompt: str) -> RunSteps[OutcomeT]:
        require_thread_id(thread_id, "run(agent, prompt, thread_id=…)")
        require_text("prompt", prompt)
        return self._build_steps(agent, partial(self.threads.open, thread_id, prompt), prompt)

    def _resume_steps(self, agent: AgentT, thread_id: str, feedback: Feedback | None) -> RunSteps[OutcomeT]:
        require_thread_id(thread_id, "resume(agent, thread_id, feedback)")
        return self._build_steps(agent, partial(self.threads.take, thread_id, feedback), None)

    def _drive(
        self, agent: AgentT, flow: RunSteps[OutcomeT], options: dict[str, Any]
    ) -> Coroutine[Any, Any, OutcomeT]:
        self._check(agent, options)
        return drive(flow, partial(self._run, agent, options), self.threads.gate.run_blocking)

    def _stream(
        self, agent: AgentT, flow: RunSteps[OutcomeT], options: dict[str, Any]
    ) -> AsyncGenerator[Any, None]:
        self._check(agent, options)
        return drive_streaming(
            flow, partial(self._run_events, agent, options), self.threads.gate.run_blocking
        )
