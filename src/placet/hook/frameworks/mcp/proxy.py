"""Approval for any MCP server: a server before it that hands everything on and lets calls of tools wait.

MCP has no turns and no ids for calls: a call waits under its client, its tool and its arguments. Made again,
it finds what a person decided meanwhile, in whatever process; once its outcome was handed out, it is a new
call. A client that names its calls in `_meta` gets the same outcome for the same name.
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

from placet.client import ServerRefused
from placet.errors import (
    CheckpointConflict,
    HookError,
    InvalidFeedback,
    NothingToResume,
    PlacetError,
    ThreadBusy,
    Unavailable,
)
from placet.hook.answer_validation import Feedback
from placet.hook.call_leases import CallStart
from placet.hook.feedback import ToolFeedback
from placet.hook.frameworks.mcp import call_identity, results
from placet.hook.frameworks.mcp.case_errors import CaseErrorRecorder
from placet.hook.frameworks.mcp.policy import TOOL_CHANGED, TOOL_STATE, UnlistedToolHook, is_unchanged
from placet.hook.frameworks.mcp.retention import PREFIX, PURGE_INTERVAL, RETAIN_FOR, purge_calls
from placet.hook.frameworks.mcp.upstream import McpUpstream, ToolsChanged
from placet.hook.frameworks.thread_store import refusal_of
from placet.hook.gate import DEFAULT_LEASE, ApprovalGate
from placet.hook.grants import GrantSource
from placet.hook.heartbeat import Heartbeat
from placet.hook.interruption import InterruptionMetadata
from placet.hook.policy import Hook
from placet.hook.reviews import Reviews
from placet.hook.savers.saver import Saver
from placet.hook.tool_call import ToolCall

logger = logging.getLogger(__name__)
P = ParamSpec("P")
T = TypeVar("T")
Ctx = ServerRequestContext[Any, Any]
Answer = CallToolResult | InputRequiredResult
WAIT_S = 20.0
POLL_INTERVAL_S = 2.0
MAX_CLIENTS = 100
MAX_EVALUATIONS = 5
ALREADY_DELIVERED = "Another process has handed out what became of this call; it was not run again."
_GONE_STATUSES = frozenset({404, 410})


class ApprovalProxy:
    """Gates the tools of the server behind `upstream`, which is connected; `server()` is what clients meet.

    `scope` tells this server from others that share the saver or the grants: no approval for one counts for
    another. A call waits `wait_for` seconds for its person, then says how to go on. `agent` is whom people
    read as asking, by default the client's own name; where there is a scope they read the server with it.
    With `reviews` each call that waits opens a case.
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
        self._upstream = upstream
        self._saver = saver
        self._scope = scope
        self._agent = agent
        self._behind: Implementation | None = None
        self._wait_for = wait_for
        self._look_every = poll_interval
        self._clock = clock
        self._heartbeat = Heartbeat(lease_for)
        self._blocks = saver.blocking or reviews is not None or grants is not None
        self._hooks = (*hooks, UnlistedToolHook())
        self._reviews = None if reviews is None else CaseErrorRecorder(reviews)
        self._gate_for: Callable[[str], ApprovalGate] = lambda agent: ApprovalGate(
            self._hooks,
            saver,
            agent=agent,
            reviews=self._reviews,
            grants=grants,
            lease_for=lease_for,
            clock=clock,
        )
        self._gates: dict[str, ApprovalGate] = {}
        self._turns = itertools.count(1)
        self._inside: Counter[str] = Counter()  # how many requests of this process care for a call
        self._settled: dict[str, str] = {}  # the calls among them whose outcome one of them has got

    async def server(self) -> Server[Any]:
        """The server that clients meet: what the one behind it offers, under its name."""
        client = await self._upstream.client()
        self._behind = client.server_info
        return results.build_mirror_server(client, self._upstream, self._call)

    def waiting(self) -> tuple[InterruptionMetadata, ...]:
        """The calls that wait for a person, the one that has waited longest first."""
        keys = [key for key in self._saver.list_threads("paused") if key.startswith(PREFIX)]
        return tuple(found for key in keys if (found := self.stopped(key)) is not None)

    def stopped(self, key: str) -> InterruptionMetadata | None:
        """A call that was stopped, with its decision if there is one."""
        return self._gate("").waiting(key)

    def answer(self, key: str, feedback: Feedback | None) -> InterruptionMetadata:
        """Decide a call in code; `key` is the `thread_id` of its interruption. Raises InvalidFeedback.

        It runs when its client makes it again, or at once if that waits for it.
        """
        return self._gate("").answer(key, feedback, schemas=self._schemas())

    def forget(self, older_than: timedelta = RETAIN_FOR) -> None:
        """Forget calls that are over, decisions and outcomes that nobody came for."""
        purge_calls(self._saver, self._clock() - older_than, by_case=self._reviews is not None)

    async def keep_forgetting(self, every: timedelta = PURGE_INTERVAL) -> None:
        """Forget now and then, as long as it is not cancelled."""
        while True:
            await asyncio.sleep(every.total_seconds())
            try:
                await self._run_blocking(self.forget)
            except PlacetError as error:
                logger.warning("Old calls could not be forgotten.", exc_info=error)

    async def _call(self, ctx: Ctx, params: CallToolRequestParams) -> Answer:
        try:
            client = call_identity.read_client_name(ctx)
            call, key = call_identity.identify_call(params, client, self._scope)
            async with self._caring(key, is_named=call_identity.has_call_id(params)) as settle:
                for _ in range(MAX_EVALUATIONS):
                    with suppress(ToolsChanged):
                        return await self._judged(ctx, params, call, key, client, settle)
            raise Unavailable("The tools behind the gate keep changing.")
        except PlacetError as error:
            return results.build_held_result(error)

    async def _judged(
        self,
        ctx: Ctx,
        params: CallToolRequestParams,
        call: ToolCall,
        key: str,
        client: str,
        settle: Callable[[str], None],
    ) -> Answer:
        tool, edition = await self._upstream.tool(call.name)
        gate, state = self._gate(client, tool), {TOOL_STATE: tool, "client": client}
        schemas = {} if tool is None else {call.name: tool.input_schema}
        stopped = await self._stop(gate, key, call, state, schemas)
        if stopped is None:
            return await self._hand_on(ctx, params, edition)
        progress = results.ProgressReporter(ctx, params)
        standing, told = await self._decision(ctx, params, gate, stopped, progress)
        if told is not None:
            return told
        decided = standing.tool_feedbacks[0]
        said = refusal_of(decided)
        if said is None:
            edition = await self._see_that_it_is_as_shown(gate, standing, decided, state)
            answer = await self._run(params, gate, standing, call, decided, progress, edition)
        else:
            answer = results.build_decision_result(decided, said, tool)
        if not await call_identity.is_disconnected(ctx):
            settle(standing.id)
        return answer

    async def _stop(
        self,
        gate: ApprovalGate,
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

    async def _hand_on(self, ctx: Ctx, params: CallToolRequestParams, edition: int) -> CallToolResult:
        told, meta = results.ProgressReporter(ctx, params).of_tool, results.forwarded_meta(params)
        try:
            return await self._upstream.call(params.name, params.arguments or {}, meta, told, edition=edition)
        except ValidationError as error:
            return results.build_failure_result(error)
        except MCPError as error:
            if results.is_connection_closed(error):
                return results.build_failure_result(error)
            raise

    async def _decision(
        self,
        ctx: Ctx,
        params: CallToolRequestParams,
        gate: ApprovalGate,
        stopped: InterruptionMetadata,
        progress: results.ProgressReporter,
    ) -> tuple[InterruptionMetadata, Answer | None]:
        """The decision, or what the client is told while there is none."""
        standing = await self._look(gate, stopped)
        if not standing.undecided:
            return standing, None
        shown_before = params.request_state == stopped.id
        way = results.choose_link_method(ctx) if results.find_review_link(standing) else None
        if way == "retry" and not shown_before:
            return standing, results.build_link_request(standing)
        with_link = way is None
        async with results.show_link(ctx, standing, way) as link:
            patience = self._wait_for if not shown_before or results.was_link_opened(params) else 0.0
            until = time.monotonic() + patience
            while standing.undecided and (left := until - time.monotonic()) > 0:
                await progress.wait()
                if not await link.pause(min(self._look_every, left)) or await call_identity.is_disconnected(
                    ctx
                ):
                    break
                standing = await self._look(gate, standing)
            with_link = with_link or link.failed
            if not standing.undecided:
                await link.is_over()
        open_still = standing.undecided or await call_identity.is_disconnected(ctx)  # for whom would it run?
        why = None if self._reviews is None else self._reviews.why_nobody(standing)
        told = (
            results.build_waiting_result(standing, params.name, with_link=with_link, why=why)
            if open_still
            else None
        )
        return standing, told

    async def _look(self, gate: ApprovalGate, standing: InterruptionMetadata) -> InterruptionMetadata:
        """Whether it has been decided; a server that is away decides nothing, and is asked again later."""
        key = standing.thread_id
        try:
            return await self._run_blocking(gate.answer, key, None, schemas=self._schemas())
        except (Unavailable, CheckpointConflict) as error:
            logger.warning("Whether %s was decided is not known yet.", key, exc_info=error)
            return standing
        except NothingToResume:
            raise NothingToResume(ALREADY_DELIVERED) from None
        except InvalidFeedback as error:
            await self._run_blocking(self._saver.release, key)
            raise InvalidFeedback(
                f"The call was answered, but not with a decision: {error.message} Call again to ask anew."
            ) from error
        except ServerRefused as refused:
            if refused.status in _GONE_STATUSES:
                await self._run_blocking(self._saver.release, key)
            raise

    async def _see_that_it_is_as_shown(
        self, gate: ApprovalGate, standing: InterruptionMetadata, decided: ToolFeedback, state: dict[str, Any]
    ) -> int:
        """Do not run what is another tool by now than the one that a person was shown: its edition is.

        The server is asked over a new connection if it died meanwhile: that must not cost the decision.
        """
        tool, edition = await self._upstream.tool(decided.name)
        kept = await self._run_blocking(self._saver.get, standing.thread_id)
        asked = None if kept is None or kept.checkpoint.started else kept.checkpoint.interruption
        if asked is None or asked.id != standing.id:
            return edition
        [shown] = asked.tool_feedbacks
        if shown.name == decided.name and not is_unchanged(shown, self._hooks, {**state, TOOL_STATE: tool}):
            await self._run_blocking(gate.release, standing.thread_id)
            raise HookError(TOOL_CHANGED)
        return edition

    async def _run(
        self,
        params: CallToolRequestParams,
        gate: ApprovalGate,
        standing: InterruptionMetadata,
        asked: ToolCall,
        decided: ToolFeedback,
        progress: results.ProgressReporter,
        edition: int,
    ) -> CallToolResult:
        """Run it as it was decided, unless it ran before. Whether it began is known even if it breaks off."""
        ran, key = decided.call, standing.thread_id
        begun = await self._begin(gate, standing, asked.id)
        if not begun.run:
            return results.decode_result(begun.result)
        keep = partial(self._keep, gate, key, asked, ran)
        try:
            async with self._alive(key):
                result = await self._upstream.call(
                    ran.name, ran.arguments, results.forwarded_meta(params), progress.of_tool, edition=edition
                )
        except (ToolsChanged, Unavailable):  # it was not made, so the decision still counts
            with anyio.CancelScope(shield=True):
                await self._run_blocking(gate.undo_begin, key, asked.id)
            raise
        except (MCPError, ValidationError) as error:
            return await keep(results.build_failure_result(error))
        except BaseException:
            await keep(results.build_interrupted_result())
            raise
        return await keep(result)

    async def _keep(
        self, gate: ApprovalGate, key: str, asked: ToolCall, ran: ToolCall, result: CallToolResult
    ) -> CallToolResult:
        """What its client is told, kept for one who comes later."""
        shown = results.announce_edit(result, asked, ran, self._upstream.tools.get(asked.name))
        try:
            with anyio.CancelScope(shield=True):
                await self._run_blocking(gate.finish, key, asked.id, results.encode_result(shown))
        except PlacetError as error:  # it ran: its client must hear of it all the same
            logger.warning("The result of %s could not be kept.", key, exc_info=error)
        return shown

    async def _begin(self, gate: ApprovalGate, decided: InterruptionMetadata, call_id: str) -> CallStart:
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
                        "The approved call is still running. Call again to learn of it."
                    ) from None
                await asyncio.sleep(min(self._look_every, max(0.0, until - time.monotonic())))

    @asynccontextmanager
    async def _alive(self, key: str) -> AsyncIterator[None]:
        """Nobody takes the call for dead while the block lasts."""
        kept = await self._run_blocking(self._saver.get, key)
        with self._heartbeat.renewing(self._saver, kept.checkpoint) if kept is not None else nullcontext():
            yield

    @asynccontextmanager
    async def _caring(self, key: str, *, is_named: bool) -> AsyncIterator[Callable[[str], None]]:
        """Keep a call until the last request that made it has its outcome; the next one is a new call."""
        settled: list[str] = []
        self._inside[key] += 1
        try:
            yield settled.append
            # An error did not come here: then this one did not get the outcome, though others may have.
            if settled:
                self._settled[key] = settled[0]
        finally:
            self._inside[key] -= 1
            if not self._inside[key]:
                del self._inside[key]
                over = self._settled.pop(key, None)
                if over is not None and not is_named:
                    with anyio.CancelScope(shield=True):
                        await self._hand_out(key, over)

    async def _hand_out(self, key: str, interruption: str) -> None:
        try:
            await self._run_blocking(self._gate("").mark_delivered, key, interruption, ALREADY_DELIVERED)
        except PlacetError as error:
            logger.warning("The outcome of a call could not be forgotten.", exc_info=error)

    def _gate(self, client: str, tool: Tool | None = None) -> ApprovalGate:
        place = call_identity.describe_server(self._behind, self._scope, tool)
        name = f"{self._agent or client or 'assistant'}{place}"
        while name not in self._gates and len(self._gates) >= MAX_CLIENTS:
            self._gates.pop(next(iter(self._gates)))
        return self._gates.setdefault(name, self._gate_for(name))

    def _schemas(self) -> dict[str, Any]:
        return {name: tool.input_schema for name, tool in self._upstream.tools.items()}

    async def _run_blocking(self, method: Callable[P, T], *args: P.args, **named: P.kwargs) -> T:
        if not self._blocks:
            return method(*args, **named)
        return await anyio.to_thread.run_sync(partial(method, *args, **named))
