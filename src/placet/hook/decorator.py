"""Approval for any Python function: its calls wait for a reviewer, for seconds or for days."""

import asyncio
import inspect
import json
import logging
from collections.abc import Callable
from contextlib import AbstractContextManager, aclosing, nullcontext, suppress
from datetime import timedelta
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar
from uuid import uuid4

from placet.errors import (
    AlreadyDecided,
    ApprovalPending,
    CallRejected,
    HookError,
    InvalidFeedback,
    PlacetError,
    Unavailable,
)
from placet.hook.answer_validation import Feedback
from placet.hook.approval_rules import Default, HumanInTheLoopHook, ReviewCondition, State, ToolConfig
from placet.hook.argument_checks import (
    refuse,
    require_duration,
    require_function,
    require_number,
    require_parameters,
    require_reviews,
)
from placet.hook.feedback import DecisionName, FeedbackResult, ToolFeedback
from placet.hook.function_schema import build_schema
from placet.hook.gate import DecisionWait, Gate
from placet.hook.heartbeat import DEFAULT_LEASE, Heartbeat
from placet.hook.interruption import InterruptionMetadata
from placet.hook.result_texts import FailedResult, format_error, to_text
from placet.hook.savers.memory import MemorySaver
from placet.hook.savers.saver import Saver, require_saver
from placet.hook.terminal import ask_in_terminal
from placet.hook.tool_call import ToolCall
from placet.hook.workers import Workers

if TYPE_CHECKING:
    from placet.hook.reviews import Reviews

logger = logging.getLogger(__name__)
P = ParamSpec("P")
R = TypeVar("R")
POLL_INTERVAL_S = 2.0
_CALL_ID = "call"


