"""Reading what waits in a LangGraph thread, and continuing the thread with the answers."""

from collections.abc import Callable, Coroutine, Generator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Generic, Literal, NamedTuple, TypedDict, Unpack, overload

from langchain_core.messages import BaseMessage
from langgraph._internal._typing import StateLike
from langgraph.errors import UnknownInterruptError
from langgraph.pregel.protocol import PregelProtocol
from langgraph.types import All, Command, Durability, GraphOutput, StreamMode
from langgraph.typing import ContextT
from typing_extensions import TypeVar as TypeVarWithDefault

from placet.effects import EffectRun
from placet.errors import AlreadyDecided, InvalidFeedback, NothingToResume
from placet.hook.answer_validation import Feedback, materialize_answers
from placet.hook.argument_checks import refuse, require_methods, require_thread_id
from placet.hook.frameworks.langchain.answers import (
    INTERRUPT,
    TURN_KEY,
    check_feedback,
    encode_answer,
    find_interrupts,
)
from placet.hook.frameworks.langchain.interrupts import translate_invalid_resume
from placet.hook.frameworks.langchain.messages import build_turn_key, read_calls, split_at_turn
from placet.hook.gate import Gate
from placet.hook.interruption import InterruptionMetadata

RunConfig = Mapping[str, Any]
"""The `config` of a run, as LangGraph takes it."""
STRICT_RESUME = "__pregel_strict_resume"
OutputT = TypeVarWithDefault("OutputT", bound=StateLike, default=Any)
AgentGraph = PregelProtocol[Any, ContextT, Any, OutputT]
"""An agent of `create_agent`, or a graph that contains one."""


class ResumeOptions(TypedDict, Generic[ContextT], total=False):
    """What `resume` takes for one run; all but `config` is passed on to the agent."""

    config: RunConfig | None
    context: ContextT | None
    stream_mode: StreamMode
    print_mode: StreamMode | Sequence[StreamMode]
    output_keys: str | Sequence[str] | None
    interrupt_before: All | Sequence[str] | None
    interrupt_after: All | Sequence[str] | None
    durability: Durability | None


def interruption_of(result: object) -> InterruptionMetadata | None:
    """Return what waits for a reviewer in a result, a stream chunk, or a `get_state`; or None."""
    return next(iter(interruptions_of(result)), None)


def interruptions_of(result: object) -> tuple[InterruptionMetadata, ...]:
    """Return everything that waits for a reviewer: parallel agents may each interrupt."""
    return tuple(find_interrupts(result).values())


@overload
def resume(
    agent: AgentGraph[ContextT, OutputT],
    thread_id: str,
    feedback: Feedback | None,
    *,
    version: Literal["v2"],
    **options: Unpack[ResumeOptions[ContextT]],
) -> GraphOutput[OutputT]: ...


@overload
def resume(
    agent: AgentGraph[ContextT, OutputT],
    thread_id: str,
    feedback: Feedback | None,
    *,
    version: Literal["v1"] = "v1",
    **options: Unpack[ResumeOptions[ContextT]],
) -> dict[str, Any]: ...


def resume(
    agent: Any, thread_id: str, feedback: Feedback | None, *, config: RunConfig | None = None, **options: Any
) -> Any:
    """Answer what waits in a thread and continue; returns as `agent.invoke`, to which `options` are passed.

    Without feedback, expired calls are rejected. Raises InvalidFeedback, and then stores nothing;
    NothingToResume; ThreadBusy while another process runs a call. A finished thread is not changed.
    """
    run = EffectRun(_resume_steps(agent, thread_id, feedback, config, options.get("version")))
    for step in run:
        try:
            run.set_result(step.call(agent.invoke, agent.get_state, options))
        except Exception as error:
            run.set_exception(error)
    return run.outcome


