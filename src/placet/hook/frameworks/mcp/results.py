"""The server that MCP clients connect to, and the results it returns for gated calls."""

import asyncio
import json
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any, Literal, TypeVar

from mcp import Client
from mcp.server import NotificationOptions, Server, ServerRequestContext
from mcp.server.models import InitializationOptions
from mcp.shared.exceptions import MCPError
from mcp.types import (
    CONNECTION_CLOSED,
    INTERNAL_ERROR,
    CallToolRequestParams,
    CallToolResult,
    CompleteRequest,
    CompleteRequestParams,
    CompleteResult,
    ElicitRequest,
    ElicitRequestURLParams,
    ElicitResult,
    GetPromptRequest,
    GetPromptRequestParams,
    GetPromptResult,
    InputRequiredResult,
    ListPromptsRequest,
    ListPromptsResult,
    ListResourcesRequest,
    ListResourcesResult,
    ListResourceTemplatesRequest,
    ListResourceTemplatesResult,
    PaginatedRequestParams,
    ReadResourceRequest,
    ReadResourceRequestParams,
    ReadResourceResult,
    RequestParams,
    TextContent,
    Tool,
)
from mcp.types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import BaseModel, ValidationError

from placet.errors import CaseNotOpened, NothingToResume, PlacetError, ThreadBusy
from placet.hook.feedback import FeedbackResult, ToolFeedback
from placet.hook.frameworks.mcp.upstream import McpUpstream
from placet.hook.interruption import InterruptionMetadata
from placet.hook.result_texts import OUTCOME_UNKNOWN, FailedResult, describe_result
from placet.hook.tool_call import ToolCall
from placet.protocol.json_schema import UnusableSchema, find_violations

Ctx = ServerRequestContext[Any, Any]
LinkMethod = Literal["push", "retry"] | None
ToolCallHandler = Callable[[Ctx, CallToolRequestParams], Awaitable[CallToolResult | InputRequiredResult]]
ResultT = TypeVar("ResultT", bound=BaseModel)
LINK_REQUEST = "review"
WAITING_META, HELD_META = "placet/waiting", "placet/held"
"""Keys in a result's `_meta`: the interruption the call waits in; the error code that stopped it."""
MAX_RESULT_BYTES = 1024 * 1024
MAX_LISTENERS = 100
_HOP_PREFIXES = ("placet/", "io.modelcontextprotocol/")
_INSTRUCTIONS = (
    "Some tools of this server need a person's approval. A call that waits for approval returns an error that"
    " says so: it has not run. Make the same call with the same arguments again later; it runs once approved."
)
_TOO_LARGE = "This call was approved and has run; its result was too large to store. It was not run again."
_INTERRUPTED = (
    "This call was approved and started, and was interrupted. Whether it took effect is unknown, and it"
    " was not run again. Check before you repeat it."
)


class _MirrorServer(Server[Any]):
    """Offers what another server offers, and reports its changes."""

    def create_initialization_options(
        self, notification_options: NotificationOptions | None = None, *args: Any, **named: Any
    ) -> InitializationOptions:
        options = notification_options or NotificationOptions(True, True, True)
        return super().create_initialization_options(options, *args, **named)


