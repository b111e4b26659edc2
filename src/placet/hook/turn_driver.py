"""Performs what a turn asks for, apart from saving: evaluates calls, uses grants, opens and polls cases."""

import inspect
import logging
import os
from collections.abc import Awaitable, Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from placet.errors import CaseNotOpened, HookError, PlacetError
from placet.hook import turn
from placet.hook.approval_rules import Hook
from placet.hook.async_values import find_waiting_loop, is_on_loop, wait_for_value
from placet.hook.call_evaluation import arun_evaluation, evaluate_calls, run_evaluation
from placet.hook.grants import (
    CallOrigin,
    GrantSource,
    arecheck_grants,
    ause_grants,
    generate_nonce,
    recheck_grants,
    use_grants,
)
from placet.hook.receipts import ReceiptOutbox
from placet.hook.workers import Workers

if TYPE_CHECKING:
    from placet.hook.reviews import Reviews

logger = logging.getLogger(__name__)
T = TypeVar("T")
NO_LONGER_NEEDED = "The agent no longer waits for these calls."


class TurnDriver:
    """Performs the effects of `placet.hook.turn` for one agent.

    With a `nonce`, the same call of the same turn uses a grant once, however often it is asked about.
    """

    def __init__(
        self,
        *,
        name: str,
        hooks: Sequence[Hook],
        reviews: "Reviews | None",
        grants: GrantSource | None,
        clock: Callable[[], datetime],
        nonce: str | None = None,
        outbox: ReceiptOutbox | None = None,
    ) -> None:
        self.name = name
        self.hooks = hooks
        self.reviews = reviews
        self.grants = grants
        self.clock = clock
        self.outbox = outbox
        self._nonce = nonce

    def perform(self, effect: Any) -> Any:
        """Return what the turn asked for."""
        perform = _PERFORM.get(type(effect))
        if perform is None:
            raise TypeError(f"The driver cannot execute {effect!r}.")
        return perform(self, effect)

    async def aperform(self, effect: Any, workers: Workers) -> Any:
        """Async version of `perform`; what may block runs in a worker thread."""
        kind = type(effect)
        if isinstance(effect, turn.EvaluateCalls):
            return await arun_evaluation(
                evaluate_calls(self.hooks, effect.calls, effect.state, effect.schemas)
            )
        if isinstance(effect, turn.UseGrants) and self.grants is not None:
            return await ause_grants(self.grants, effect.calls, **self._find_origin_of_calls(effect))
        if isinstance(effect, turn.RecheckGrants):
            return await arecheck_grants(self.grants, effect.granted)
        if isinstance(effect, turn.ReportEnds) and self.outbox is not None:
            return await self._areport(effect, self.outbox, workers)
        if kind in REVIEW_EFFECTS and self.reviews is not None:
            review: Any = effect
            with _tolerate_review_failure(review):
                asked = await workers.run(partial(self._request_review, review))
                return await asked if inspect.isawaitable(asked) else asked
            return None
        return self.perform(effect)

    def read_moment(self, effect: turn.ReadMoment) -> turn.TurnMoment:
        """Return the time, and a new id of an interruption."""
        return turn.TurnMoment(self.clock(), f"int_{os.urandom(16).hex()}")

    def _evaluate(self, effect: turn.EvaluateCalls) -> Any:
        return run_evaluation(evaluate_calls(self.hooks, effect.calls, effect.state, effect.schemas))

    def _use_grants(self, effect: turn.UseGrants) -> Any:
        if self.grants is None:
            return {}
        return use_grants(self.grants, effect.calls, **self._find_origin_of_calls(effect))

    def _recheck_grants(self, effect: turn.RecheckGrants) -> Any:
        return recheck_grants(self.grants, effect.granted)

    def _review(self, effect: "turn.OpenCase | turn.PollCase | turn.WithdrawCase") -> Any:
        with _tolerate_review_failure(effect):
            return require_sync(self._request_review(effect))
        return None

    def withdraw(self, case: Mapping[str, Any], why: str = turn.DECIDED_ELSEWHERE) -> None:
        """Withdraw a case that is not needed any more; a failure is logged."""
        self.perform(turn.WithdrawCase(case, why))

    def _report(self, effect: turn.ReportEnds) -> None:
        if self.outbox is not None:
            self.outbox.report(effect.case, effect.outcomes)

    async def _areport(self, effect: turn.ReportEnds, outbox: ReceiptOutbox, workers: Workers) -> None:
        entry = await workers.run(partial(outbox.store, effect.case, effect.outcomes), to_the_end=True)
        if entry is not None:
            outbox.send_later(entry)

    def _request_review(self, effect: "turn.OpenCase | turn.PollCase | turn.WithdrawCase") -> Any:
        """Return the reviews' answer, which may have to be awaited."""
        if self.reviews is None:
            return None
        if isinstance(effect, turn.OpenCase):
            return self.reviews.open_case(effect.interruption, agent=self.name, attempt=effect.attempt)
        if isinstance(effect, turn.PollCase):
            return self.reviews.poll_case(effect.case)
        return self.reviews.withdraw(effect.case, effect.why)

    def _find_origin_of_calls(self, effect: turn.UseGrants) -> CallOrigin:
        """Return where these calls come from.

        A new nonce tells them from earlier calls of the same thread id.
        """
        return {
            "agent": self.name,
            "thread_id": effect.thread_id,
            "turn": effect.turn,
            "nonce": self._nonce or generate_nonce(),
        }