@overload
def aresume(
    agent: AgentGraph[ContextT, OutputT],
    thread_id: str,
    feedback: Feedback | None,
    *,
    version: Literal["v2"],
    **options: Unpack[ResumeOptions[ContextT]],
) -> Coroutine[Any, Any, GraphOutput[OutputT]]: ...


@overload
def aresume(
    agent: AgentGraph[ContextT, OutputT],
    thread_id: str,
    feedback: Feedback | None,
    *,
    version: Literal["v1"] = "v1",
    **options: Unpack[ResumeOptions[ContextT]],
) -> Coroutine[Any, Any, dict[str, Any]]: ...


async def aresume(
    agent: Any, thread_id: str, feedback: Feedback | None, *, config: RunConfig | None = None, **options: Any
) -> Any:
    """Async version of `resume`."""
    run = EffectRun(_resume_steps(agent, thread_id, feedback, config, options.get("version")))
    for step in run:
        try:
            run.set_result(await step.call(agent.ainvoke, agent.aget_state, options))
        except Exception as error:
            run.set_exception(error)
    return run.outcome


class InvokeAgent(NamedTuple):
    """Run the agent on an input, and send back what it returns."""

    input: Any
    config: RunConfig

    def call(self, invoke: Callable[..., Any], get_state: Callable[..., Any], options: Any) -> Any:
        """Call `invoke`, which may return an awaitable."""
        return invoke(self.input, self.config, **options)


class GetState(NamedTuple):
    """Send back the snapshot of the thread."""

    config: RunConfig

    def call(self, invoke: Callable[..., Any], get_state: Callable[..., Any], options: Any) -> Any:
        """Call `get_state`, which may return an awaitable."""
        return get_state(self.config)


def _resume_steps(
    agent: Any, thread_id: str, feedback: Feedback | None, config: RunConfig | None, version: str | None
) -> Generator[InvokeAgent | GetState, Any, Any]:
    order = "resume(agent, thread_id, feedback)"
    require_methods("agent", agent, ["invoke", "get_state"], f"an agent, as in {order}")
    require_thread_id(thread_id, order)
    if config is not None and not isinstance(config, Mapping):
        refuse("config", "a mapping, as agent.invoke takes it", config)
    given = dict(config or {})
    where = {**given, "configurable": {**given.get("configurable", {}), "thread_id": thread_id}}
    with translate_invalid_resume():
        if (answer := address_answer(feedback)) is not None:
            with suppress(UnknownInterruptError):
                return (yield InvokeAgent(answer, with_strict_resume(where)))
        feedback = materialize_answers(feedback)
        snapshot = yield GetState(where)
        if feedback is not None and not find_interrupts(snapshot):
            _refuse_contradiction(agent, feedback, thread_id, snapshot.values)
        if not has_work_left(snapshot):
            return GraphOutput(snapshot.values) if version == "v2" else snapshot.values
        return (yield InvokeAgent(build_resume_input(snapshot, feedback), where))


def find_turn_keys(feedback: Feedback, thread_id: str, messages: Sequence[BaseMessage]) -> list[str]:
    """Return the gate's keys of the turns that these answers are about."""
    if isinstance(feedback, InterruptionMetadata):
        return [str(feedback.state.get(TURN_KEY, ""))]
    answered = (
        set(feedback) if isinstance(feedback, Mapping) else {each.id for each in check_feedback(feedback)}
    )
    turns = [each for each in messages if answered & {call["id"] for call in read_calls(each)}]
    return [build_turn_key(thread_id, "", turn.id) for turn in turns]


def has_work_left(snapshot: Any) -> bool:
    """Return whether the thread has work left; raises NothingToResume for other threads."""
    if snapshot.created_at is None or (snapshot.interrupts and not find_interrupts(snapshot)):
        raise NothingToResume
    return bool(
        snapshot.tasks
    )  # `next` leaves out tasks that ran, even if the process died before continuing


