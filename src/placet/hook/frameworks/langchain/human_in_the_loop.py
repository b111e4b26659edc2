"""A drop-in for LangChain's `HumanInTheLoopMiddleware`: its constructor, requests, answers and texts.

Placet's engine decides behind them: decisions are stored and count once, and a case can be opened for each
turn. Called directly, outside a graph's run where nothing can wait, the methods do what LangChain's do.
"""

import logging
from collections.abc import Awaitable, Callable, Collection, Mapping
from contextvars import ContextVar
from typing import Any, Unpack

from langchain.agents.middleware import AgentState
from langchain.agents.middleware import HumanInTheLoopMiddleware as LangChainMiddleware
from langchain.agents.middleware.human_in_the_loop import InterruptOnConfig, _decision_schema
from langchain.agents.middleware.types import ToolCallRequest
from langchain_core.messages import ToolMessage
from langchain_core.tools import BaseTool
from langgraph.config import get_config
from langgraph.errors import GraphInterrupt
from langgraph.runtime import Runtime, get_runtime
from langgraph.types import Interrupt
from pydantic import TypeAdapter

from placet.cases.execution_outcomes import NotRunReason
from placet.hook.approval_rules import ReviewRequirement, State, ToolConfig
from placet.hook.feedback import FeedbackResult, ToolFeedback
from placet.hook.frameworks.langchain.answers import INTERRUPTION_KEYWORD, encode_interruption
from placet.hook.frameworks.langchain.hitl_request import build_tool_approval
from placet.hook.frameworks.langchain.messages import build_refusal, read_schema
from placet.hook.frameworks.langchain.middleware import (
    ApprovalMiddleware,
    InterruptMode,
    RunContextT,
    ToolResult,
)
from placet.hook.gate import GateOptions
from placet.hook.interruption import InterruptionMetadata
from placet.hook.savers.memory import MemorySaver
from placet.hook.savers.saver import Saver
from placet.hook.tool_call import ToolCall

logger = logging.getLogger(__name__)

EDIT_NOTICE: str = (LangChainMiddleware.__init__.__kwdefaults__ or {})["edit_notice"]
_request: ContextVar[ToolCallRequest | None] = ContextVar("placet_tool_call_request", default=None)
"""The call that is about to run in this context."""


class HumanInTheLoopMiddleware(ApprovalMiddleware[RunContextT], LangChainMiddleware[Any, Any, Any]):
    """Stops the calls named in `interrupt_on`, as LangChain's middleware of this name does.

    `saver` keeps the decisions; the default forgets them with the process. `reviews`, `grants`, `parallel`
    and `repeatable` are those of ApprovalMiddleware.
    """

    def __init__(
        self,
        interrupt_on: dict[str, bool | InterruptOnConfig],
        *,
        description_prefix: str = "Tool execution requires approval",
        edit_notice: str | None = EDIT_NOTICE,
        interrupt_mode: InterruptMode = "batched",
        saver: Saver | None = None,
        parallel: Collection[str] = (),
        repeatable: Collection[str] = (),
        **options: Unpack[GateOptions],
    ) -> None:
        LangChainMiddleware.__init__(
            self,
            interrupt_on,
            description_prefix=description_prefix,
            edit_notice=edit_notice,
            interrupt_mode=interrupt_mode,
        )
        ApprovalMiddleware.__init__(
            self,
            InterruptOnHook(self, frozenset(interrupt_on)),
            saver=MemorySaver() if saver is None else saver,
            parallel=parallel,
            repeatable=repeatable,
            interrupt_mode=interrupt_mode,
            **options,
        )
        self._kept_ids = ("", None) if interrupt_mode == "per_call" else ("",)

    def after_model(self, state: AgentState[Any], runtime: Runtime[Any]) -> dict[str, Any] | None:
        """Wait for the decisions of the turn."""
        run = super().after_model if _is_in_graph() else super(ApprovalMiddleware, self).after_model
        return run(state, runtime)

    async def aafter_model(self, state: AgentState[Any], runtime: Runtime[Any]) -> dict[str, Any] | None:
        """Async version of `after_model`."""
        run = super().aafter_model if _is_in_graph() else super(ApprovalMiddleware, self).aafter_model
        return await run(state, runtime)

    def wrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], ToolResult]
    ) -> ToolResult:
        """Run the call as decided."""
        if not _is_in_graph(request):
            return super(ApprovalMiddleware, self).wrap_tool_call(request, handler)
        self._require_id(request)
        before = _request.set(request)
        try:
            return super().wrap_tool_call(request, handler)
        finally:
            _request.reset(before)

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[ToolResult]]
    ) -> ToolResult:
        """Async version of `wrap_tool_call`."""
        if not _is_in_graph(request):
            return await super(ApprovalMiddleware, self).awrap_tool_call(request, handler)
        self._require_id(request)
        before = _request.set(request)
        try:
            return await super().awrap_tool_call(request, handler)
        finally:
            _request.reset(before)

    def _require_id(self, request: ToolCallRequest) -> None:
        """Raise ValueError for a reviewed call without an id."""
        config = self.interrupt_on.get(request.tool_call["name"])
        if request.tool_call["id"] is None and config is not None:
            self._tool_approval_request(request, config)

    def _read_schema(self, tool: BaseTool) -> Mapping[str, Any] | None:
        return read_schema(tool, is_closed=False)

    def _build_refusal(self, call: Mapping[str, Any], decided: ToolFeedback | None) -> ToolMessage | None:
        """Return what the model reads instead of a result; LangChain's words tell a person's decision."""
        refusal = build_refusal(call, decided)
        if refusal is None or decided is None or decided.not_run not in (None, NotRunReason.REJECTED):
            return refusal
        is_response = decided.result is FeedbackResult.RESPONDED
        text = decided.answer if is_response else decided.reason
        said: Any = {"type": "respond" if is_response else "reject"} | (
            {} if text is None else {"message": text}
        )
        return self._process_decision(said, call, {"allowed_decisions": [said["type"]]})[1]  # type: ignore[arg-type]

    def _announce_edit(
        self, result: ToolResult, request: ToolCallRequest, ready: ToolCallRequest
    ) -> ToolResult:
        ran = ready.tool_call
        return self._annotate_edited_result(result, request, {"name": ran["name"], "args": ran["args"]})

    def _build_interrupt(self, interruption: InterruptionMetadata) -> GraphInterrupt:
        if self.interrupt_mode != "per_call":
            return super()._build_interrupt(interruption)
        where = get_config()["configurable"]
        schema = TypeAdapter(self._find_decision_schema(interruption)).json_schema()
        asked: Interrupt[Any] = Interrupt.from_ns(
            build_tool_approval(interruption.tool_feedbacks[0]),
            where["checkpoint_ns"],
            response_schema={**schema, INTERRUPTION_KEYWORD: encode_interruption(interruption, where)},
        )
        return GraphInterrupt((asked,))

    def _store_answer(self, key: str, asked: Any, answer: Any) -> InterruptionMetadata:
        waiting = self.gate.waiting(key) if self.interrupt_mode == "per_call" else None
        if waiting is not None and isinstance(answer, Mapping) and "type" in answer:
            TypeAdapter(self._find_decision_schema(waiting)).validate_python(answer)
        return super()._store_answer(key, asked, answer)

    def _find_decision_schema(self, interruption: InterruptionMetadata) -> Any:
        waiting = interruption.tool_feedbacks[0]
        allowed: Any = [str(each) for each in waiting.allowed_decisions]
        return _decision_schema(allowed, waiting.name, self._tools.get(waiting.name))


