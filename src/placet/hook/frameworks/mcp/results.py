"""What a gate says to MCP clients, and how it hands on what it does not gate."""

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

from placet.errors import NobodyAsked, NothingToResume, PlacetError, ThreadBusy
from placet.hook.feedback import FeedbackResult, ToolFeedback
from placet.hook.frameworks.mcp.upstream import McpUpstream
from placet.hook.interruption import InterruptionMetadata
from placet.hook.result_texts import OUTCOME_UNKNOWN, describe_result
from placet.hook.tool_call import ToolCall
from placet.protocol.json_schema import UnusableSchema, problems

Ctx = ServerRequestContext[Any, Any]
LinkMethod = Literal["push", "retry"] | None
CallHandler = Callable[[Ctx, CallToolRequestParams], Awaitable[CallToolResult | InputRequiredResult]]
ResultT = TypeVar("ResultT", bound=BaseModel)
LINK_REQUEST = "review"
WAITING_META, HELD_META = "placet/waiting", "placet/held"
"""In the `_meta` of a result: the interruption that the call waits in; the code of what holds it."""
MAX_RESULT_BYTES = 1024 * 1024
MAX_LISTENERS = 100
_HOP_PREFIXES = ("placet/", "io.modelcontextprotocol/")
_INSTRUCTIONS = (
    "Some tools of this server wait for a person. Such a call answers with an error that says so: it has not"
    " run. Make the same call with the same arguments again later; it runs once it is approved."
)
_TOO_LARGE = "This call was approved and has run; its result was too large to keep. It was not run again."
_INTERRUPTED = (
    "This call was approved and began to run, and was broken off. Whether it took effect is unknown, and it"
    " was not run again. Check before you repeat it."
)


class _MirrorServer(Server[Any]):
    """Offers what another server offers, and says when that changes."""

    def create_initialization_options(
        self, notification_options: NotificationOptions | None = None, *args: Any, **named: Any
    ) -> InitializationOptions:
        options = notification_options or NotificationOptions(True, True, True)
        return super().create_initialization_options(options, *args, **named)


def build_mirror_server(client: Client, upstream: McpUpstream, call: CallHandler) -> Server[Any]:
    """A server that hands everything on but the calls of tools, which are `call`'s."""
    offered, its = client.server_capabilities, client.server_info
    listeners = _Listeners()
    upstream.on_change = listeners.tell

    def on(kind: type[BaseModel], result: type[ResultT]) -> Callable[[Ctx, Any], Awaitable[ResultT]]:
        return lambda ctx, params: _forward_request(upstream, kind, result, params)

    async def list_tools(ctx: Ctx, params: PaginatedRequestParams | None) -> Any:
        listeners.note(ctx)
        with _translate_unavailable():
            return await upstream.list_tools(params.cursor if params else None)

    server = _MirrorServer(
        its.name if its else "gated",
        version=its.version if its else "",
        title=its.title if its else None,
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
    upstream: McpUpstream, kind: type[BaseModel], result: type[ResultT], params: RequestParams
) -> ResultT:
    asked: Any = kind(params=params.model_copy(update={"meta": forwarded_meta(params)}))
    with _translate_unavailable():
        return await upstream.read(lambda client: client.session.send_request(asked, result))


@contextmanager
def _translate_unavailable() -> Iterator[None]:
    """What keeps the server behind the gate from answering, as an error that says so."""
    try:
        yield
    except PlacetError as error:
        raise MCPError(INTERNAL_ERROR, error.message) from error


class _Listeners:
    """The clients of the handshake's days, who are told of changes; newer ones ask when they care."""

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
            except Exception:  # whatever a client that left may raise
                self._sessions.pop(number, None)


def forwarded_meta(params: RequestParams) -> Any:
    """What the request carries for the server behind, without what is between two neighbours only."""
    meta: Mapping[str, Any] = params.meta or {}
    kept = {
        name: value
        for name, value in meta.items()
        if not name.startswith(_HOP_PREFIXES) and name not in ("progressToken", "progress_token")
    }
    return kept or None