def build_mirror_server(client: Client, upstream: McpUpstream, call: ToolCallHandler) -> Server[Any]:
    """Return a server that forwards everything but tool calls, which `call` handles."""
    offered, info = client.server_capabilities, client.server_info
    listeners = _Listeners()
    upstream.on_change = listeners.tell

    def on(request: type[BaseModel], result: type[ResultT]) -> Callable[[Ctx, Any], Awaitable[ResultT]]:
        return lambda ctx, params: _forward_request(upstream, request, result, params)

    async def list_tools(ctx: Ctx, params: PaginatedRequestParams | None) -> Any:
        listeners.note(ctx)
        with _translate_unavailable():
            return await upstream.list_tools(params.cursor if params else None)

    server = _MirrorServer(
        info.name if info else "gated",
        version=info.version if info else "",
        title=info.title if info else None,
        instructions="\n\n".join(filter(None, (client.instructions, _INSTRUCTIONS))),
        on_list_tools=list_tools,
        on_call_tool=call,
    )
    add = server.add_request_handler
    if offered.resources:
        read = on(ReadResourceRequest, ReadResourceResult)
        templates = on(ListResourceTemplatesRequest, ListResourceTemplatesResult)
        add("resources/list", PaginatedRequestParams, on(ListResourcesRequest, ListResourcesResult))
        add("resources/templates/list", PaginatedRequestParams, templates)
        add("resources/read", ReadResourceRequestParams, read)
    if offered.prompts:
        add("prompts/list", PaginatedRequestParams, on(ListPromptsRequest, ListPromptsResult))
        add("prompts/get", GetPromptRequestParams, on(GetPromptRequest, GetPromptResult))
    if offered.completions:
        add("completion/complete", CompleteRequestParams, on(CompleteRequest, CompleteResult))
    return server


async def _forward_request(
    upstream: McpUpstream, request: type[BaseModel], result: type[ResultT], params: RequestParams
) -> ResultT:
    forwarded: Any = request(params=params.model_copy(update={"meta": build_forwarded_meta(params)}))
    with _translate_unavailable():
        return await upstream.read(lambda client: client.session.send_request(forwarded, result))


@contextmanager
def _translate_unavailable() -> Iterator[None]:
    """Raise errors of the upstream connection as MCP errors."""
    try:
        yield
    except PlacetError as error:
        raise MCPError(INTERNAL_ERROR, error.message) from error


class _Listeners:
    """Clients of older protocol versions, which get change notifications; newer ones subscribe."""

    def __init__(self) -> None:
        self._sessions: dict[int, Any] = {}

    def note(self, ctx: Ctx) -> None:
        if ctx.protocol_version in MODERN_PROTOCOL_VERSIONS or ctx.session.client_params is None:
            return
        while len(self._sessions) >= MAX_LISTENERS:
            self._sessions.pop(next(iter(self._sessions)))
        self._sessions[id(ctx.session.client_params)] = ctx.session

    async def tell(self, change: Any) -> None:
        for number, session in list(self._sessions.items()):
            try:
                await session.send_notification(change)
            except Exception:  # a disconnected client may raise anything
                self._sessions.pop(number, None)


def build_forwarded_meta(params: RequestParams) -> Any:
    """Return the request's `_meta` for the upstream server, without hop-by-hop members."""
    meta: Mapping[str, Any] = params.meta or {}
    forwarded = {
        name: value
        for name, value in meta.items()
        if not name.startswith(_HOP_PREFIXES) and name not in ("progressToken", "progress_token")
    }
    return forwarded or None


class ProgressReporter:
    """Reports progress to a client that wants it: waiting for a reviewer, then the tool's own progress."""

    def __init__(self, ctx: Ctx, params: RequestParams) -> None:
        self._session = ctx.session
        self._waited = 0
        self.of_tool = self._tell if "progress_token" in (params.meta or {}) else None
        """The callback for the tool's progress; None if the client wants none."""

    async def wait(self) -> None:
        """Report that the call still waits for a reviewer."""
        self._waited += 1
        await self._session.report_progress(self._waited, None, "Waiting for a person to decide.")

    async def _tell(self, progress: float, total: float | None, message: str | None) -> None:
        """Report the tool's progress; offset, because progress must always grow."""
        total = None if total is None else total + self._waited
        await self._session.report_progress(progress + self._waited, total, message)


def choose_link_method(ctx: Ctx) -> LinkMethod:
    """Return how this client can show a link to its user, bypassing the model; None if it cannot."""
    can = ctx.session.client_capabilities
    if can is None or can.elicitation is None or can.elicitation.url is None:
        return None
    if ctx.protocol_version in MODERN_PROTOCOL_VERSIONS:
        return "retry"
    return "push" if ctx.session.can_send_request else None


def find_review_link(waiting: InterruptionMetadata) -> str | None:
    """Return the review link of the call."""
    return None if waiting.case is None else waiting.case.get("review_url")


