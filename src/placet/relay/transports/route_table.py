"""The relay's route table: the routes of A2A and of every API class."""

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
from placet.http.route import HttpApi, Parameter, RequestBody, Route, RouteReply
from placet.relay.a2a.cards import WELL_KNOWN_PATHS
from placet.relay.route_addresses import AGENT_PROXY, CALL_SCOPE, CARD_SCOPE, NOTIFICATIONS, WEBHOOKS
from placet.relay.transports.admin_api.approvals import ApprovalApi, approvals
from placet.relay.transports.admin_api.audit import AuditApi, TenantApi, audit
from placet.relay.transports.admin_api.bindings import BindingApi, PolicyGroupApi, bindings, policy_groups
from placet.relay.transports.admin_api.evaluation import EvaluationApi, ReplayApi
from placet.relay.transports.admin_api.policies import PolicyApi, policies
from placet.relay.transports.admin_api.registry import AgentsApi, CallersApi, GroupsApi, agents, groups

RELAYING = "Relaying"
TAGS = {RELAYING: "Call agents through the relay: A2A 1.0 and 0.3, as JSON-RPC and as HTTP+JSON."}
AGENT_ID = Parameter(
    name="agentId",
    location="path",
    type=Annotated[str, Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9._~-]{0,63}$(?!\n)")],
    description="The id of the agent.",
)
VERSION = Parameter(
    name="A2A-Version",
    location="header",
    type=Annotated[str, Meta(extra_json_schema={"enum": ["1.0", "0.3"]})],
    description="The A2A version. Default: 0.3.",
)
CORRELATION = Parameter(
    name="X-Correlation-Id",
    location="header",
    type=Annotated[str, Meta(pattern=r"^[!-~]{1,128}$(?!\n)")],
    description="Your id for related calls. The relay stores it in the audit log, forwards it to the agent "
    "and returns it.",
)
WEBHOOK_ID = Parameter(
    name="webhookId",
    location="path",
    type=Annotated[str, Meta(pattern=r"^[A-Za-z0-9_-]{1,1024}$(?!\n)")],
    description="The id of the webhook, from the push config.",
)
WEBHOOK_TOKEN = Parameter(
    name="X-A2A-Notification-Token",
    location="header",
    type=str,
    description="The webhook's token. You can also send it as `Authorization: Bearer`.",
)
_AGENT = f"{AGENT_PROXY}{{agentId}}"
_ERRORS = (ValidationFailed, InvalidToken, CaseNotFound, BodyTooLarge, Unavailable)
_AGENT_REPLY = (
    "The agent's response, unless a policy masks, blocks or holds it. If the task has "
    "`metadata.relay_reason`, it is a task of the relay: get it again later."
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

APIS: tuple[type[HttpApi], ...] = (
    ApprovalApi,
    AgentsApi,
    CallersApi,
    GroupsApi,
    EvaluationApi,
    ReplayApi,
    PolicyApi,
    PolicyGroupApi,
    BindingApi,
    AuditApi,
    TenantApi,
)
API_ROUTES: tuple[Route, ...] = tuple(route for api in APIS for route in api.list_declared_routes())
RELAY_TAGS: dict[str, str] = {
    **TAGS,
    **{
        group.tag: group.description
        for group in (agents, groups, policies, policy_groups, bindings, approvals, audit)
        if group.tag
    },
}


def _call(path: str, name: str, summary: str, description: str, body: dict[str, Any]) -> Route:
    return Route(
        method="POST",
        path=_AGENT + path,
        name=name,
        tag=RELAYING,
        handling="mounted",
        scope=CALL_SCOPE,
        summary=summary,
        description=description,
        parameters=(AGENT_ID, VERSION, CORRELATION),
        body=RequestBody(model=dict[str, Any], description="A request of A2A.", examples={"send": body}),
        replies=(RouteReply(status=200, description=_AGENT_REPLY, model=dict[str, Any]),),
        errors=_ERRORS,
    )


A2A_ROUTES: tuple[Route, ...] = (
    Route(
        method="GET",
        path=_AGENT + WELL_KNOWN_PATHS[0],
        name="readAgentCard",
        tag=RELAYING,
        handling="mounted",
        scope=CARD_SCOPE,
        summary="Read an agent's card",
        description="The agent's card, with the relay's URLs instead of the agent's.",
        parameters=(AGENT_ID,),
        replies=(RouteReply(status=200, description="The card.", model=dict[str, Any], headers=("ETag",)),),
        errors=(InvalidToken, CaseNotFound, RequestError, Unreachable),
    ),
    _call(
        "",
        "callAgent",
        "Call an agent by JSON-RPC",
        "Supports every method of A2A 1.0 and 0.3. Streams are sent as server-sent events.",
        _RPC,
    ),
    _call(
        "/message:send",
        "sendMessage",
        "Send a message by HTTP+JSON",
        "The other paths of A2A, such as `message:stream`, `tasks/{id}`, `tasks/{id}:cancel` and "
        "`tasks/{id}:subscribe`, work in the same way. For 0.3, insert `/v1` before each path.",
        {"message": _MESSAGE},
    ),
    Route(
        method="POST",
        path=f"{WEBHOOKS}{{webhookId}}{NOTIFICATIONS}",
        name="pushNotification",
        tag=RELAYING,
        handling="mounted",
        summary="Push a notification",
        description="For agents: the relay sends them this URL and its token in push configs. It inspects "
        "each notification like a response and forwards it to the caller's URL.",
        credential="none",
        parameters=(WEBHOOK_ID, WEBHOOK_TOKEN),
        body=RequestBody(
            model=dict[str, Any],
            description="A task or a task update of A2A.",
            examples={"change": _CHANGE},
        ),
        replies=(
            RouteReply(
                status=204,
                description="Accepted. The relay forwards the notification, unless a policy prevents it.",
            ),
        ),
        errors=(InvalidJson, RateLimited, *_ERRORS),
    ),
)


RELAY_ROUTES: tuple[Route, ...] = (*A2A_ROUTES, *API_ROUTES)
