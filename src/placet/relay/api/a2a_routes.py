"""Routes of the relay that the A2A protocol defines; the proxy and the webhooks serve them as raw ASGI."""

from typing import Annotated, Any

from msgspec import Meta

from placet.errors import (
    BodyTooLarge,
    CaseNotFound,
    InvalidJson,
    InvalidToken,
    RateLimited,
    RequestError,
    Unavailable,
    Unreachable,
    ValidationFailed,
)
from placet.http.route import Parameter, RequestBody, Route, RouteReply

RELAYING = "Relaying"
TAGS = {RELAYING: "Call agents through the relay: A2A 1.0 and 0.3, as JSON-RPC and as HTTP+JSON."}
CARD = "/.well-known/agent-card.json"
AGENT_ID = Parameter(
    name="agentId",
    location="path",
    type=Annotated[str, Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9._~-]{0,63}$(?!\n)")],
    description="The agent, as it was registered.",
)
VERSION = Parameter(
    name="A2A-Version",
    location="header",
    type=Annotated[str, Meta(extra_json_schema={"enum": ["1.0", "0.3"]})],
    description="Of A2A; 0.3 unless you say so.",
)
CORRELATION = Parameter(
    name="X-Correlation-Id",
    location="header",
    type=Annotated[str, Meta(pattern=r"^[!-~]{1,128}$(?!\n)")],
    description="Your name for what belongs together; kept in the audit, given to the agent, and sent back.",
)
WEBHOOK_ID = Parameter(
    name="webhookId",
    location="path",
    type=Annotated[str, Meta(pattern=r"^[A-Za-z0-9_-]{1,1024}$(?!\n)")],
    description="As the relay made it.",
)
WEBHOOK_TOKEN = Parameter(
    name="X-A2A-Notification-Token",
    location="header",
    type=str,
    description="The webhook's token, or send it as `Authorization: Bearer`.",
)
_AGENT = "/relay/v1/agents/{agentId}"
_ERRORS = (ValidationFailed, InvalidToken, CaseNotFound, BodyTooLarge, Unavailable)
_PASSED = (
    "What the agent answers, unless a policy has masked, refused or held it. A task with "
    "`metadata.relay_reason` is one that the relay answers for: fetch it again later."
)
_MESSAGE: dict[str, Any] = {"messageId": "m-1", "role": "ROLE_USER", "parts": [{"text": "Hello"}]}
_RPC: dict[str, Any] = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "SendMessage",
    "params": {"message": _MESSAGE},
}

_CHANGE: dict[str, Any] = {
    "statusUpdate": {"taskId": "t-1", "contextId": "c-1", "status": {"state": "TASK_STATE_COMPLETED"}}
}


def _call(path: str, name: str, summary: str, description: str, body: dict[str, Any]) -> Route:
    return Route(
        method="POST",
        path=_AGENT + path,
        name=name,
        tag=RELAYING,
        handling="mounted",
        summary=summary,
        description=description,
        parameters=(AGENT_ID, VERSION, CORRELATION),
        body=RequestBody(model=dict[str, Any], description="As A2A says.", examples={"send": body}),
        replies=(RouteReply(status=200, description=_PASSED, model=dict[str, Any]),),
        errors=_ERRORS,
    )


A2A_ROUTES: tuple[Route, ...] = (
    Route(
        method="GET",
        path=_AGENT + CARD,
        name="readAgentCard",
        tag=RELAYING,
        handling="mounted",
        summary="Read an agent's card",
        description="The agent's own, with the relay's addresses in it. Everything else is as this card "
        "says.",
        parameters=(AGENT_ID,),
        replies=(RouteReply(status=200, description="The card.", model=dict[str, Any], headers=("ETag",)),),
        errors=(InvalidToken, CaseNotFound, RequestError, Unreachable),
    ),
    _call(
        "",
        "callAgent",
        "Call an agent by JSON-RPC",
        "Every method of A2A, of 1.0 and of 0.3; streams are answered as server-sent events.",
        _RPC,
    ),
    _call(
        "/message:send",
        "sendMessage",
        "Send a message by HTTP+JSON",
        "With `message:stream`, `tasks/{id}`, `tasks/{id}:cancel`, `tasks/{id}:subscribe` and the others of "
        "A2A beside it; for 0.3 all of them below `/v1`.",
        {"message": _MESSAGE},
    ),
    Route(
        method="POST",
        path="/relay/v1/webhooks/{webhookId}/notifications",
        name="pushNotification",
        tag=RELAYING,
        handling="mounted",
        summary="Push a notification",
        description="For agents: this address and its token stand in the push configs that the relay gives "
        "them. What comes in is checked like an answer and passed on to the caller's own address.",
        credential="none",
        parameters=(WEBHOOK_ID, WEBHOOK_TOKEN),
        body=RequestBody(
            model=dict[str, Any],
            description="A task, or one change of it, as A2A says.",
            examples={"change": _CHANGE},
        ),
        replies=(
            RouteReply(
                status=204,
                description="Taken in. The caller is told, unless a policy has something against it.",
            ),
        ),
        errors=(InvalidJson, RateLimited, *_ERRORS),
    ),
)
