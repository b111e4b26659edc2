"""A server with a relay, policies and an agent that repeats whatever it is told."""

import asyncio
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from placet.relay.settings import (
    AgentSettings,
    CallerSettings,
    GroupSettings,
    RelaySettings,
    TenantSettings,
)
from tests.relay.a2a.raw_agent import RawAgent, answer_with, run_raw_agent
from tests.server.running import RunningServer, running

SSN = "536-22-8764"
SEES_ALL = ("AUDIT:READ", "AGENT_CONVERSATIONS:READ", "AGENT_CONVERSATIONS:WRITE")
ALL_LEGS = dict.fromkeys(["requestFromSource", "requestToSink", "responseFromSink", "responseToSource"], True)


def build_policy_draft(name: str, regex: str, action: str, **legs: bool) -> dict[str, Any]:
    """A policy as a file has it."""
    pattern = {"regex": regex, "action": action}
    return {
        "name": name,
        "config": {"type": "REGEX_DETECTION", "enabledLegs": legs or ALL_LEGS, "pattern": pattern},
    }


POLICIES = [
    build_policy_draft("Note SSNs", r"\d{3}-\d{2}-\d{4}", "LOG"),
    build_policy_draft("Mask cards", r"\d{4} \d{4} \d{4} \d{4}", "MASK", requestFromSource=True),
    build_policy_draft("No nettles", "nettle", "BLOCK", requestFromSource=True),
    build_policy_draft("Roses wait", "rose", "HUMAN_REVIEW_REQUIRED", requestToSink=True),
]


async def answer_with_echo(
    agent: RawAgent, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    """A task whose history and artifact both say what was said."""
    asked = json.loads(agent.requests[-1][1])
    said = asked["params"]["message"]
    task = {
        "id": f"task-{said['messageId']}",
        "contextId": "c-1",
        "status": {"state": "TASK_STATE_COMPLETED"},
        "artifacts": [{"artifactId": "a-1", "parts": said["parts"]}],
        "history": [said],
    }
    body = {"jsonrpc": "2.0", "id": asked["id"], "result": {"task": task}}
    await answer_with(200, json.dumps(body).encode())(agent, reader, writer)


class AuditedRelay:
    """What a test may do: speak as the caller, and read as the auditor."""

    def __init__(
        self, server: RunningServer, agent: RawAgent, caller: httpx.Client, auditor: httpx.Client
    ) -> None:
        self.server = server
        self.agent = agent
        self.caller = caller
        self.auditor = auditor
        self._sent = 0

    def say(self, text: str, agent: str = "weather", **message: Any) -> tuple[str, Any]:
        """Send a message; returns the correlation id of the call and the answer."""
        self._sent += 1
        name = f"call-{self._sent}"
        said = {"messageId": f"m-{self._sent}", "role": "ROLE_USER", "parts": [{"text": text}], **message}
        reply = self.caller.post(
            f"/relay/v1/agents/{agent}",
            json={"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": said}},
            headers={"A2A-Version": "1.0", "X-Correlation-Id": name},
        )
        return name, reply.json()

    def events(self, **query: Any) -> list[dict[str, Any]]:
        """What the auditor finds, the oldest first."""
        reply = self.auditor.get("/audit/v1/events", params={"size": 200, **query})
        assert reply.status_code == 200, reply.text
        return list(reversed(reply.json()["content"]))


@contextmanager
def run_audited_relay(
    folder: Path, policies: Sequence[dict[str, Any]] = POLICIES, **keeping: TenantSettings
) -> Iterator[AuditedRelay]:
    """All of it, for the tenant `default` unless it is told what to keep."""
    file = folder / "policies.json"
    file.write_text(json.dumps(policies))
    with run_raw_agent() as agent:
        agent.behave = answer_with_echo
        relay = RelaySettings(
            agents={"weather": AgentSettings(url=agent.url)},
            callers={"trip-planner": CallerSettings(agents=("weather",))},
            groups={"auditors": GroupSettings(members=("ada",), permissions=SEES_ALL)},
            tenants=keeping,
            policies=str(file),
        )
        with running(folder, relay=relay) as server:
            caller, auditor = (server.create_key(name) for name in ("trip-planner", "ada"))
            with server.client(caller) as speaks, server.client(auditor) as reads:
                yield AuditedRelay(server, agent, speaks, reads)