def requires_approval(
    description: str | Callable[[ToolCall, State], str] = "",
    *,
    allowed_decisions: tuple[FeedbackResult | DecisionName, ...] = ("approve", "edit", "reject"),
    when: ReviewCondition | None = None,
    timeout: timedelta | float | None = None,
    default: Default = "reject",
    high_risk: bool = False,
    ask: Callable[[InterruptionMetadata], Feedback] | None = None,
    reviews: "Reviews | None" = None,
    saver: Saver | None = None,
    key: Callable[[ToolCall], str] | None = None,
    poll_interval: float = POLL_INTERVAL_S,
    lease_for: timedelta = DEFAULT_LEASE,
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Require a reviewer's decision for every call of the function.

    The call waits: for `ask`, by default in the terminal, or, with `reviews`, for the case it opens. With
    `key`, which identifies a call permanently, it does not wait: it raises ApprovalPending. The same call
    made again, in any process with the same `saver`, which a key needs, runs once after approval; later
    calls return its result, which must be JSON. While it runs, the same call raises ThreadBusy, until its
    process has been silent for `lease_for`. Raises CallRejected; a response given in the function's place is
    returned. An async generator waits before its first item; a generator function takes no `key`.
    """
    config = ToolConfig(
        description=description,
        allowed_decisions=allowed_decisions,
        when=when,
        timeout=timeout,
        default=default,
        high_risk=high_risk,
    )
    _check_options(ask, reviews, saver, key, poll_interval, lease_for)

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        _check_function(function, has_key=key is not None)
        begun = _as_coroutine(function) if inspect.isasyncgenfunction(function) else function
        call_saver = MemorySaver() if saver is None else saver
        gated = _GatedFunction(begun, config, call_saver, reviews, ask, key, poll_interval, lease_for)
        return _wrap_like(function, gated)

    return decorate


def _check_options(
    ask: Callable[[InterruptionMetadata], Feedback] | None,
    reviews: "Reviews | None",
    saver: Saver | None,
    key: Callable[[ToolCall], str] | None,
    poll_interval: float,
    lease_for: timedelta,
) -> None:
    """Raise an error that names the option that cannot be used."""
    if ask is not None:
        require_function("ask", ask, "a function that returns the answers")
        require_parameters("ask", ask, "interruption")
    if key is not None:
        require_function("key", key, "a function of a call that returns text")
        require_parameters("key", key, "call")
    require_number("poll_interval", poll_interval)
    if key is not None or saver is not None:
        require_saver(saver)
    require_reviews(reviews)
    require_duration("lease_for", lease_for)


def _check_function(function: Callable[..., Any], *, has_key: bool) -> None:
    """Raise an error if calls of this function cannot wait for a decision."""
    if not callable(function) or isinstance(function, type) or not hasattr(function, "__name__"):
        refuse("requires_approval()", "written with parentheses above a function", function)
    if has_key and (inspect.isasyncgenfunction(function) or inspect.isgeneratorfunction(function)):
        raise ValueError(
            f"key: {function.__name__} yields, so it has no result that could be stored for a key."
        )


def _wrap_like(function: Callable[P, R], gated: "_GatedFunction") -> Callable[P, R]:
    """Return a function of the same kind (sync, async, or async generator) that calls the gated one."""
    if inspect.isasyncgenfunction(function):

        @wraps(function)
        async def iterate_gated(*args: P.args, **named: P.kwargs) -> Any:
            pieces = await gated.acall(args, named)
            if isinstance(pieces, str):  # a response given in the function's place
                yield pieces
                return
            async with aclosing(pieces):
                async for piece in pieces:
                    yield piece

        return iterate_gated

    if inspect.iscoroutinefunction(function):

        @wraps(function)
        async def await_gated(*args: P.args, **named: P.kwargs) -> Any:
            return await gated.acall(args, named)

        return await_gated  # type: ignore[return-value] # returns an awaitable, like the function itself

    @wraps(function)
    def call_gated(*args: P.args, **named: P.kwargs) -> Any:
        return gated.call(args, named)

    return call_gated


def _as_coroutine(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that creates the async generator without running any of it."""

    @wraps(function)
    async def create_generator(*args: Any, **named: Any) -> Any:
        return function(*args, **named)

    return create_generator


class _GatedFunction:
    def __init__(
        self,
        function: Callable[..., Any],
        config: ToolConfig,
        saver: Saver,
        reviews: "Reviews | None",
        ask: Callable[[InterruptionMetadata], Feedback] | None,
        key: Callable[[ToolCall], str] | None,
        poll_interval: float,
        lease_for: timedelta,
    ) -> None:
        self._function = function
        self._name = function.__name__
        self._signature = inspect.signature(function)
        first = next(iter(self._signature.parameters), None)
        self._receiver = first if first in ("self", "cls") else None
        self._schemas = {
            self._name: build_schema(function, leave_out=filter(None, [self._receiver]), by_name=False)
        }
        self._gate = Gate(
            [HumanInTheLoopHook({self._name: config})],
            saver,
            agent=self._name,
            reviews=reviews,
            lease_for=lease_for,
        )
        self._saver = saver
        self._heartbeat = Heartbeat(lease_for)
        self._ask = None if reviews is not None else (ask or ask_in_terminal)
        self._key = key
        self._poll_interval = poll_interval
        self._workers = Workers()

    def call(self, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        call, key, run = self._identify_call(args, named)
        waiting = self._stop(key, call)
        if waiting is None:
            return self._function(*args, **named)
        try:
            while waiting.undecided:
                waiting = self._apply_feedback(key, waiting, self._ask_reviewer(waiting))
                if waiting.undecided:
                    self._raise_if_pending(waiting)
                    waiting = self._gate.wait_for_decisions(key, **self._pause())
            decided = waiting.tool_feedbacks[0]
            if decided.result in _NOT_RUN:
                return _return_answer(decided)
            begun = self._gate.begin(key, call.id)
            if not begun.run:
                return _replay_result(begun.result)
            with self._renewing_lease(key):
                return self._run(key, run(decided))
        finally:
            self._delete_unkeyed(key)

    async def acall(self, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        call, key, run = self._identify_call(args, named)
        run_blocking = self._gate.run_blocking
        waiting = await self._gate.run_blocking(
            partial(self._stop, key, call), on_cancel=lambda _: self._delete_unkeyed(key)
        )
        if waiting is None:
            return await self._function(*args, **named)
        try:
            while waiting.undecided:
                said = await self._workers.run(partial(self._ask_reviewer, waiting))
                waiting = await run_blocking(partial(self._apply_feedback, key, waiting, said))
                if waiting.undecided:
                    self._raise_if_pending(waiting)
                    waiting = await self._gate.await_decisions(key, **self._pause())
            decided = waiting.tool_feedbacks[0]
            if decided.result in _NOT_RUN:
                return _return_answer(decided)
            begun = await self._gate.abegin(key, call.id)
            if not begun.run:
                return _replay_result(begun.result)
            give_back = partial(self._gate.undo_begin, key, call.id)
            with await self._gate.run_blocking(
                partial(self._renewing_lease, key), on_cancel=lambda _: give_back()
            ):
                return await self._arun(key, run(decided))
        finally:
            await run_blocking(partial(self._delete_unkeyed, key))

    def _stop(self, key: str, call: ToolCall) -> InterruptionMetadata | None:
        try:
            return self._gate.stop(key, [call], schemas=self._schemas)
        except BaseException:
            self._delete_unkeyed(key)
            raise

    def _identify_call(
        self, args: tuple[Any, ...], named: dict[str, Any]
    ) -> tuple[ToolCall, str, Callable[[ToolFeedback], Callable[[], Any]]]:
        """Return the call as the reviewer sees it, its key, and a function that builds what to run."""
        arguments = dict(self._signature.bind(*args, **named).arguments)
        receiver = {} if self._receiver is None else {self._receiver: arguments.pop(self._receiver)}
        try:
            spelling = json.dumps(arguments, allow_nan=False)
        except (TypeError, ValueError, RecursionError) as error:
            raise HookError(
                f"The arguments of {self._name} cannot be shown to a reviewer: {error}."
            ) from error
        shown = json.loads(spelling)
        if json.dumps(shown) != spelling:  # such as {1: …, "1": …}: JSON has one of them
            raise HookError(
                f"The arguments of {self._name} cannot be shown to a reviewer:"
                " a mapping has two keys that are the same in JSON."
            )
        call = ToolCall(id=_CALL_ID, name=self._name, arguments=shown)

        def run_decided(decided: ToolFeedback) -> Callable[[], Any]:
            if decided.arguments == shown and _is_unchanged(arguments, spelling):
                # Pass the original objects: JSON would turn a tuple into a list.
                return partial(self._function, *args, **named)
            return self._bind({**receiver, **decided.arguments})

        return call, f"{self._name}:{self._key(call) if self._key else uuid4().hex}", run_decided

    def _bind(self, arguments: dict[str, Any]) -> Callable[[], Any]:
        """Return the function with these arguments, each passed as its parameter takes it."""
        ordered = {name: arguments[name] for name in self._signature.parameters if name in arguments}
        bound = inspect.BoundArguments(self._signature, ordered)
        return partial(self._function, *bound.args, **bound.kwargs)

    def _ask_reviewer(self, waiting: InterruptionMetadata) -> Feedback | None:
        return None if self._ask is None else self._ask(waiting)

    def _apply_feedback(
        self, key: str, waiting: InterruptionMetadata, said: Feedback | None
    ) -> InterruptionMetadata:
        try:
            return self._gate.answer(key, said)
        except AlreadyDecided:
            raise
        except InvalidFeedback:
            if said is None or (settled := self._gate.answer(key, None)).undecided:
                raise
            return settled  # the answer came too late: the call has expired
        except Unavailable:
            if said is not None or self._key is not None:
                raise
            logger.warning("reviews_unavailable function=%s state=waiting", self._name)
            return waiting

    def _pause(self) -> DecisionWait:
        """Return how long to wait for a decision: until it is made, or until `ask` is called again."""
        return {
            "timeout": None if self._ask is None else self._poll_interval,
            "poll_interval": self._poll_interval,
        }

    def _raise_if_pending(self, waiting: InterruptionMetadata) -> None:
        """Raise ApprovalPending if the call has a key and so can be made again."""
        if self._key is not None:
            link = (waiting.case or {}).get("review_url")
            raise ApprovalPending(interruption=waiting.id, **({"review_url": link} if link else {}))

    def _renewing_lease(self, key: str) -> AbstractContextManager[None]:
        """Return a context manager that renews the call's lease while the function runs."""
        saved = None
        with suppress(Unavailable):  # the function runs without renewal, for the length of its lease
            saved = None if self._key is None else self._saver.get(key)
        return nullcontext() if saved is None else self._heartbeat.renewing(self._saver, saved.checkpoint)

    def _delete_unkeyed(self, key: str) -> None:
        """Delete a call without a key, which cannot be made again, and withdraw its case."""
        if self._key is None:
            with suppress(PlacetError):
                self._gate.abandon(key)

    def _run(self, key: str, run: Callable[[], Any]) -> Any:
        try:
            result = run()
        except Exception as error:
            self._gate.finish(key, _CALL_ID, _encode_failure(error))
            raise
        except BaseException:
            self._gate.mark_interrupted(key, _CALL_ID)
            raise
        self._gate.finish(key, _CALL_ID, _encode_result(result))
        return result

    async def _arun(self, key: str, run: Callable[[], Any]) -> Any:
        try:
            result = await run()
        except Exception as error:
            await self._gate.run_blocking(partial(self._gate.finish, key, _CALL_ID, _encode_failure(error)))
            raise
        except asyncio.CancelledError:
            await self._gate.run_blocking(partial(self._gate.mark_interrupted, key, _CALL_ID))
            raise
        await self._gate.run_blocking(partial(self._gate.finish, key, _CALL_ID, _encode_result(result)))
        return result


_NOT_RUN = (FeedbackResult.REJECTED, FeedbackResult.RESPONDED)


def _is_unchanged(arguments: dict[str, Any], spelling: str) -> bool:
    """Return whether the arguments are still those that the reviewer saw."""
    try:
        return json.dumps(arguments) == spelling
    except (TypeError, ValueError, RecursionError):
        return False


def _return_answer(decided: ToolFeedback) -> Any:
    if decided.result is FeedbackResult.RESPONDED:
        return decided.answer
    raise CallRejected(decided.reason or None)


def _encode_result(result: Any) -> str:
    try:
        return json.dumps({"result": result}, default=str)
    except Exception:  # the function has run: a result that cannot be encoded is not a failure
        return json.dumps({"result": to_text(result)})


def _encode_failure(error: Exception) -> FailedResult:
    return FailedResult(json.dumps({"failure": format_error(error)}))


def _replay_result(stored: str) -> Any:
    """Return the result of an earlier run; raises CallRejected if it failed or its process died."""
    try:
        said: dict[str, Any] = json.loads(stored)
    except ValueError:
        raise CallRejected(stored) from None
    if "failure" in said:
        raise CallRejected(f"This call was approved and failed: {said['failure']}")
    return said["result"]
