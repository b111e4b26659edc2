"""An MCP server in front of another one: it forwards everything and stops tool calls for review.

MCP has no turns and no call ids: a call waits under its client, tool and arguments. Made again, in any
process, it gets the decision; once its outcome was delivered, it is a new call. A client that names its calls
in `_meta` gets the same outcome for the same name.
"""

import asyncio
import itertools
import logging
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, nullcontext, suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, ParamSpec, TypeVar

import anyio
import anyio.to_thread
from mcp.server import Server, ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp.types import CallToolRequestParams, CallToolResult, Implementation, InputRequiredResult, Tool
from pydantic import ValidationError

from placet.errors import (
    CheckpointConflict,
    HookError,
    InvalidFeedback,
    NothingToResume,
    PlacetError,
    ServerRefused,
    ThreadBusy,
    Unavailable,
)
from placet.hook.answer_validation import Feedback
from placet.hook.approval_rules import Hook, check_rules, has_async_hook
from placet.hook.argument_checks import (
    require_duration,
    require_grants,
    require_hooks,
    require_methods,
    require_number,
    require_reviews,
    require_text,
)
from placet.hook.async_values import offer_event_loop
from placet.hook.call_leases import CallStart
from placet.hook.feedback import ToolFeedback
from placet.hook.frameworks.mcp import call_identity, results
from placet.hook.frameworks.mcp.case_errors import CaseErrorRecorder
from placet.hook.frameworks.mcp.policy import TOOL_CHANGED, TOOL_STATE, UnlistedToolHook, is_unchanged
from placet.hook.frameworks.mcp.retention import PREFIX, PURGE_INTERVAL, RETAIN_FOR, purge_calls
from placet.hook.frameworks.mcp.upstream import McpUpstream, ToolsChanged
from placet.hook.gate import Gate
from placet.hook.grants import GrantSource
from placet.hook.heartbeat import DEFAULT_LEASE, Heartbeat
from placet.hook.interruption import InterruptionMetadata
from placet.hook.result_texts import get_refusal
from placet.hook.reviews import Reviews
from placet.hook.savers.saver import Saver, require_saver
from placet.hook.tool_call import ToolCall
from placet.hook.waiting import wait_for_case
from placet.hook.workers import Workers

logger = logging.getLogger(__name__)
P = ParamSpec("P")
T = TypeVar("T")
Ctx = ServerRequestContext[Any, Any]
CallAnswer = CallToolResult | InputRequiredResult
WAIT_S = 20.0
POLL_INTERVAL_S = 2.0
MAX_CLIENTS = 100
MAX_EVALUATIONS = 5
ALREADY_DELIVERED = "Another process has delivered the outcome of this call; it was not run again."
_GONE_STATUSES = frozenset({404, 410})