def build_link_request(waiting: InterruptionMetadata) -> InputRequiredResult:
    """Return a result that makes the client show the link and make the call again.

    The state only says that the link was shown. It grants nothing, so forging it gains nothing.
    """
    params = ElicitRequestURLParams(message=_build_link_message(waiting), url=find_review_link(waiting) or "")
    return InputRequiredResult(
        input_requests={LINK_REQUEST: ElicitRequest(params=params)}, request_state=waiting.id
    )


def was_link_opened(params: CallToolRequestParams) -> bool:
    """Return whether the user opened the link that the first round of this call showed."""
    response = (params.input_responses or {}).get(LINK_REQUEST)
    return isinstance(response, ElicitResult) and response.action == "accept"


class ReviewLinkPrompt:
    """The link as a client of 2025-11-25 shows it, if `asks`: requested now, answered at any time."""

    def __init__(self, ctx: Ctx, waiting: InterruptionMetadata, *, asks: bool) -> None:
        self._session = ctx.session
        self._id = secrets.token_urlsafe(16)
        self._request: asyncio.Task[ElicitResult] | None = None
        if asks:
            message, link = _build_link_message(waiting), find_review_link(waiting) or ""
            asking = ctx.session.elicit_url(message, link, self._id, ctx.request_id)
            self._request = asyncio.create_task(asking)

    async def pause(self, seconds: float, closing: "asyncio.Task[None] | None" = None) -> bool:
        """Wait until `closing` ends; return False as soon as the user declined to open the link."""
        ends = {task for task in (self._request, closing) if task is not None and not task.done()}
        if ends:
            await asyncio.wait(ends, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        else:
            await asyncio.sleep(seconds)
        return self._describe_user_action() not in ("decline", "cancel")

    @property
    def failed(self) -> bool:
        """Whether the client could not show the link."""
        return self._request is not None and self._request.done() and self._describe_user_action() is None

    async def complete(self) -> None:
        """Tell the client that the link is no longer needed."""
        if self._describe_user_action() == "accept":
            with suppress(MCPError):
                await self._session.send_elicit_complete(self._id)

    def cancel(self) -> None:
        """Cancel the request."""
        if self._request is not None:
            self._request.cancel()

    def _describe_user_action(self) -> str | None:
        done = self._request
        if done is None or not done.done() or done.cancelled() or done.exception() is not None:
            return None
        return done.result().action


@asynccontextmanager
async def show_link(
    ctx: Ctx, waiting: InterruptionMetadata, method: LinkMethod
) -> AsyncIterator[ReviewLinkPrompt]:
    """Have the client show the link while the block runs, if it can."""
    link = ReviewLinkPrompt(ctx, waiting, asks=method == "push")
    try:
        yield link
    finally:
        link.cancel()


def _build_link_message(waiting: InterruptionMetadata) -> str:
    return f"Your decision is needed: {', '.join(call.name for call in waiting.undecided)[:200]}"


def build_waiting_result(
    waiting: InterruptionMetadata, name: str, *, with_link: bool, why: str | None = None
) -> CallToolResult:
    """Return a result that says the call has not run and how to continue, or `why` it cannot be reviewed."""
    link = find_review_link(waiting)
    case = waiting.case or {}
    until = case.get("expires_at")
    parts = [f"This call of {name} waits for a person. It has not run."]
    if waiting.case is None:
        parts.append(f"No review page could be opened yet{f': {why}' if why else '.'}")
    elif with_link:
        parts.append(
            f"Ask your user to decide it at {link} . Pass the link on unchanged, and do not open it yourself."
        )
    parts.append("Then make the same call with the same arguments again: it runs once it is approved.")
    if until:
        parts.append(f"The decision is due by {until}.")
    about = {"interruption": waiting.id, "thread_id": waiting.thread_id, "case_id": case.get("case_id")}
    return _build_error(" ".join(parts), _meta={WAITING_META: about})


def build_held_result(error: PlacetError) -> CallToolResult:
    """Return a result for an error; no error lets a call run."""
    if isinstance(error, CaseNotOpened):
        why = getattr(error.__cause__, "message", error.message)
        advice = "Do not repeat it unchanged."
        return _build_error(
            f"This call cannot be reviewed, so it does not run: {why} {advice}",
            _meta={HELD_META: error.code},
        )
    is_explained = isinstance(error, ThreadBusy | NothingToResume)
    text = error.message if is_explained else f"This call is held and has not run: {error.message}"
    return _build_error(text, _meta={HELD_META: error.code})


def is_connection_closed(error: MCPError) -> bool:
    """Return whether the connection to the upstream server closed during the call."""
    return error.code == CONNECTION_CLOSED


def build_failure_result(error: Exception) -> CallToolResult:
    """Return a result for an upstream server that did not respond, or not with a result."""
    if isinstance(error, ValidationError):
        return _build_error(
            "The upstream MCP server sent an invalid response; the call may have run:"
            f" {_first_problem(error)}"
        )
    if isinstance(error, MCPError) and is_connection_closed(error):
        return _build_error(
            "The upstream MCP server stopped. Whether the call took effect is unknown, and it was not"
            " repeated. Check before you repeat it; the server is started again then."
        )
    return _build_error(f"The upstream MCP server refused the call: {error}")


def build_interrupted_result() -> CallToolResult:
    """Return what is stored for a call that its client cancelled while it ran."""
    return _build_error(_INTERRUPTED)


def build_decision_result(decided: ToolFeedback, said: str, tool: Tool | None) -> CallToolResult:
    """Return a reviewer's response in the tool's place; a rejection is an error."""
    if decided.result is not FeedbackResult.RESPONDED:
        return _build_error(said)
    return _build_fitting_result([TextContent(text=said)], said, tool)


def announce_edit(
    result: CallToolResult, asked: ToolCall, ran: ToolCall, tool: Tool | None
) -> CallToolResult:
    """Return the result with a notice of an edit."""
    if asked == ran:
        return result
    content = [TextContent(text=describe_result(asked, ran, "").rstrip()), *result.content]
    if asked.name == ran.name or result.is_error:
        return result.model_copy(update={"content": content})
    return _build_fitting_result(
        content, None, tool
    )  # another tool's structured result would not match this tool's output schema


def encode_result(result: CallToolResult) -> str:
    """Return a result as it is stored for later requests."""
    text = result.model_dump_json(by_alias=True, exclude_none=True)
    stored = text if len(text) <= MAX_RESULT_BYTES else _TOO_LARGE
    return FailedResult(stored) if result.is_error else stored


def decode_result(stored: str) -> CallToolResult:
    """Return what `encode_result` wrote, or an error with one of our texts."""
    with suppress(ValidationError):
        return CallToolResult.model_validate_json(stored)
    known = stored in (OUTCOME_UNKNOWN, _TOO_LARGE)
    return _build_error(stored if known else f"This call does not run again. {stored}")


def _build_fitting_result(content: list[Any], said: str | None, tool: Tool | None) -> CallToolResult:
    """Return a result that clients accept even if the tool's output schema cannot be met."""
    schema = None if tool is None else tool.output_schema
    if schema is None:
        return CallToolResult(content=content)
    for structured in _candidate_structures(said):
        with suppress(UnusableSchema):
            if not find_violations(schema, structured):
                return CallToolResult(content=content, structured_content=structured)
    return CallToolResult(content=content, is_error=True)


def _candidate_structures(said: str | None) -> list[Any]:
    if said is None:
        return []
    with suppress(ValueError):
        if isinstance(read := json.loads(said), dict):
            return [read]
    return [{"result": said}]


def _build_error(text: str, **named: Any) -> CallToolResult:
    return CallToolResult(content=[TextContent(text=text)], is_error=True, **named)


def _first_problem(error: ValidationError) -> str:
    found = error.errors(include_url=False, include_input=False)[0]
    return f"{'.'.join(map(str, found['loc']))}: {found['msg']}."