class ProgressReporter:
    """What a client that wants to know hears: that a person is waited for, then what the tool reports."""

    def __init__(self, ctx: Ctx, params: RequestParams) -> None:
        self._session = ctx.session
        self._waited = 0
        self.of_tool = self._tell if "progress_token" in (params.meta or {}) else None
        """What the tool is to report to; None if nobody wants to know."""

    async def wait(self) -> None:
        """A person is still waited for."""
        self._waited += 1
        await self._session.report_progress(self._waited, None, "Waiting for a person to decide.")

    async def _tell(self, progress: float, total: float | None, message: str | None) -> None:
        """The tool has come so far; to its client progress only ever grows."""
        total = None if total is None else total + self._waited
        await self._session.report_progress(progress + self._waited, total, message)


def choose_link_method(ctx: Ctx) -> LinkMethod:
    """How this client can be brought to show a link, past the model; None if it cannot."""
    can = ctx.session.client_capabilities
    if can is None or can.elicitation is None or can.elicitation.url is None:
        return None
    if ctx.protocol_version in MODERN_PROTOCOL_VERSIONS:
        return "retry"
    return "push" if ctx.session.can_send_request else None


def find_review_link(waiting: InterruptionMetadata) -> str | None:
    """Where a person can decide the call."""
    return None if waiting.case is None else waiting.case.get("review_url")


def build_link_request(waiting: InterruptionMetadata) -> InputRequiredResult:
    """Have the client show the link and make the call again.

    The state only says that the link was shown. It opens nothing, so nothing is lost if a client forges it.
    """
    params = ElicitRequestURLParams(message=_build_link_message(waiting), url=find_review_link(waiting) or "")
    return InputRequiredResult(
        input_requests={LINK_REQUEST: ElicitRequest(params=params)}, request_state=waiting.id
    )


def was_link_opened(params: CallToolRequestParams) -> bool:
    """Whether the person opened the link that the first round of this call had the client show."""
    response = (params.input_responses or {}).get(LINK_REQUEST)
    return isinstance(response, ElicitResult) and response.action == "accept"


class ReviewLinkPrompt:
    """The link as a client of 2025-11-25 shows it, if `asks`: it is asked now, and answers when it likes."""

    def __init__(self, ctx: Ctx, waiting: InterruptionMetadata, *, asks: bool) -> None:
        self._session = ctx.session
        self._id = secrets.token_urlsafe(16)
        self._asking: asyncio.Task[ElicitResult] | None = None
        if asks:
            message, link = _build_link_message(waiting), find_review_link(waiting) or ""
            asking = ctx.session.elicit_url(message, link, self._id, ctx.request_id)
            self._asking = asyncio.create_task(asking)

    async def pause(self, seconds: float) -> bool:
        """Wait; False as soon as the person declined to open the link, for then nobody decides now."""
        if self._asking is None or self._asking.done():
            await asyncio.sleep(seconds)
        else:
            await asyncio.wait({self._asking}, timeout=seconds)
        return self._said() not in ("decline", "cancel")

    @property
    def failed(self) -> bool:
        """Whether the client could not show the link after all."""
        return self._asking is not None and self._asking.done() and self._said() is None

    async def is_over(self) -> None:
        """Nothing is left to do behind the link."""
        if self._said() == "accept":
            with suppress(MCPError):
                await self._session.send_elicit_complete(self._id)

    def take_back(self) -> None:
        """Do not ask any longer."""
        if self._asking is not None:
            self._asking.cancel()

    def _said(self) -> str | None:
        done = self._asking
        if done is None or not done.done() or done.cancelled() or done.exception() is not None:
            return None
        return done.result().action


@asynccontextmanager
async def show_link(
    ctx: Ctx, waiting: InterruptionMetadata, way: LinkMethod
) -> AsyncIterator[ReviewLinkPrompt]:
    """Have the client show the link as long as the block lasts, if it can be asked to."""
    link = ReviewLinkPrompt(ctx, waiting, asks=way == "push")
    try:
        yield link
    finally:
        link.take_back()


def _build_link_message(waiting: InterruptionMetadata) -> str:
    return f"Your decision is needed: {', '.join(call.name for call in waiting.undecided)[:200]}"


def build_waiting_result(
    waiting: InterruptionMetadata, name: str, *, with_link: bool, why: str | None = None
) -> CallToolResult:
    """The call has not run, and how to go on; or `why` nobody could be asked."""
    link = find_review_link(waiting)
    case = waiting.case or {}
    until = case.get("expires_at")
    parts = [f"This call of {name} waits for a person. It has not run."]
    if waiting.case is None:
        parts.append(f"No page to decide it on could be opened yet{f': {why}' if why else '.'}")
    elif with_link:
        parts.append(
            f"Ask your user to decide it at {link} . Pass the link on unchanged, and do not open it yourself."
        )
    parts.append("Then make the same call with the same arguments again: it runs once it is approved.")
    if until:
        parts.append(f"There is time until {until}.")
    about = {"interruption": waiting.id, "thread_id": waiting.thread_id, "case_id": case.get("case_id")}
    return _error(" ".join(parts), _meta={WAITING_META: about})


