"""The relay with policies, between a real agent and its callers; holds and audit are kept for the test."""

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any, NamedTuple, TypeVar

import msgspec
from google.protobuf.json_format import MessageToDict  # type: ignore[import-untyped]
from msgspec.structs import replace

from placet.deliveries.guarded_resolver import SystemLookup
from placet.desk import clock
from placet.errors import Unavailable
from placet.ports.audit_store import AuditRow
from placet.ports.identity import Principal
from placet.ports.store import Store
from placet.relay.a2a.call import A2ACall
from placet.relay.a2a.json_format import build_task, build_task_reply
from placet.relay.a2a.reply import A2AReply
from placet.relay.audit.audit_log import AuditLog
from placet.relay.detectors.registry import DetectorRegistry
from placet.relay.exchange import CallWrites, Exchange
from placet.relay.inspection.policy_cache import PolicyCache
from placet.relay.inspection.policy_inspector import PolicyInspector
from placet.relay.inspection.policy_repository import PolicyRepository
from placet.relay.policy.evaluation import Evaluation
from placet.relay.policy.finding import digest_text
from placet.relay.policy.policy import Leg, create_policy, parse_policy_draft
from placet.relay.policy.policy_set import (
    StoredPolicy,
    build_binding_record,
    build_group_record,
    build_policy_record,
    build_revision_record,
)
from placet.relay.policy.verdict import get_holding_policy
from placet.relay.settings import RelaySettings
from placet.relay.task import build_reason_metadata
from placet.relay.tenants import PayloadMode
from placet.stores.sqlite.in_memory import InMemorySqliteStore
from tests.relay.a2a.sdk_agent import serve_app
from tests.relay.policies.samples import build_binding, build_group
from tests.relay.relay_app import bind_free_port, build_app
from tests.relay.traffic.test_pass_through import BINDINGS, SdkCaller

T = TypeVar("T")


async def store_policies(store: Store, drafts: dict[str, dict[str, Any]], sink: str, *, rev: int = 1) -> None:
    """A policy for each caller, bound to its subscription."""
    now = clock.now()
    for name, draft in drafts.items():
        made = create_policy(parse_policy_draft(draft), policy_id=name, now=now)
        bound = build_binding(name, name, "SUBSCRIPTION", sourceAgentId=name, sinkAgentId=sink)
        kept = StoredPolicy(policy=made, created_by="test")
        await store.save_record(build_policy_record("default", kept, rev=1, now=now))
        await store.save_record(build_group_record("default", build_group(name, name), rev=1, now=now))
        await store.save_record(build_binding_record("default", bound, rev=1, now=now))
    await store.save_record(build_revision_record("default", rev=rev, now=now))


class MemoryAuditLog(AuditLog):
    """A trail that a test can read."""

    def __init__(self) -> None:
        self.payloads: PayloadMode = "masked"
        super().__init__(InMemorySqliteStore(), now=clock.now, get_payload_mode=lambda _: self.payloads)
        self.full = False
        self.rows: list[AuditRow] = []
        self.lock = threading.Lock()

    def record(self, *events: AuditRow, call: CallWrites | None = None) -> None:
        if self.full:
            raise Unavailable("The audit is full.")
        with self.lock:
            self.rows += events

    def record_later(
        self, make: Callable[[], AuditRow], *, size: int, call: CallWrites | None = None
    ) -> None:
        self.record(make())

    async def flush(self) -> None:
        return None

    def of(self, correlation_id: str, type: str | None = None) -> list[dict[str, Any]]:
        """The events of one call, as the API tells them."""
        with self.lock:
            rows = [row for row in self.rows if row.correlation_id == correlation_id]
        return [msgspec.json.decode(row.body) for row in rows if type in (None, row.type)]


class HeldMessage(NamedTuple):
    """What a holder is given."""

    leg: Leg
    exchange: Exchange
    message: Any
    evaluation: Evaluation


