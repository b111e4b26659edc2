"""A call on its way, and what may become of it: what those say who look at it, and what the relay answers."""

import logging
from collections.abc import Awaitable, Mapping
from typing import Any, Literal

from msgspec import Struct, field

from placet.relay.a2a.call import A2ACall
from placet.relay.a2a.problems import A2AProblem
from placet.relay.a2a.reply import A2AReply
from placet.relay.judging.inspection import (
    PASSED,
    Answered,
    Changed,
    Exchange,
    Passed,
    Refused,
    Released,
    StreamVerdict,
    Verdict,
)
from placet.relay.judging.ledger import Ledger
from placet.relay.membership.registry import Subscription
from placet.relay.policies.policy import Leg
from placet.relay.tasks.own import Handle
from placet.relay.wordless import whereabouts

UNCHECKED = "The message could not be checked, so it was not passed on."
PLACES = {leg: place for place, leg in enumerate(Leg)}

log = logging.getLogger("placet.relay")


class Way(Struct, frozen=True, kw_only=True):
    """A call and all that travels with it."""

    subscription: Subscription
    call: A2ACall
    correlation_id: str
    headers: Mapping[str, str]
    """What the agent gets, its credentials among them."""
    size: int = 0
    """How many bytes the caller sent."""
    webhook: str | None = None
    """Where the agent is to push to, if the caller wants to be told of changes."""
    transport: Literal["GRPC"] | None = None
    """How the caller came, where its dialect does not say it."""
    pushed: bool = False
    """Whether this is the way of a push notification, which no call asked for."""
    after: Leg | None = None
    """The last leg that a held message had passed, with which it goes on."""
    handle: Handle = field(default_factory=Handle)
    ledger: Ledger = field(default_factory=Ledger)
    """What was found on the way, for the audit of the call as a whole."""

    def past(self, leg: Leg) -> bool:
        """Whether the message has passed this leg before."""
        return self.after is not None and PLACES[leg] <= PLACES[self.after]


class Answer(Struct, frozen=True, kw_only=True):
    """A whole answer for the caller."""

    body: bytes
    content_type: str = "application/json"
    status: int = 200
    headers: tuple[tuple[bytes, bytes], ...] = ()
    reply: A2AReply | None = None


class Taken(Exception):
    """The relay answers itself, with this document."""

    def __init__(self, document: dict[str, Any]) -> None:
        super().__init__("the relay answers itself")
        self.document = document


def exchange_of(way: Way, call: A2ACall, reply: A2AReply | None) -> Exchange:
    """What those who look at a message are asked about."""
    return Exchange(
        subscription=way.subscription,
        correlation_id=way.correlation_id,
        call=call,
        reply=reply,
        headers=way.headers,
        task_id=way.handle.task_id,
        upstream_task=way.handle.upstream_id,
        webhook=way.webhook,
        pushed=way.pushed,
        ledger=way.ledger,
    )


async def checked(
    way: Way, verdict: Awaitable[Verdict | StreamVerdict | None]
) -> Passed | Changed | Released:
    """What lets a message go on; raises A2AProblem or Taken for what does not, and for every failure."""
    way.handle.asking += 1
    try:
        found = await verdict or PASSED
    except A2AProblem:
        raise
    except Exception as error:
        told = {"correlation_id": way.correlation_id}
        log.error("a message could not be checked: %s", whereabouts(error), extra=told)
        raise A2AProblem("internal", UNCHECKED) from error
    finally:
        way.handle.asking -= 1
    if isinstance(found, Refused):
        raise found.problem
    if isinstance(found, Answered):
        raise Taken(found.document)
    return found
