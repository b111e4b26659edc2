"""Do what exchanges ask for: inspect, hold, record and translate messages."""

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Generic, TypeVar

from msgspec.structs import replace

from placet.relay.a2a.call import A2ACall
from placet.relay.a2a.dialects import REST_1_0
from placet.relay.a2a.errors import A2AError
from placet.relay.a2a.json_format import Json, get_state
from placet.relay.a2a.reply import A2AReply, build_get_reply, build_task_call
from placet.relay.exchange import (
    Answered,
    AnswerFromTask,
    Exchange,
    ExchangeEffect,
    ExchangeState,
    ExchangeSteps,
    FindTasks,
    Forward,
    HoldListedQuestions,
    HoldMessage,
    HoldQuestion,
    Inspect,
    InspectEvents,
    LinkTask,
    Record,
    RewriteReply,
    TranslateCall,
    pass_card,
    pass_reply,
)
from placet.relay.inspection.policy_inspector import MessageHolder, PolicyInspector
from placet.relay.policy.verdict import UNWATCHED, PolicyVerdict
from placet.relay.push import PushProxy, is_config_operation
from placet.relay.runtime.background_calls import EarlyReturns
from placet.relay.task import Task
from placet.relay.tasks.access import TaskAccess, TaskOwnedByRelay
from placet.relay.tasks.relay_tasks import RelayTasks, add_relay_tasks
from placet.relay.tenants import Subscription
from placet.relay.traceback_redaction import redact_traceback
from placet.relay.upstream.agent_cards import AgentCardCache

NOT_CHECKED = "The message could not be checked, so it was not forwarded."
log = logging.getLogger("placet.relay")
T = TypeVar("T")


class ExchangeRun(Generic[T]):
    """One exchange in progress: does what the exchange asks for, until it forwards the call or ends."""

    def __init__(self, performer: "EffectPerformer", exchange: Exchange, steps: ExchangeSteps[T]) -> None:
        self._performer = performer
        self._exchange = exchange
        self._steps = steps

    async def advance(self, reply: A2AReply | None = None) -> Forward | T:
        """Continue with the agent's reply. Return the call to forward, or the result of the exchange.

        Raises A2AError if a message is refused, or the call fails.
        """
        send, performer, exchange = self._steps.send, self._performer, self._exchange
        try:
            effect = send(reply)
            while not isinstance(effect, Forward):
                quick = performer.inspect_quickly(exchange, effect) if isinstance(effect, Inspect) else None
                effect = send(quick or await performer.perform(exchange, effect))
        except StopIteration as end:
            result: T = end.value
            return result
        return effect