class MemoryHolder:
    """A holder that notes what it is given, and knows what a test lets pass."""

    def __init__(self) -> None:
        self.held: dict[str, HeldMessage] = {}
        self.let_pass: set[str] = set()
        self.observed: dict[str, Evaluation] = {}

    async def report_observed(
        self, exchange: Exchange, message: A2ACall | A2AReply, evaluation: Evaluation
    ) -> None:
        self.observed[exchange.correlation_id] = evaluation

    async def hold(
        self,
        leg: Leg,
        exchange: Exchange,
        message: A2ACall | A2AReply,
        evaluation: Evaluation,
    ) -> dict[str, Any]:
        self.held[exchange.correlation_id] = HeldMessage(leg, exchange, message, evaluation)
        call = exchange.call
        reply = message if isinstance(message, A2AReply) else None
        task_id = reply.task_id if reply is not None else None
        built = build_task(
            task_id=task_id or f"held-{exchange.correlation_id}",
            context_id=(reply.context_id if reply is not None else None) or exchange.correlation_id,
            state="working",
            at=clock.now(),
            dialect=call.dialect,
            metadata=build_reason_metadata("HITL_HELD", get_holding_policy(evaluation)),
        )
        return build_task_reply(built, call.operation, call.dialect, call.rpc_id)

    async def hold_input_request(self, exchange: Exchange, reply: A2AReply) -> None:
        """Let requests for input go to the caller."""

    async def list_approved(self, exchange: Exchange, message: A2ACall | A2AReply) -> frozenset[str]:
        return frozenset(digest_text(text) for text in self.let_pass)


class InspectedRelay:
    """What a test needs of a relay with policies."""

    def __init__(
        self, url: str, policy_cache: PolicyCache, holder: MemoryHolder, trail: MemoryAuditLog
    ) -> None:
        self.url = url
        self.policy_cache = policy_cache
        self.holder = holder
        self.trail = trail
        self._loop: asyncio.AbstractEventLoop | None = None

    async def authenticate(self, scope: Any) -> Principal:
        """The caller has the name of its key."""
        self._loop = asyncio.get_running_loop()
        sent = dict(scope["headers"])
        return Principal(name=sent[b"authorization"].decode().removeprefix("Bearer "))

    def in_loop(self, work: Coroutine[Any, Any, T]) -> T:
        """Have something done where the relay runs, once somebody has called it."""
        assert self._loop is not None
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(60)


class CallResult:
    """What a caller got, and under which correlation id."""

    def __init__(self, events: list[dict[str, Any]], error: str | None, correlation_id: str) -> None:
        self.events = events
        self.error = error
        self.correlation_id = correlation_id

    @property
    def said(self) -> str:
        """All that the agent said, without what the history repeats of the caller."""
        return repr([{**one, "task": {**one.get("task", {}), "history": []}} for one in self.events])


class DialectCallers:
    """Callers of one agent by the official SDK, in one dialect each, which speak under any name."""

    def __init__(self, relay: InspectedRelay, agent: str) -> None:
        self._url = f"{relay.url}/relay/v1/agents/{agent}"
        self._runner = asyncio.Runner()
        self._callers: dict[tuple[str, str], SdkCaller] = {}
        self._numbers = count()

    def call(
        self, name: str, text: str, dialect: tuple[str, str] = BINDINGS[0], *, stream: bool = False
    ) -> CallResult:
        """Send a text as this caller."""
        correlation_id = f"{name}-{next(self._numbers)}"
        return self._runner.run(self._call(name, text, dialect, correlation_id, stream=stream))

    async def _call(
        self, name: str, text: str, dialect: tuple[str, str], correlation_id: str, *, stream: bool
    ) -> CallResult:
        caller = self._callers.get(dialect)
        if caller is None:
            caller = self._callers[dialect] = await SdkCaller(self._url, name, *dialect).__aenter__()
        caller.http.headers["Authorization"] = f"Bearer {name}"
        caller.http.headers["X-Correlation-Id"] = correlation_id
        try:
            events = await caller.send(text, stream=stream)
        except Exception as error:
            return CallResult([], str(error), correlation_id)
        return CallResult([MessageToDict(one) for one in events], None, correlation_id)

    def close(self) -> None:
        for caller in self._callers.values():
            self._runner.run(caller.__aexit__())
        self._runner.close()


@contextmanager
def run_inspected_relay(
    settings: RelaySettings, store: Store, detectors: DetectorRegistry, **limits: Any
) -> Iterator[InspectedRelay]:
    """A relay of these settings that judges by the store's policies."""
    listener, url = bind_free_port()
    trail = MemoryAuditLog()
    policy_cache = PolicyCache(PolicyRepository(store, audit_log=trail, now=clock.now), detectors)
    found = InspectedRelay(url, policy_cache, MemoryHolder(), trail)
    lookup = SystemLookup()
    relay = build_app(
        settings,
        public_url=url,
        inspector=PolicyInspector(policy_cache, holder=found.holder, audit_log=found.trail, now=clock.now),
        audit_log=found.trail,
        authenticate=found.authenticate,
        lookup=lookup,
        holds=found.holder,
    )
    relay.calls.limits = replace(relay.calls.limits, **limits)

    async def close() -> None:
        await relay.aclose()
        await policy_cache.aclose()
        await detectors.aclose()
        lookup.close()

    with serve_app(relay, listener, close=close):
        yield found