class InterruptOnHook:
    """Stops the calls that LangChain's `interrupt_on` names; a `when` that fails asks."""

    def __init__(self, middleware: HumanInTheLoopMiddleware[Any], named: Collection[str]) -> None:
        self._middleware = middleware
        self._named = named

    def has_rule_for(self, name: str) -> bool:
        """Return whether `interrupt_on` names the tool, even to exempt it."""
        return name in self._named

    def evaluate(self, call: ToolCall, state: State) -> ReviewRequirement | None:
        """Return how the call must be reviewed; None if its tool is not named, or `when` returns False."""
        config = self._middleware.interrupt_on.get(call.name)
        if config is None or self._runs_unreviewed(call, config, state):
            return None
        return self._build_requirement(call, config, state)

    def evaluate_invalid(self, call: ToolCall, state: State) -> ReviewRequirement | None:
        """Return how a call must be reviewed whose arguments LangChain would convert before the tool runs."""
        config = self._middleware.interrupt_on.get(call.name)
        return None if config is None else self._build_requirement(call, config, state)

    def _runs_unreviewed(self, call: ToolCall, config: InterruptOnConfig, state: State) -> bool:
        when, request = config.get("when"), _request.get()
        if when is None:
            return False
        try:
            if request is not None:
                return when(request) is False
            asked: Any = _to_langchain_call(call)
            verdict: object = self._middleware._should_interrupt(asked, config, state, get_runtime())  # type: ignore[arg-type]
            return verdict is False
        except Exception:
            logger.exception("condition_failed tool=%s result=reviewer_is_asked", call.name)
            return False

    def _build_requirement(
        self, call: ToolCall, config: InterruptOnConfig, state: State
    ) -> ReviewRequirement:
        asked: Any = _to_langchain_call(call)
        try:
            shown, _ = self._middleware._create_action_and_config(asked, config, state, get_runtime())  # type: ignore[arg-type]
            description = str(shown.get("description", ""))
        except Exception:
            logger.exception("description_failed tool=%s result=shown_without_description", call.name)
            description = ""
        rules = ToolConfig(allowed_decisions=tuple(config["allowed_decisions"]))
        return ReviewRequirement(description=description, config=rules)


def _to_langchain_call(call: ToolCall) -> dict[str, Any]:
    return {"type": "tool_call", "id": call.id, "name": call.name, "args": dict(call.arguments)}


def _is_in_graph(request: ToolCallRequest | None = None) -> bool:
    """Return whether this is called in a run of a graph, where calls can wait."""
    if request is not None and getattr(request.runtime, "config", None) is not None:
        return True
    try:
        get_config()
    except RuntimeError:
        return False
    return True
