"""The MCP tools: one per review type, and three to check, list and withdraw questions."""

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Iterable
from functools import wraps
from typing import Annotated, Any, ParamSpec, TypeVar

from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import CallToolResult, InputRequiredResult

from placet.agent import Notice, PendingCase
from placet.client import TERMINAL
from placet.errors import PlacetError, ServerRefused
from placet.hook.frameworks.mcp.call_identity import is_disconnected
from placet.mcp import arguments as say
from placet.mcp import drafts, link_elicitation, tool_results
from placet.mcp.instructions import name_tool
from placet.mcp.link_elicitation import LinkResponse, ToolContext
from placet.mcp.questions import OUTCOME_TIMEOUT_S, Questions
from placet.mcp.tool_results import QuestionList, QuestionResult
from placet.reviews.declaration import TypeDeclaration
from placet.text.truncation import to_single_line, truncate

MAX_LISTED = 20
MAX_NAME_LENGTH = 100

QuestionToolResult = Annotated[CallToolResult, QuestionResult] | InputRequiredResult
FinalToolResult = Annotated[CallToolResult, QuestionResult]
ListToolResult = Annotated[CallToolResult, QuestionList]
P = ParamSpec("P")
R = TypeVar("R")


def _report_errors(tool: Callable[P, Awaitable[R]]) -> Callable[P, Awaitable[R]]:
    """Decorate a tool to report a PlacetError to the model as a sentence."""

    @wraps(tool)
    async def wrapper(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return await tool(*args, **kwargs)
        except PlacetError as error:
            raise ToolError(_describe_error(error)) from error

    return wrapper


def build_question_tool(
    tools: "QuestionTools", declared: TypeDeclaration
) -> tuple[str, str, Callable[..., Any]]:
    """Return the name, the title, and the tool that asks a question of this type."""
    module = declared.load("mcp_tool")
    context_of: Callable[..., dict[str, Any]] = module.build_context
    own = inspect.signature(context_of).parameters

    async def ask(
        ctx: Context[Any, Any],
        prompt: say.PromptArgument,
        wait_seconds: say.WaitSeconds = say.DEFAULT_WAIT_S,
        **said: Any,
    ) -> QuestionToolResult:
        context = context_of(**{name: said.pop(name) for name in own})
        return await tools.ask(ctx, declared.type, prompt, context, wait_seconds, said)

    name = name_tool(declared)
    tool = _declare_signature(_report_errors(ask), name, context_of.__doc__, (*own.values(), *drafts.SHARED))
    return name, module.TITLE, tool


def _declare_signature(
    tool: Callable[..., Awaitable[QuestionToolResult]],
    name: str,
    doc: str | None,
    more: Iterable[inspect.Parameter],
) -> Callable[..., Awaitable[QuestionToolResult]]:
    """Return the tool with this name and these further arguments, which the SDK reads from its signature."""
    ctx, prompt, wait_seconds, _ = inspect.signature(tool).parameters.values()
    named_only = (one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in (*more, wait_seconds))
    signature = inspect.Signature([ctx, prompt, *named_only], return_annotation=QuestionToolResult)
    tool.__name__ = tool.__qualname__ = name
    tool.__doc__ = doc
    tool.__signature__ = signature  # type: ignore[attr-defined]
    tool.__annotations__ = {one.name: one.annotation for one in (ctx, prompt, *more)} | {
        "return": QuestionToolResult
    }
    return tool


class QuestionTools:
    """The tools. Every public method is one tool; the model reads its docstring."""

    def __init__(self, questions: Questions) -> None:
        self._questions = questions

    async def ask(
        self,
        ctx: Context[Any, Any],
        type: str,
        prompt: str,
        context: dict[str, Any],
        wait_seconds: float,
        said: dict[str, Any],
    ) -> CallToolResult | InputRequiredResult:
        """Ask a question of this type; `said` are the arguments that all questions share."""
        agent, now = _find_client_name(ctx), self._questions.now()
        draft = drafts.build_draft(type, prompt, context, agent=agent, now=now, **said)
        return await self._ask(ctx, draft, wait_seconds)

    @_report_errors
    async def check_question(
        self,
        ctx: Context[Any, Any],
        case_id: say.CaseIdArgument,
        wait_seconds: say.WaitSeconds = say.DEFAULT_WAIT_S,
        show_link: say.ShowLink = False,
    ) -> QuestionToolResult:
        """Check a question; if it is still open, wait a while for the decision.

        Set show_link to show the person the link again, for example after they closed it.
        """
        pending = await self._questions.find(case_id)
        if ctx.request_state is not None:
            return await self._build_result(
                ctx, pending, wait_seconds, link_elicitation.read_link_response(ctx)
            )
        poll_result = await self._questions.fetch_status(pending)
        if poll_result is not None and poll_result.status in TERMINAL:
            return await self._build_result(ctx, pending, OUTCOME_TIMEOUT_S, None)
        if show_link and pending.case.prompt:
            return await self._show_link_again(ctx, pending, wait_seconds)
        status = poll_result.status if poll_result is not None else None
        return await self._build_result(ctx, pending, wait_seconds, None, status)

    @_report_errors
    async def list_questions(self, ctx: Context[Any, Any]) -> ListToolResult:
        """List the questions whose answers you have not read, most urgent first, and those you just read."""
        unread = await self._questions.list_unread()
        shown = unread[:MAX_LISTED]
        statuses = await asyncio.gather(*map(self._fetch_status, shown))
        questions = [
            tool_results.summarize_question(one, status, with_link=await self._needs_link(ctx, one))
            for one, status in zip(shown, statuses, strict=True)
            if status != "gone"
        ]
        recent = [tool_results.describe_outcome(*one) for one in reversed(self._questions.recent)]
        return tool_results.build_tool_result(
            QuestionList(questions=questions, more=len(unread) - len(shown), recent=recent)
        )

    @_report_errors
    async def withdraw_question(
        self, case_id: say.CaseIdArgument, reason: say.Reason = ""
    ) -> FinalToolResult:
        """Withdraw a question that no longer needs an answer; the person is notified.

        If somebody answered before, you get that answer instead.
        """
        pending = await self._questions.find(case_id)
        return tool_results.build_tool_result(
            tool_results.describe_outcome(pending, await self._questions.withdraw(pending, reason))
        )

    async def _ask(
        self, ctx: ToolContext, draft: dict[str, Any], wait_seconds: float
    ) -> CallToolResult | InputRequiredResult:
        if ctx.request_state is None:
            return await self._show_link(ctx, await self._questions.open(draft), wait_seconds)
        # The second call: the question is open, and the client has shown its link.
        pending = await self._questions.find(ctx.request_state)
        return await self._build_result(ctx, pending, wait_seconds, link_elicitation.read_link_response(ctx))

    async def _show_link(
        self, ctx: ToolContext, pending: PendingCase, wait_seconds: float
    ) -> CallToolResult | InputRequiredResult:
        """Show the link as this client supports it, then wait for the decision."""
        mode = (
            link_elicitation.find_elicitation_mode(ctx)
            if not await self._questions.is_in_messenger(pending)
            else None
        )
        if mode == "retry":
            return link_elicitation.build_link_request(pending.case)
        if mode is None:
            return await self._build_result(ctx, pending, wait_seconds, None)
        followed, progress = self._questions.follow(pending), _Progress(ctx)
        shown = await link_elicitation.show_link(ctx, pending.case, followed, progress)
        return await self._build_result(
            ctx, pending, wait_seconds, shown, with_link=shown is None, progress=progress
        )

    async def _build_result(
        self,
        ctx: ToolContext,
        pending: PendingCase,
        wait_seconds: float,
        shown: LinkResponse,
        status: str | None = None,
        *,
        with_link: bool | None = None,
        progress: "_Progress | None" = None,
    ) -> CallToolResult:
        """Return the outcome if it arrives in time, otherwise the status."""
        if with_link is None:
            with_link = await self._needs_link(ctx, pending)
        if with_link or shown == "accept":
            await self._questions.mark_notified(pending)
        seconds = 0 if shown in ("decline", "cancel") else wait_seconds

        async def is_connected() -> bool:
            return not await is_disconnected(ctx.request_context)

        outcome = await self._questions.wait(pending, seconds, progress or _Progress(ctx), is_connected)
        if outcome is not None:
            return tool_results.build_tool_result(tool_results.describe_outcome(pending, outcome))
        followed_status = self._questions.follow(pending).status
        current = followed_status if followed_status != "pending" else status
        return tool_results.build_tool_result(
            tool_results.describe_open_question(pending, current, shown=shown, with_link=with_link)
        )

    async def _show_link_again(
        self, ctx: ToolContext, pending: PendingCase, wait_seconds: float
    ) -> CallToolResult | InputRequiredResult:
        if await self._questions.is_in_messenger(pending):
            await self._questions.send_again(pending)
        return await self._show_link(ctx, pending, wait_seconds)

    async def _needs_link(self, ctx: ToolContext, pending: PendingCase) -> bool:
        """Return whether the result must contain the link, because nothing else shows it."""
        return link_elicitation.find_elicitation_mode(
            ctx
        ) is None and not await self._questions.is_in_messenger(pending)

    async def _fetch_status(self, pending: PendingCase) -> str | None:
        try:
            poll_result = await self._questions.fetch_status(pending)
        except ServerRefused as refused:
            if refused.status == 404:
                return "gone"
            raise
        return poll_result.status if poll_result is not None else None


class _Progress:
    """Reports progress to the client while its call waits."""

    def __init__(self, ctx: ToolContext) -> None:
        self._ctx = ctx
        self._count = 0

    async def __call__(self, notice: Notice | None) -> None:
        self._count += 1
        await self._ctx.report_progress(self._count, None, _describe_progress(notice))


def _describe_progress(notice: Notice | None) -> str:
    if notice is None:
        return "Waiting for the person."
    if notice.name == "opened":
        return "The person has opened the question."
    progress = notice.progress
    if progress is not None and progress.current_step and progress.total_steps:
        return f"The person is answering: step {progress.current_step} of {progress.total_steps}."
    return "The person is answering."


def _find_client_name(ctx: ToolContext) -> str | None:
    """Return the name of the assistant, as the person sees it."""
    params = ctx.session.client_params
    name = (params.client_info.title or params.client_info.name) if params is not None else ""
    return truncate(to_single_line(name), MAX_NAME_LENGTH) or None


def _describe_error(error: PlacetError) -> str:
    path = error.details.get("path")
    where = f" (at {to_single_line(str(path))})" if path else ""
    return f"{to_single_line(error.message)}{where} [{error.code}] Nothing was decided."
