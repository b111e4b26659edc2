"""A held message as stored: its exact bytes and the context to resume it."""

import hashlib
from typing import Any, Literal

import msgspec
from msgspec import Struct

from placet.relay.a2a.call import A2ACall
from placet.relay.a2a.dialects import Dialect, Operation
from placet.relay.a2a.errors import RpcId
from placet.relay.a2a.reply import A2AReply
from placet.relay.policy.policy import Leg

HoldKind = Literal["request", "response", "input"]
"""A held call to the agent, a held response of the agent, or a held request of the agent for input."""


class MessageFrame(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The context of a held message: how it arrived, its task, and the leg from which it resumes."""

    matter: HoldKind
    leg: Leg
    """The leg on which the message is held. After approval it continues behind this leg."""
    dialect: Dialect
    operation: Operation
    method: str = "POST"
    rpc_id: RpcId = None
    path_task: str | None = None
    path_push: str | None = None
    tenant: str | None = None
    """The `tenant` of A2A, which is part of the agent's paths. It is not the relay's tenant."""
    query: str = ""
    headers: dict[str, str] = {}
    webhook: str | None = None
    """The id of the webhook that the agent pushes to."""
    pushed: bool = False
    upstream_task: str | None = None
    """The agent's id of the task; None if the agent has none yet."""
    upstream_context: str | None = None


class FrozenMessage(Struct, frozen=True, kw_only=True):
    """A held message: its frame and its exact bytes."""

    frame: MessageFrame
    data: bytes

    @property
    def digest(self) -> str:
        """Return the digest of frame and bytes. An approval is bound to it."""
        framed = msgspec.json.encode(self.frame, order="deterministic")
        return hashlib.sha256(b"%d\n%b%b" % (len(framed), framed, self.data)).hexdigest()

    def call(self) -> A2ACall:
        """Return the held call; for a held response, its call without the content."""
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
        """Return the held response."""
        frame = self.frame
        return A2AReply(
            dialect=frame.dialect, operation=frame.operation, document=msgspec.json.decode(self.data)
        )
