"""A held message as stored: its exact bytes, and what is needed to resume it."""

import hashlib
from collections.abc import Mapping
from typing import Any, Literal

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from placet.relay.a2a.call import A2ACall
from placet.relay.a2a.dialects import Dialect, Operation
from placet.relay.a2a.errors import RpcId
from placet.relay.a2a.reply import A2AReply
from placet.relay.inspection.message_inspector import InspectionRequest
from placet.relay.policies.policy import Leg

HoldKind = Literal["request", "response", "input"]
"""A call that waits to go to the agent, an answer that waits to be shown, or an agent that waits for one."""

# Of all that travels with a call, what is none of anybody's credentials.
STORED_HEADERS = frozenset(
    {"accept", "a2a-version", "a2a-extensions", "x-a2a-extensions", "content-type", "accept-language"}
    | {"traceparent", "tracestate", "x-correlation-id"}
)


class MessageFrame(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How the message arrived, what it belongs to, and the leg it resumes from."""

    matter: HoldKind
    leg: Leg
    """The last leg that they have passed when a person lets them go on."""
    dialect: Dialect
    operation: Operation
    method: str = "POST"
    rpc_id: RpcId = None
    path_task: str | None = None
    path_push: str | None = None
    tenant: str | None = None
    """The tenant in A2A's own sense, which stands in the agent's paths."""
    query: str = ""
    headers: dict[str, str] = {}
    webhook: str | None = None
    """Where the agent is to push to."""
    pushed: bool = False
    upstream_task: str | None = None
    """The agent's own name for the task; None while it knows of none."""
    upstream_context: str | None = None


class FrozenMessage(Struct, frozen=True, kw_only=True):
    """A held message: its frame and its exact bytes."""

    frame: MessageFrame
    data: bytes

    @property
    def digest(self) -> str:
        """What an approval is bound to: the bytes, and what becomes of them."""
        framed = msgspec.json.encode(self.frame, order="deterministic")
        return hashlib.sha256(b"%d\n%b%b" % (len(framed), framed, self.data)).hexdigest()

    def call(self) -> A2ACall:
        """The call, as it goes on; for an answer, the call that it answers, without its content."""
        frame = self.frame
        document: dict[str, Any] | None = None
        if frame.matter == "request":
            document = msgspec.json.decode(self.data) if self.data else None
        return A2ACall(
            dialect=frame.dialect,
            operation=frame.operation,
            method=frame.method,
            document=document,
            rpc_id=frame.rpc_id,
            path_task=frame.path_task,
            path_push=frame.path_push,
            tenant=frame.tenant,
            query=frame.query,
            headers=frame.headers,
        )

    def reply(self) -> A2AReply:
        """The answer."""
        frame = self.frame
        return A2AReply(
            dialect=frame.dialect, operation=frame.operation, document=msgspec.json.decode(self.data)
        )


def select_stored_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """What may be kept of a call's headers: credentials are looked up again when it goes on."""
    return {name: value for name, value in headers.items() if name in STORED_HEADERS}


def freeze_call(leg: Leg, request: InspectionRequest, document: dict[str, Any] | None) -> FrozenMessage:
    """A call that waits, with this document."""
    data = b"" if document is None else msgspec.json.encode(document)
    return FrozenMessage(frame=_build_frame("request", leg, request), data=data)


def freeze_reply(
    matter: Literal["response", "input"],
    leg: Leg,
    request: InspectionRequest,
    reply: A2AReply,
    *,
    upstream_task: str | None,
    upstream_context: str | None,
) -> FrozenMessage:
    """An answer that waits, in the caller's own names; the agent's own are kept beside it."""
    frame = replace(
        _build_frame(matter, leg, request), upstream_task=upstream_task, upstream_context=upstream_context
    )
    return FrozenMessage(frame=frame, data=msgspec.json.encode(reply.document))


def _build_frame(matter: HoldKind, leg: Leg, request: InspectionRequest) -> MessageFrame:
    call = request.call
    return MessageFrame(
        matter=matter,
        leg=leg,
        dialect=call.dialect,
        operation=call.operation,
        method=call.method,
        rpc_id=call.rpc_id,
        path_task=call.path_task,
        path_push=call.path_push,
        tenant=call.tenant,
        query=call.query,
        headers=select_stored_headers(request.headers),
        webhook=request.webhook,
        pushed=request.pushed,
    )
