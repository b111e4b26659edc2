"""A server with a relay that holds, between the SDK's client and the SDK's agent."""

import asyncio
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from a2a.types.a2a_pb2 import GetTaskRequest, Task, TaskState
from google.protobuf.json_format import MessageToDict  # type: ignore[import-untyped]

from placet.desk.answer import Answer
from placet.ports.hold_store import HoldFilter, HoldRow
from placet.relay.settings import AgentSettings, CallerSettings, GroupSettings, RelaySettings
from tests.relay.a2a.sdk_agent import SECRET, SdkAgent
from tests.relay.traffic.test_pass_through import SdkCaller
from tests.server.running import RunningServer, running
from tests.waiting import PATIENCE_S, eventually

READ, WRITE = "AGENT_CONVERSATIONS:READ", "AGENT_CONVERSATIONS:WRITE"
LEGS = {
    "requestFromSource": "tulip",
    "requestToSink": "violet",
    "responseFromSink": "marigold",
    "responseToSource": "snowdrop",
}
"""On each leg one flower holds, and a rose on all of them."""
SUBMITTED = TaskState.TASK_STATE_SUBMITTED
WORKING, DONE = TaskState.TASK_STATE_WORKING, TaskState.TASK_STATE_COMPLETED
CANCELED, FAILED = TaskState.TASK_STATE_CANCELED, TaskState.TASK_STATE_FAILED


def build_policy_draft(
    name: str, regex: str, *legs: str, action: str = "HUMAN_REVIEW_REQUIRED"
) -> dict[str, Any]:
    """A policy as a file has it."""
    return {
        "name": name,
        "description": "",
        "config": {
            "type": "REGEX_DETECTION",
            "enabledLegs": dict.fromkeys(legs, True),
            "pattern": {"regex": regex, "action": action},
        },
    }


POLICIES = [
    *(build_policy_draft(f"No {flower}", flower, leg) for leg, flower in LEGS.items()),
    build_policy_draft("No rose", "rose", *LEGS),
    build_policy_draft("Mask clover", "clover", "requestFromSource", action="MASK"),
    build_policy_draft("Block nettle", "nettle", "requestToSink", action="BLOCK"),
]


def write_policies(folder: Path) -> str:
    """Where the policies stand."""
    file = folder / "policies.json"
    file.write_text(json.dumps(POLICIES))
    return str(file)


@contextmanager
def run_holding_server(
    folder: Path, agents: dict[str, str], *, four_eyes: bool = False, **relay: Any
) -> Iterator[RunningServer]:
    """A server that holds flowers for reviewers; the agent `frank` may ask its callers itself."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ERRANDS_CREDENTIAL", SECRET)
        settings = RelaySettings(
            agents={
                name: AgentSettings(
                    url=url,
                    credentials={"Authorization": "ERRANDS_CREDENTIAL"},
                    input_required="pass" if name == "frank" else "hold",
                )
                for name, url in agents.items()
            },
            callers={
                "acme": CallerSettings(agents=tuple(agents)),
                "other": CallerSettings(agents=tuple(agents)),
            },
            groups={
                "reviewers": GroupSettings(members=("rita",), permissions=(READ, WRITE)),
                "readers": GroupSettings(members=("ravi",), permissions=(READ,)),
                "strangers": GroupSettings(members=("stan",), permissions=(READ, WRITE), tenant="elsewhere"),
            },
            **{"policies": write_policies(folder), **relay},
        )
        with running(folder, relay=settings, four_eyes=four_eyes) as found:
            yield found


def open_sdk_caller(
    server: RunningServer, binding: str = "JSONRPC", version: str = "1.0", agent: str = "errands"
) -> SdkCaller:
    """The SDK's client, through the relay."""
    return SdkCaller(f"{server.url}/relay/v1/agents/{agent}", server.api_key, binding, version)


def find_pending_hold(server: RunningServer, task_id: str) -> HoldRow:
    """The hold that a task waits for."""
    asked = HoldFilter(status="PENDING", task_id=task_id)
    holds, _ = server.run(server.parts.store.list_holds("default", asked, page=0, size=5))
    [hold] = holds
    return hold


def decide(
    server: RunningServer, task_id: str, action: str = "approve", message: str | None = None
) -> HoldRow:
    """Answer the case of the hold that a task waits for."""
    hold = find_pending_hold(server, task_id)
    data = {"message": message} if message else {}
    answer = Answer(action=action, data=data, path="browser_submit", actor="link:reviewer")
    server.run(server.parts.desk.answer(hold.case_id, answer))
    return hold


async def get_task(made: SdkCaller, task_id: str) -> Task:
    """The task as its caller sees it."""
    return await made.unary.get_task(GetTaskRequest(id=task_id))


async def wait_until_done(made: SdkCaller, task_id: str) -> Task:
    """The task once its agent does not work on it any more, though it answers before, or the relay does."""
    async with asyncio.timeout(PATIENCE_S):
        while (task := await get_task(made, task_id)).status.state in (SUBMITTED, WORKING):
            pass
    return task


def read_metadata(task: Task) -> dict[str, Any]:
    """The metadata of a task."""
    found: dict[str, Any] = MessageToDict(task.metadata)
    return found


def list_artifact_texts(task: Task) -> list[str]:
    """The texts of a task's artifacts."""
    return [part.text for artifact in task.artifacts for part in artifact.parts if part.text]


def count_requests(agent: SdkAgent) -> int:
    """How many requests reached the agent besides those for its card."""
    return len(agent.seen)


def wait_until_settled(server: RunningServer, hold: HoldRow) -> HoldRow:
    """The hold once all that follows from its decision was done."""

    def look() -> HoldRow | None:
        found = server.run(server.parts.store.get_hold(hold.id))
        return found if found is not None and b"done_at" in found.body else None

    return eventually(look)
