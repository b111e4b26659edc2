"""One agent calls another through the relay, and the second call is held: everybody sees what is true."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
from a2a.helpers.proto_helpers import get_message_text, new_task_from_user_message, new_text_part
from a2a.server.agent_execution import RequestContext
from a2a.server.events import EventQueue
from a2a.server.tasks import TaskUpdater
from a2a.types.a2a_pb2 import Task

from placet.http.listening import bind
from placet.ports.hold_store import HoldFilter, HoldRow
from placet.relay.settings import AgentSettings, CallerSettings, RelaySettings
from tests.relay.a2a.sdk_agent import SampleExecutor, SdkAgent, build_sdk_app, serve_app
from tests.relay.holds.holding_server import (
    DONE,
    FAILED,
    WORKING,
    decide,
    get_task,
    list_artifact_texts,
    open_sdk_caller,
    read_metadata,
    wait_until_settled,
    write_policies,
)
from tests.relay.traffic.test_pass_through import SdkCaller
from tests.server.running import RunningServer, running
from tests.waiting import eventually

ENDED = {"TASK_STATE_COMPLETED", "TASK_STATE_CANCELED", "TASK_STATE_FAILED", "TASK_STATE_REJECTED"}


class DelegatingExecutor(SampleExecutor):
    """Has another agent do what it is told, and polls for its answer as clients of the relay do."""

    def __init__(self) -> None:
        super().__init__()
        self.url, self.key = "", ""
        self.seen: list[dict[str, Any]] = []

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        assert context.message is not None
        task = new_task_from_user_message(context.message)
        await event_queue.enqueue_event(task)
        updater = TaskUpdater(event_queue, task.id, task.context_id)
        await updater.start_work()
        headers = {"Authorization": f"Bearer {self.key}", "A2A-Version": "1.0"}
        async with httpx.AsyncClient(headers=headers, verify=False, timeout=60) as client:
            answer = await self._done_by_the_other(client, f"{get_message_text(context.message)} tulip")
        said = [
            part["text"] for one in answer.get("artifacts", []) for part in one["parts"] if "text" in part
        ]
        if answer["status"]["state"] == "TASK_STATE_COMPLETED":
            await updater.add_artifact([new_text_part(f"it says: {said[0]}")])
            await updater.complete()
        else:
            await updater.failed(updater.new_agent_message([new_text_part("the other one may not")]))

    async def _done_by_the_other(self, client: httpx.AsyncClient, text: str) -> dict[str, Any]:
        message = {"messageId": f"nested {text}", "role": "ROLE_USER", "parts": [{"text": text}]}
        task = (await self._call(client, "SendMessage", message=message))["task"]
        self.seen.append(task)
        async with asyncio.timeout(60):
            while task["status"]["state"] not in ENDED:
                task = await self._call(client, "GetTask", id=task["id"])
        return task

    async def _call(self, client: httpx.AsyncClient, method: str, **params: Any) -> dict[str, Any]:
        document = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        found: dict[str, Any] = (await client.post(self.url, json=document)).json()["result"]
        return found


@contextmanager
def run_delegating_agent() -> Iterator[tuple[SdkAgent, DelegatingExecutor]]:
    listener = bind("127.0.0.1", 0)
    executor = DelegatingExecutor()
    agent = SdkAgent(f"http://127.0.0.1:{listener.getsockname()[1]}", executor)
    with serve_app(agent.watching(build_sdk_app(agent.url, executor)), listener):
        yield agent, executor


def wait_for_inner_hold(server: RunningServer) -> HoldRow:
    def look() -> HoldRow | None:
        asked = HoldFilter(status="PENDING", source="front", sink="errands")
        holds, _ = server.run(server.parts.store.list_holds("default", asked, page=0, size=2))
        return holds[0] if holds else None

    return eventually(look)


@contextmanager
def run_agent_chain(agent: SdkAgent, folder: Path) -> Iterator[tuple[RunningServer, DelegatingExecutor]]:
    """A caller, an agent that calls another, and that other, all through one relay."""
    with run_delegating_agent() as (front, executor):
        relay = RelaySettings(
            agents={"front": AgentSettings(url=front.url), "errands": AgentSettings(url=agent.url)},
            callers={
                "acme": CallerSettings(agents=("front",), kind="user"),
                "front": CallerSettings(agents=("errands",)),
            },
            policies=write_policies(folder),
            early_return="1s",
        )
        with running(folder, relay=relay) as server:
            executor.url = f"{server.url}/relay/v1/agents/errands"
            executor.key = server.create_key("front")
            yield server, executor


def test_caller_sees_working_while_its_agents_own_call_is_held(agent: SdkAgent, tmp_path: Path) -> None:
    with run_agent_chain(agent, tmp_path) as (server, front):

        async def run() -> None:
            async with open_sdk_caller(server, agent="front") as made:
                [sent] = await made.send("nested")
                assert sent.task.status.state == WORKING
                assert read_metadata(sent.task) == {"relay_reason": "TIMEOUT"}
                hold = wait_for_inner_hold(server)
                assert front.seen[0]["metadata"]["relay_reason"] == "HITL_HELD"
                assert (await get_task(made, sent.task.id)).status.state == WORKING
                wait_until_settled(server, decide(server, hold.task_id))
                ended = await wait_until_not_working(made, sent.task.id)
                assert ended.status.state == DONE
                assert list_artifact_texts(ended) == ["it says: nested tulip 0"]
                assert agent.executor.texts.count("nested tulip") == 1

        asyncio.run(run())


def test_rejection_reaches_the_caller_through_its_agent(agent: SdkAgent, tmp_path: Path) -> None:
    with run_agent_chain(agent, tmp_path) as (server, _):

        async def run() -> None:
            async with open_sdk_caller(server, agent="front") as made:
                [sent] = await made.send("refused")
                hold = wait_for_inner_hold(server)
                wait_until_settled(server, decide(server, hold.task_id, "reject"))
                ended = await wait_until_not_working(made, sent.task.id)
                assert ended.status.state == FAILED
                assert ended.status.message.parts[0].text == "the other one may not"
                assert "refused tulip" not in agent.executor.texts

        asyncio.run(run())


async def wait_until_not_working(made: SdkCaller, task_id: str) -> Task:
    async with asyncio.timeout(60):
        while True:
            task = await get_task(made, task_id)
            if task.status.state != WORKING:
                return task