_PERFORM: Mapping[type, Callable[[TurnDriver, Any], Any]] = {
    turn.ReadMoment: TurnDriver.read_moment,
    turn.EvaluateCalls: TurnDriver._evaluate,
    turn.UseGrants: TurnDriver._use_grants,
    turn.RecheckGrants: TurnDriver._recheck_grants,
    turn.OpenCase: TurnDriver._review,
    turn.PollCase: TurnDriver._review,
    turn.WithdrawCase: TurnDriver._review,
    turn.ReportEnds: TurnDriver._report,
}
REVIEW_EFFECTS = (turn.OpenCase, turn.PollCase, turn.WithdrawCase)


def run_turn(steps: Generator[Any, Any, T], perform: Callable[[Any], Any]) -> T:
    """Return the result of a turn; `perform` does what it asks for, and may raise into it."""
    result: Any = None
    error: BaseException | None = None
    while True:
        try:
            effect = steps.send(result) if error is None else steps.throw(error)
        except StopIteration as end:
            outcome: T = end.value
            return outcome
        result, error = None, None
        try:
            result = perform(effect)
        except BaseException as raised:
            error = raised


def require_sync(answer: T | Awaitable[T]) -> T:
    """Return the reviews' answer to a synchronous caller; raises HookError if it must be awaited."""
    if inspect.isawaitable(answer):
        if find_waiting_loop() is not None and not is_on_loop():
            value: T = wait_for_value(answer)
            return value
        if inspect.iscoroutine(answer):
            answer.close()
        raise HookError("These reviews are async: use an agent's async methods.")
    return answer


@contextmanager
def _tolerate_review_failure(
    effect: turn.OpenCase | turn.PollCase | turn.WithdrawCase,
) -> Iterator[None]:
    """Log errors of the reviews that a later resume can correct: the thread stays paused.

    Other errors, such as a case that can never be opened, are raised to the caller.
    """
    try:
        yield
    except Exception as error:
        expected = isinstance(error, PlacetError | OSError) and type(error) not in (HookError, CaseNotOpened)
        if not (isinstance(effect, turn.WithdrawCase) or (isinstance(effect, turn.OpenCase) and expected)):
            raise
        logger.warning("review_request_failed effect=%s state=waiting", type(effect).__name__, exc_info=error)