class ApprovalProxy:
    """Gates the tools of the server that `upstream` connects to; clients connect to `server()`.

    `scope` tells this server from others that share the saver or the grants: no approval for one counts
    for another. A call waits `wait_for` seconds for its decision, then says how to continue. `agent` is
    the name shown to reviewers, by default the client's own name; with a scope, the server's name is
    added. With `reviews`, each waiting call opens a case.
    """

    def __init__(
        self,
        upstream: McpUpstream,
        *hooks: Hook,
        saver: Saver,
        scope: str = "",
        agent: str | None = None,
        reviews: Reviews | None = None,
        grants: GrantSource | None = None,
        wait_for: float = WAIT_S,
        poll_interval: float = POLL_INTERVAL_S,
        lease_for: timedelta = DEFAULT_LEASE,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        require_methods("upstream", upstream, ["client", "call"], "an McpUpstream")
        require_hooks(hooks)
        require_saver(saver)
        require_reviews(reviews)
        require_grants(grants)
        require_text("scope", scope)
        if agent is not None:
            require_text("agent", agent)
        require_number("wait_for", wait_for)
        require_number("poll_interval", poll_interval)
        require_duration("lease_for", lease_for)
        self._upstream = upstream
        self._saver = saver
        self._scope = scope
        self._agent = agent
        self._server_info: Implementation | None = None
        self._wait_for = wait_for
        self._poll_interval = poll_interval
        self._clock = clock
        self._heartbeat = Heartbeat(lease_for)
        self._blocks = saver.blocking or reviews is not None or grants is not None or has_async_hook(hooks)
        self._hooks = (*hooks, UnlistedToolHook())
        self._are_rules_checked = False
        self._reviews = None if reviews is None else CaseErrorRecorder(reviews)
        self._gate_for: Callable[[str], Gate] = lambda agent: Gate(
            self._hooks,
            saver,
            agent=agent,
            reviews=self._reviews,
            grants=grants,
            lease_for=lease_for,
            clock=clock,
        )
        self._gates: dict[str, Gate] = {}
        self._waiters = Workers()
        self._turns = itertools.count(1)
        self._open_requests: Counter[str] = Counter()  # how many requests of this process wait for a call
        self._received: dict[str, str] = {}  # those calls whose outcome a request has received

    async def server(self) -> Server[Any]:
        """Return the server for clients: it offers what the upstream server offers, under its name.

        Raises HookError if a rule matches no tool of the upstream server.
        """
        client = await self._upstream.client()
        self._server_info = client.server_info
        with suppress(Unavailable):  # then the first call checks the rules
            await self._upstream.refresh()
            self._check_rules()
        return results.build_mirror_server(client, self._upstream, self._call)

    def waiting(self) -> tuple[InterruptionMetadata, ...]:
        """Return the calls that wait for a reviewer, the one that has waited longest first."""
        keys = [key for key in self._saver.list_threads("paused") if key.startswith(PREFIX)]
        return tuple(found for key in keys if (found := self.find_stopped(key)) is not None)

    def find_stopped(self, key: str) -> InterruptionMetadata | None:
        """Return a stopped call, with its decision if there is one."""
        return self._gate("").waiting(key)

    def answer(self, key: str, feedback: Feedback | None) -> InterruptionMetadata:
        """Decide a call in code; `key` is the `thread_id` of its interruption. Raises InvalidFeedback.

        It runs when its client makes it again, or at once if the client is waiting.
        """
        require_text("key", key, "the thread_id of an interruption, as in answer(key, feedback)")
        return self._gate("").answer(key, feedback, schemas=self._list_schemas())

    def purge(self, older_than: timedelta = RETAIN_FOR) -> None:
        """Delete calls that are over, and decisions and outcomes that were never collected."""
        purge_calls(self._saver, self._clock() - older_than, by_case=self._reviews is not None)

    async def purge_periodically(self, every: timedelta = PURGE_INTERVAL) -> None:
        """Delete old calls at intervals, until cancelled."""
        while True:
            await asyncio.sleep(every.total_seconds())
            try:
                await self._run_blocking(self.purge)
            except PlacetError as error:
                logger.warning("purge_failed", exc_info=error)

    async def _call(self, ctx: Ctx, params: CallToolRequestParams) -> CallAnswer:
        try:
            client = call_identity.read_client_name(ctx)
            call, key = call_identity.identify_call(params, client, self._scope)
            async with self._tracking_request(key, is_named=call_identity.has_call_id(params)) as receive:
                for _ in range(MAX_EVALUATIONS):
                    with suppress(ToolsChanged):
                        return await self._evaluate_and_run(ctx, params, call, key, client, receive)
            raise Unavailable("The tools of the upstream MCP server keep changing. Call again later.")
        except PlacetError as error:
            return results.build_held_result(error)

    def _check_rules(self) -> None:
        check_rules(self._hooks, self._upstream.tools)
        self._are_rules_checked = True

    async def _evaluate_and_run(
        self,
        ctx: Ctx,
        params: CallToolRequestParams,
        call: ToolCall,
        key: str,
        client: str,
        receive: Callable[[str], None],
    ) -> CallAnswer:
        tool, edition = await self._upstream.tool(call.name)
        if not self._are_rules_checked:
            self._check_rules()
        gate, state = self._gate(client, tool), {TOOL_STATE: tool, "client": client}
        schemas = {} if tool is None else {call.name: tool.input_schema}
        stopped = await self._stop(gate, key, call, state, schemas)
        if stopped is None:
            return await self._forward(ctx, params, edition)
        progress = results.ProgressReporter(ctx, params)
        interruption, response = await self._await_decision(ctx, params, gate, stopped, progress)
        if response is not None:
            return response
        decided = interruption.tool_feedbacks[0]
        said = get_refusal(decided)
        if said is None:
            edition = await self._check_tool_unchanged(gate, interruption, decided, state)
            answer = await self._run(params, gate, interruption, call, decided, progress, edition)
        else:
            answer = results.build_decision_result(decided, said, tool)
        if not await call_identity.is_disconnected(ctx):
            receive(interruption.id)
        return answer

    async def _stop(
        self,
        gate: Gate,
        key: str,
        call: ToolCall,
        state: dict[str, Any],
        schemas: dict[str, Any],
    ) -> InterruptionMetadata | None:
        turn = next(self._turns)
        while True:
            try:
                return await self._run_blocking(
                    gate.stop, key, [call], state=state, schemas=schemas, turn=turn
                )
            except CheckpointConflict:  # the same call, made elsewhere at the same time
                continue

    async def _forward(self, ctx: Ctx, params: CallToolRequestParams, edition: int) -> CallToolResult:
        response, meta = results.ProgressReporter(ctx, params).of_tool, results.build_forwarded_meta(params)
        try:
            return await self._upstream.call(
                params.name, params.arguments or {}, meta, response, edition=edition
            )
        except ValidationError as error:
            return results.build_failure_result(error)
        except MCPError as error:
            if results.is_connection_closed(error):
                return results.build_failure_result(error)
            raise

    async def _await_decision(
        self,
        ctx: Ctx,
        params: CallToolRequestParams,
        gate: Gate,
        stopped: InterruptionMetadata,
        progress: results.ProgressReporter,
    ) -> tuple[InterruptionMetadata, CallAnswer | None]:
        """Return the decision, or the response for the client while there is none."""
        interruption = await self._poll(gate, stopped)
        if not interruption.undecided:
            return interruption, None
        shown_before = params.request_state == stopped.id
        method = results.choose_link_method(ctx) if results.find_review_link(interruption) else None
        if method == "retry" and not shown_before:
            return interruption, results.build_link_request(interruption)
        with_link = method is None
        async with results.show_link(ctx, interruption, method) as link:
            wait_s = self._wait_for if not shown_before or results.was_link_opened(params) else 0.0
            until, closing = time.monotonic() + wait_s, None
            while interruption.undecided and (left := until - time.monotonic()) > 0:
                await progress.wait()
                closing = self._follow_case(interruption, left, closing)
                if not await link.pause(
                    min(self._poll_interval, left), closing
                ) or await call_identity.is_disconnected(ctx):
                    break
                interruption = await self._poll(gate, interruption)
            with_link = with_link or link.failed
            if not interruption.undecided:
                await link.complete()
        open_still = interruption.undecided or await call_identity.is_disconnected(
            ctx
        )  # a disconnected client would not receive the result
        why = None if self._reviews is None else self._reviews.find_error(interruption)
        response = (
            results.build_waiting_result(interruption, params.name, with_link=with_link, why=why)
            if open_still
            else None
        )
        return interruption, response

    async def _poll(self, gate: Gate, interruption: InterruptionMetadata) -> InterruptionMetadata:
        """Return the interruption with new decisions; if the review server is unavailable, without."""
        key = interruption.thread_id
        try:
            return await self._run_blocking(gate.answer, key, None, schemas=self._list_schemas())
        except (Unavailable, CheckpointConflict) as error:
            logger.warning("poll_failed call=%s", key, exc_info=error)
            return interruption
        except NothingToResume:
            raise NothingToResume(ALREADY_DELIVERED) from None
        except InvalidFeedback as error:
            await self._run_blocking(self._saver.release, key)
            raise InvalidFeedback(
                f"The call was answered, but not with a decision: {error.message} Call again to ask again."
            ) from error
        except ServerRefused as refused:
            if refused.status in _GONE_STATUSES:
                await self._run_blocking(self._saver.release, key)
            raise

    async def _check_tool_unchanged(
        self,
        gate: Gate,
        interruption: InterruptionMetadata,
        decided: ToolFeedback,
        state: dict[str, Any],
    ) -> int:
        """Refuse to run a tool that has changed since the reviewer saw it; return its edition.

        If the server died meanwhile, it is asked over a new connection, so that the decision is not
        lost.
        """
        tool, edition = await self._upstream.tool(decided.name)
        saved = await self._run_blocking(self._saver.get, interruption.thread_id)
        asked = None if saved is None or saved.checkpoint.started else saved.checkpoint.interruption
        if asked is None or asked.id != interruption.id:
            return edition
        [shown] = asked.tool_feedbacks
        if shown.name == decided.name and not await self._run_blocking(
            is_unchanged, shown, self._hooks, {**state, TOOL_STATE: tool}
        ):
            await self._run_blocking(gate.release, interruption.thread_id)
            raise HookError(TOOL_CHANGED)
        return edition

    async def _run(
        self,
        params: CallToolRequestParams,
        gate: Gate,
        interruption: InterruptionMetadata,
        asked: ToolCall,
        decided: ToolFeedback,
        progress: results.ProgressReporter,
        edition: int,
    ) -> CallToolResult:
        """Run the call as decided, unless it ran before. Its start is recorded even if it fails."""
        ran, key = decided.call, interruption.thread_id
        begun = await self._begin(gate, interruption, asked.id)
        if not begun.run:
            return results.decode_result(begun.result)
        keep = partial(self._store_result, gate, key, asked, ran)
        try:
            async with self._renewing_lease(key):
                result = await self._upstream.call(
                    ran.name,
                    ran.arguments,
                    results.build_forwarded_meta(params),
                    progress.of_tool,
                    edition=edition,
                )
        except (ToolsChanged, Unavailable):  # the call was not sent, so the decision still counts
            with anyio.CancelScope(shield=True):
                await self._run_blocking(gate.undo_begin, key, asked.id)
            raise
        except (MCPError, ValidationError) as error:
            return await keep(results.build_failure_result(error))
        except BaseException:
            await keep(results.build_interrupted_result())
            raise
        return await keep(result)

    async def _store_result(
        self, gate: Gate, key: str, asked: ToolCall, ran: ToolCall, result: CallToolResult
    ) -> CallToolResult:
        """Return the result for the client, and store it for later requests."""
        shown = results.announce_edit(result, asked, ran, self._upstream.tools.get(asked.name))
        try:
            with anyio.CancelScope(shield=True):
                await self._run_blocking(gate.finish, key, asked.id, results.encode_result(shown))
        except PlacetError as error:  # it ran, so the client must get the result anyway
            logger.warning("result_not_stored call=%s", key, exc_info=error)
        return shown

    def _follow_case(
        self, interruption: InterruptionMetadata, left: float, before: "asyncio.Task[None] | None"
    ) -> "asyncio.Task[None] | None":
        """Return a task that ends when the case may have closed; None if its reviews cannot tell."""
        if interruption.case is None or not hasattr(self._reviews, "wait_for_case"):
            return None
        if before is not None and not before.done():
            return before
        waiting = partial(wait_for_case, self._reviews, interruption.case, left)
        with offer_event_loop(asyncio.get_running_loop()):
            return asyncio.create_task(self._waiters.run(waiting))

    async def _begin(self, gate: Gate, decided: InterruptionMetadata, call_id: str) -> CallStart:
        key, until = decided.thread_id, time.monotonic() + self._wait_for
        while True:
            try:
                with anyio.CancelScope(shield=True):
                    return await self._run_blocking(gate.begin, key, call_id, interruption=decided.id)
            except NothingToResume:
                raise NothingToResume(ALREADY_DELIVERED) from None
            except ThreadBusy:
                if time.monotonic() >= until:
                    raise ThreadBusy(
                        "The approved call is still running. Call again to get its result."
                    ) from None
                await asyncio.sleep(min(self._poll_interval, max(0.0, until - time.monotonic())))

    @asynccontextmanager
    async def _renewing_lease(self, key: str) -> AsyncIterator[None]:
        """Renew the call's lease while the block runs."""
        saved = await self._run_blocking(self._saver.get, key)
        with self._heartbeat.renewing(self._saver, saved.checkpoint) if saved is not None else nullcontext():
            yield

    @asynccontextmanager
    async def _tracking_request(self, key: str, *, is_named: bool) -> AsyncIterator[Callable[[str], None]]:
        """Store a call until every request for it has its outcome; the next request is a new call."""
        settled: list[str] = []
        self._open_requests[key] += 1
        try:
            yield settled.append
            # After an error this request did not get the outcome, though others may have.
            if settled:
                self._received[key] = settled[0]
        finally:
            self._open_requests[key] -= 1
            if not self._open_requests[key]:
                del self._open_requests[key]
                over = self._received.pop(key, None)
                if over is not None and not is_named:
                    with anyio.CancelScope(shield=True):
                        await self._mark_delivered(key, over)

    async def _mark_delivered(self, key: str, interruption: str) -> None:
        try:
            await self._run_blocking(self._gate("").mark_delivered, key, interruption, ALREADY_DELIVERED)
        except PlacetError as error:
            logger.warning("outcome_not_deleted", exc_info=error)

    def _gate(self, client: str, tool: Tool | None = None) -> Gate:
        place = call_identity.describe_server(self._server_info, self._scope, tool)
        name = f"{self._agent or client or 'assistant'}{place}"
        while name not in self._gates and len(self._gates) >= MAX_CLIENTS:
            self._gates.pop(next(iter(self._gates)))
        return self._gates.setdefault(name, self._gate_for(name))

    def _list_schemas(self) -> dict[str, Any]:
        return {name: tool.input_schema for name, tool in self._upstream.tools.items()}

    async def _run_blocking(self, method: Callable[P, T], *args: P.args, **named: P.kwargs) -> T:
        if not self._blocks:
            return method(*args, **named)
        with offer_event_loop(asyncio.get_running_loop()):
            return await anyio.to_thread.run_sync(partial(method, *args, **named))
