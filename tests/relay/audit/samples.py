"""Subscriptions, messages and findings for tests of the audit."""

import json
from typing import Any

from placet.relay.a2a.call import A2ACall, parse_call
from placet.relay.a2a.reply import A2AReply, parse_reply
from placet.relay.policy.binding import BindingLevel
from placet.relay.policy.finding import Finding
from placet.relay.policy.policy import PolicyAction
from placet.relay.tenants import CallerKind, RegisteredAgent, RegisteredCaller, Subscription

SSN = "536-22-8764"


def build_subscription(
    source: str = "trip-planner",
    sink: str = "weather",
    *,
    kind: CallerKind = "agent",
    tenant: str = "default",
) -> Subscription:
    return Subscription(
        source=RegisteredCaller(name=source, kind=kind),
        sink=RegisteredAgent(id=sink, url="https://weather.example/a2a"),
        tenant=tenant,
    )


def build_call(text: str, **params: Any) -> A2ACall:
    """A message over JSON-RPC 1.0."""
    message = {"messageId": "m-1", "role": "ROLE_USER", "parts": [{"text": text}]}
    document = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": params.pop("method", "SendMessage"),
        "params": {"message": message, **params},
    }
    return parse_call(
        method="POST",
        path="",
        query="",
        version="1.0",
        content_type="application/json",
        body=json.dumps(document).encode(),
    )


def build_reply(asked: A2ACall, **task: Any) -> A2AReply:
    """A task as the answer."""
    shown = {"id": "t-1", "contextId": "c-1", "status": {"state": "TASK_STATE_COMPLETED"}, **task}
    document = {"jsonrpc": "2.0", "id": 1, "result": {"task": shown}}
    return parse_reply(asked.dialect, asked.operation, json.dumps(document).encode())


def build_finding(message: A2ACall | A2AReply, matched: str, entity: str = "US_SSN", **over: Any) -> Finding:
    """The first place where a message has this text."""
    texts = [piece.text for piece in message.pieces()]
    piece = next(place for place, one in enumerate(texts) if matched in one)
    start = texts[piece].index(matched)
    found = {
        "policy_id": "p-1",
        "policy_name": "No SSNs",
        "policy_version": "1",
        "policy_level": BindingLevel.TENANT,
        "action": PolicyAction.LOG,
        "detector": "REGEX_DETECTION",
        "entity": entity,
        "score": 1.0,
        "path": message.pieces()[piece].path,
        "piece": piece,
        "start": start,
        "end": start + len(matched),
        "text": matched,
    }
    return Finding(**{**found, **over})