def build_resume_input(snapshot: Any, feedback: Feedback | None) -> Command[Any] | None:
    """Return what to invoke the agent with: the answers, each for the interrupt it belongs to."""
    feedback = materialize_answers(feedback)
    pending = find_interrupts(snapshot)
    if not pending:  # the process died
        return Command(resume=encode_answer(feedback)) if _may_be_waiting(snapshot) else None
    if len(pending) == 1 or feedback is None:
        return Command(resume=dict.fromkeys(pending, encode_answer(feedback)))
    return Command(resume=_split_answers(pending, feedback))


def address_answer(feedback: Feedback | None) -> Command[Any] | None:
    """Return the answers for the interrupt they belong to, if the feedback names it."""
    if not isinstance(feedback, InterruptionMetadata) or INTERRUPT not in feedback.state:
        return None
    return Command(resume={feedback.state[INTERRUPT]: encode_answer(feedback)})


def with_strict_resume(where: Mapping[str, Any]) -> dict[str, Any]:
    """Return the config with which LangGraph raises UnknownInterruptError for an answered interrupt.

    A LangGraph version without this option shows what waits instead.
    """
    return {**where, "configurable": {**where["configurable"], STRICT_RESUME: True}}


def _may_be_waiting(snapshot: Any) -> bool:
    """Return whether calls may be waiting for a reviewer, and not for a tool or the model."""
    messages = snapshot.values.get("messages", ()) if isinstance(snapshot.values, Mapping) else ()
    return "tools" not in snapshot.next and split_at_turn(messages)[0] is not None


def _split_answers(pending: Mapping[str, InterruptionMetadata], feedback: Feedback) -> dict[str, Any]:
    if isinstance(feedback, InterruptionMetadata):
        parts: dict[str, Any] = {each: feedback for each, asked in pending.items() if asked.id == feedback.id}
    else:
        said = (
            feedback
            if isinstance(feedback, Mapping)
            else {each.id: each for each in check_feedback(feedback)}
        )
        asking = [(each, {one.id for one in asked.tool_feedbacks}) for each, asked in pending.items()]
        owners = {call_id: [each for each, calls in asking if call_id in calls] for call_id in said}
        if wrong := [call_id for call_id, found in owners.items() if len(found) != 1]:
            named = ", ".join(map(str, wrong))
            raise InvalidFeedback(
                f"Nothing was stored: each id must belong to one waiting call, not {named}."
            )
        parts = {
            each: {key: said[key] for key, [owner] in owners.items() if owner == each} for each in pending
        }
        if not isinstance(feedback, Mapping):
            parts = {each: list(part.values()) for each, part in parts.items()}
    if not any(parts.values()):
        raise InvalidFeedback("These answers belong to another interruption; nothing was stored.")
    return {each: encode_answer(part) for each, part in parts.items() if part}


def _refuse_contradiction(agent: Any, feedback: Feedback, thread_id: str, values: Any) -> None:
    """Raise AlreadyDecided if the answers contradict decisions from which the thread has continued."""
    messages = values.get("messages", ()) if isinstance(values, Mapping) else ()
    for key in find_turn_keys(feedback, thread_id, messages):
        for gate in _find_gates(agent):
            stopped = gate.waiting(key)
            if stopped is not None and not stopped.undecided:
                try:
                    gate.answer(key, feedback)
                except AlreadyDecided as error:
                    raise AlreadyDecided(error.message, outcome=values, **error.details) from None


def _find_gates(agent: Any) -> list[Gate]:
    """Return the gates of the agent's approval middleware, and of that of graphs inside it."""
    inner = (
        [graph for _, graph in agent.get_subgraphs(recurse=True)] if hasattr(agent, "get_subgraphs") else []
    )
    nodes = [node for graph in (agent, *inner) for node in getattr(graph, "nodes", {}).values()]
    owners = [getattr(getattr(node.bound, "func", None), "__self__", None) for node in nodes]
    gates = [getattr(owner, "gate", None) for owner in owners]
    return [gate for gate in gates if isinstance(gate, Gate)]