class EffectPerformer:
    """Does what exchanges ask for, except forwarding calls."""

    def __init__(
        self,
        *,
        access: TaskAccess,
        directory: AgentCardCache,
        inspector: PolicyInspector,
        pushes: PushProxy,
        relay_tasks: RelayTasks,
        early_returns: EarlyReturns,
        holds: MessageHolder,
    ) -> None:
        self._access = access
        self._directory = directory
        self._inspector = inspector
        self._pushes = pushes
        self._relay_tasks = relay_tasks
        self._early_returns = early_returns
        self._holds = holds
        self._performers: Mapping[type[Any], Callable[[Exchange, Any], Awaitable[Any]]] = {
            Inspect: self._inspect,
            InspectEvents: self._inspect_events,
            HoldMessage: self._hold_message,
            HoldQuestion: self._hold_question,
            HoldListedQuestions: self._hold_listed_questions,
            FindTasks: self._find_tasks,
            AnswerFromTask: self._answer_from_task,
            TranslateCall: self._translate_call,
            Record: self._record,
            LinkTask: self._link_task,
            RewriteReply: self._rewrite_reply,
        }

    def perform(self, exchange: Exchange, effect: ExchangeEffect) -> Awaitable[Any]:
        """Return what the exchange asked for. For an inspection, try `inspect_quickly` first."""
        return self._performers[type(effect)](exchange, effect)

    async def run(self, exchange: Exchange, steps: ExchangeSteps[T]) -> T:
        """Return the result of steps that forward no call."""
        result = await ExchangeRun(self, exchange, steps).advance()
        if isinstance(result, Forward):
            raise TypeError("These steps must not forward a call.")
        return result

    # Inspect and hold

    def inspect_quickly(self, exchange: Exchange, effect: Inspect) -> PolicyVerdict | None:
        """Return the verdict if it needs no detector, as for most messages."""
        return self._inspector.inspect_quickly(effect.leg, exchange.subscription, effect.message)

    async def _inspect(self, exchange: Exchange, effect: Inspect) -> PolicyVerdict:
        message = await self._recognize(exchange, effect.message)
        return await self._guard(exchange, self._inspector.inspect(effect.leg, exchange, message))

    async def _inspect_events(self, exchange: Exchange, effect: InspectEvents) -> PolicyVerdict:
        if not self._inspector.has_policies(effect.leg, exchange.subscription):
            return UNWATCHED
        replies = [await self.recognize_forwarded(exchange, reply) for reply in effect.replies]
        return await self._guard(exchange, self._inspector.inspect_stream(effect.leg, exchange, replies))

    async def _hold_message(self, exchange: Exchange, effect: HoldMessage) -> Json:
        message, evaluation = await self._recognize(exchange, effect.message), effect.verdict.evaluation
        return await self._guard(exchange, self._holds.hold(effect.leg, exchange, message, evaluation))

    async def _hold_question(self, exchange: Exchange, effect: HoldQuestion) -> Json | None:
        reply = await self.recognize_forwarded(exchange, effect.reply)
        return await self._guard(exchange, self._holds.hold_input_request(exchange, reply))

    async def _hold_listed_questions(self, exchange: Exchange, effect: HoldListedQuestions) -> None:
        """Hold the questions in a task list, as if the caller had fetched each task that asks for input."""
        subscription, dialect = exchange.subscription, effect.reply.dialect
        if subscription.sink.input_required != "hold":
            return
        for document in effect.reply.tasks:
            task_id = document.get("id")
            if get_state(document.get("status")) != "input-required" or not isinstance(task_id, str):
                continue
            task = await self._access.find_caller_task(subscription, task_id)
            if task is None or task.owner != subscription.source.name or task.is_kept_by_relay:
                continue
            call = build_task_call(dialect, "get", task_id, exchange.call.tenant)
            fetch = replace(exchange, call=call, state=ExchangeState(writes=exchange.state.writes))
            try:  # if the task is held, the list shows it so
                await self.run(fetch, pass_reply(build_get_reply(dialect, document)))
            except A2AError as problem:  # such as too many pending holds: the list does not show the question
                log.info("listed_question_not_held task=%s error=%s", task_id, problem.kind)

    async def _recognize(self, exchange: Exchange, message: A2ACall | A2AReply) -> A2ACall | A2AReply:
        if isinstance(message, A2ACall):
            return message
        return await self.recognize_forwarded(exchange, message)

    async def _guard(self, exchange: Exchange, inspection: Awaitable[T]) -> T:
        """Return the result of an inspection or a hold. An unexpected failure ends the exchange."""
        try:
            with exchange.state.count_inspection():
                return await inspection
        except A2AError:
            raise
        except Exception as error:
            extra = {"correlation_id": exchange.correlation_id}
            log.error("message_check_failed error=%s", redact_traceback(error), extra=extra)
            raise A2AError("internal", NOT_CHECKED) from error

    async def recognize_forwarded(self, exchange: Exchange, reply: A2AReply) -> A2AReply:
        """Return the reply with the digests of the messages that its history may repeat."""
        state = exchange.state
        return await self._access.recognize_forwarded(
            exchange.subscription, reply, sent=state.forwarded, caller_task_id=state.task_id
        )

    async def inspect_card(self, subscription: Subscription, card: Json, correlation_id: str) -> Json:
        """Return an agent's card as a caller gets it. Raises A2AError if a policy does not let it pass."""
        call = A2ACall(dialect=REST_1_0, operation="extended_card", method="GET")
        exchange = Exchange(subscription=subscription, call=call, correlation_id=correlation_id)
        reply = A2AReply(dialect=REST_1_0, operation="extended_card", document=card)
        passed = await self.run(exchange, pass_card(reply))
        return passed.document

    # Tasks

    async def _find_tasks(self, exchange: Exchange, effect: FindTasks) -> Sequence[Task]:
        return await self._access.find_call_tasks(exchange.subscription, effect.call)

    async def _answer_from_task(self, exchange: Exchange, effect: AnswerFromTask) -> Json:
        if is_config_operation(effect.call):
            return await self._answer_config_call(exchange, effect.call, effect.task)
        return await self._relay_tasks.answer(exchange.subscription, effect.call, effect.task)

    async def _translate_call(self, exchange: Exchange, effect: TranslateCall) -> A2ACall:
        return await self._access.translate_call(exchange.subscription, effect.call, effect.tasks)

    async def _record(self, exchange: Exchange, effect: Record) -> None:
        """Store the digest of a message in its task."""
        state, subscription = exchange.state, exchange.subscription
        digest = state.record_sent(effect.message)
        for task_id in {state.task_id, effect.call.target_task_id} - {None}:
            task = await self._access.find_caller_task(subscription, str(task_id))
            if task is not None:
                await self._access.record_forwarded(subscription, task, digest, call=state.writes)

    async def _link_task(self, exchange: Exchange, effect: LinkTask) -> None:
        """Store the agent's id of a task as an alias of the id that the caller got before."""
        reply = effect.reply
        caller_task_id, agent_task_id = exchange.state.task_id, reply.task_id
        if caller_task_id is None or agent_task_id is None or agent_task_id == caller_task_id:
            return
        if reply.error is not None:
            return
        exchange.state.link_agent_task(agent_task_id)
        tenant, agent = exchange.subscription.tenant, exchange.subscription.sink.id
        if await self._access.tasks.find(tenant, agent, "task", agent_task_id) is None:
            alias = Task(
                id=agent_task_id,
                owner=exchange.subscription.source.name,
                upstream_id=agent_task_id,
                caller_task_id=caller_task_id,
                context_id=reply.context_id,
            )
            await self._access.tasks.write(
                tenant, agent, "task", alias, at_once=True, call=exchange.state.writes
            )

    async def _rewrite_reply(self, exchange: Exchange, effect: RewriteReply) -> A2AReply | Answered:
        """Return a reply or stream event with the caller's ids, push addresses and URLs."""
        reply = effect.reply
        if reply.error is not None:
            if exchange.webhook is not None:
                await self._pushes.discard_webhook(exchange.webhook)
            return reply
        try:
            state = exchange.state
            translated = await self._access.translate_reply(
                exchange.subscription,
                reply,
                except_task_id=state.task_id,
                forwarded=state.forwarded,
                call=state.writes,
            )
        except TaskOwnedByRelay as owned:
            return Answered(self._relay_tasks.build_answer(exchange.call, owned.task))
        if is_config_operation(exchange.call):
            return await self._rewrite_config_answer(exchange, translated)
        if exchange.webhook is not None and reply.task_id is not None and translated.task_id is not None:
            await self._pushes.bind(
                exchange.webhook, agent_task_id=reply.task_id, caller_task_id=translated.task_id
            )
        if translated.operation == "list":
            return await add_relay_tasks(self._relay_tasks, exchange.subscription, exchange.call, translated)
        return (
            await self._rewrite_card(exchange, translated)
            if reply.operation == "extended_card"
            else translated
        )

    async def _answer_config_call(self, exchange: Exchange, call: A2ACall, task: Task) -> dict[str, Any]:
        """Return the response to a call about the push configs of a task that the agent does not know."""
        response = await self._pushes.handle_config_call(
            exchange.subscription, call, exchange.webhook, task.id
        )
        if exchange.webhook is not None:
            self._early_returns.notify_when_done(exchange, task, announce=True)
        return response

    async def _rewrite_config_answer(self, exchange: Exchange, reply: A2AReply) -> A2AReply:
        subscription, call = exchange.subscription, exchange.call
        [task, *_] = await self._access.find_call_tasks(subscription, call)
        return await self._pushes.restore_targets(
            subscription, call, exchange.webhook, reply, task.upstream_id or task.id
        )

    async def _rewrite_card(self, exchange: Exchange, reply: A2AReply) -> A2AReply:
        card = self._directory.build_public_card(exchange.subscription.sink, reply.result)
        card = await self.inspect_card(exchange.subscription, card, exchange.correlation_id)
        return replace(reply, document=reply.document | {"result": card} if reply.dialect.rpc else card)

    async def build_own_reply(self, exchange: Exchange, document: Json) -> A2AReply:
        """Return the relay's own answer with the caller's ids."""
        call = exchange.call
        reply = A2AReply(dialect=call.dialect, operation=call.operation, document=document)
        reply = await self._access.translate_reply(
            exchange.subscription, reply, except_task_id=reply.task_id, call=exchange.state.writes
        )
        if exchange.webhook is not None and reply.task_id is not None:
            await self._pushes.bind(exchange.webhook, agent_task_id=None, caller_task_id=reply.task_id)
        return reply