def build_held_result(error: PlacetError) -> CallToolResult:
    """Something went wrong, and no error lets a call through."""
    if isinstance(error, NobodyAsked):
        why = getattr(error.__cause__, "message", error.message)
        same = "The same call again changes nothing: make it otherwise."
        return _error(
            f"Nobody can be asked about this call, so it does not run: {why} {same}",
            _meta={HELD_META: error.code},
        )
    told_already = isinstance(error, ThreadBusy | NothingToResume)
    text = error.message if told_already else f"This call is held and has not run: {error.message}"
    return _error(text, _meta={HELD_META: error.code})


def is_connection_closed(error: MCPError) -> bool:
    """Whether the server behind the gate left in the middle of the call."""
    return error.code == CONNECTION_CLOSED


def build_failure_result(error: Exception) -> CallToolResult:
    """The server behind the gate did not answer the call, or not with a result."""
    if isinstance(error, ValidationError):
        return _error(
            f"The server behind the gate answered oddly; the call may have run: {_first_problem(error)}"
        )
    if isinstance(error, MCPError) and is_connection_closed(error):
        return _error(
            "The server behind the gate is gone. Whether the call took effect is unknown, and it was not"
            " repeated. Check before you repeat it; the server is started again then."
        )
    return _error(f"The server behind the gate refused the call: {error}")


def build_interrupted_result() -> CallToolResult:
    """What is kept of a call that its client cancelled while it ran."""
    return _error(_INTERRUPTED)


def build_decision_result(decided: ToolFeedback, said: str, tool: Tool | None) -> CallToolResult:
    """What a person said instead of the tool; a rejection is an error."""
    if decided.result is not FeedbackResult.RESPONDED:
        return _error(said)
    return _build_fitting_result([TextContent(text=said)], said, tool)


def announce_edit(
    result: CallToolResult, asked: ToolCall, ran: ToolCall, tool: Tool | None
) -> CallToolResult:
    """The result as the model reads it: an edit is not hidden from it."""
    if asked == ran:
        return result
    content = [TextContent(text=describe_result(asked, ran, "").rstrip()), *result.content]
    if asked.name == ran.name or result.is_error:
        return result.model_copy(update={"content": content})
    return _build_fitting_result(
        content, None, tool
    )  # another tool's structure would not fit what this one promised


def encode_result(result: CallToolResult) -> str:
    """A result as it is kept for one who comes later."""
    text = result.model_dump_json(by_alias=True, exclude_none=True)
    return text if len(text) <= MAX_RESULT_BYTES else _TOO_LARGE


def decode_result(kept: str) -> CallToolResult:
    """What `encode_result` wrote, or what the gate knows of a call that did not end."""
    with suppress(ValidationError):
        return CallToolResult.model_validate_json(kept)
    return _error(kept if kept in (OUTCOME_UNKNOWN, _TOO_LARGE) else f"This call does not run again. {kept}")


def _build_fitting_result(content: list[Any], said: str | None, tool: Tool | None) -> CallToolResult:
    """A result that a client takes, though the tool may have promised a structure that it cannot have."""
    schema = None if tool is None else tool.output_schema
    if schema is None:
        return CallToolResult(content=content)
    for structured in _candidate_structures(said):
        with suppress(UnusableSchema):
            if not problems(schema, structured):
                return CallToolResult(content=content, structured_content=structured)
    return CallToolResult(content=content, is_error=True)


def _candidate_structures(said: str | None) -> list[Any]:
    if said is None:
        return []
    with suppress(ValueError):
        if isinstance(read := json.loads(said), dict):
            return [read]
    return [{"result": said}]


def _error(text: str, **named: Any) -> CallToolResult:
    return CallToolResult(content=[TextContent(text=text)], is_error=True, **named)


def _first_problem(error: ValidationError) -> str:
    found = error.errors(include_url=False, include_input=False)[0]
    return f"{'.'.join(map(str, found['loc']))}: {found['msg']}."
