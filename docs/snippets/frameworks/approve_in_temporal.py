"""A refund in a Temporal workflow that a person approves; run it with PLACET_SERVER and PLACET_KEY.

TEMPORAL_ADDRESS is the address of Temporal, localhost:7233 if it is not set.
"""

import asyncio
import os

from temporalio import workflow
from temporalio.client import Client, WorkflowHandle
from temporalio.worker import Worker

with workflow.unsafe.imports_passed_through():
    from placet import PlacetClient
    from placet.hook import (
        HumanInTheLoopHook,
        InterruptionMetadata,
        ServerReviews,
        SqliteSaver,
        ToolCall,
        aresume_as_decided,
    )
    from placet.hook.frameworks.temporal import ApprovedCalls, TemporalApproval

refunded: list[str] = []


def refund(order: str) -> str:
    """Pay an order back."""
    refunded.append(order)
    return f"refunded {order}"


@workflow.defn
class Support:
    """Pays an order back after a person has approved it."""

    @workflow.run
    async def run(self, order: str) -> str:
        calls = ApprovedCalls()
        call = ToolCall(id="c1", name="refund", arguments={"order": order})
        [result] = await calls.run("turn 1", [call])
        return result


async def main(client: PlacetClient, saver: SqliteSaver) -> None:
    hook = HumanInTheLoopHook({"refund": "Refunds need approval"})
    approval = TemporalApproval(hook, tools=[refund], saver=saver, reviews=ServerReviews(client))
    temporal = await Client.connect(os.environ.get("TEMPORAL_ADDRESS", "localhost:7233"))
    worker = Worker(temporal, task_queue="support", workflows=[Support], activities=approval.activities)

    async with worker:
        handle = await temporal.start_workflow(Support.run, "17", id="order 17", task_queue="support")

        stopped = await find_waiting(approval, handle)
        assert stopped.case is not None
        print("Please decide:", stopped.case["review_url"])

        assert (await approval.answer(temporal, stopped)).undecided  # nobody has decided on the page yet
        await approval.answer(temporal, stopped, stopped.edit_tool("refund", {"order": "18"}))
        print(await handle.result())
        assert refunded == ["18"]


async def find_waiting(approval: TemporalApproval, handle: WorkflowHandle) -> InterruptionMetadata:
    """Return the calls of a workflow as soon as they wait."""
    for _ in range(600):
        if stopped := await approval.waiting(handle):
            return stopped
        await asyncio.sleep(0.1)
    raise TimeoutError


async def continue_workflows(approval: TemporalApproval, temporal: Client) -> None:
    """Continue each workflow as soon as its calls are decided; run it beside a worker."""
    while True:
        async for key, _ in aresume_as_decided(approval.threads_of(temporal)):
            print("continued", key)
        await asyncio.sleep(5)


if __name__ == "__main__":
    client = PlacetClient(os.environ["PLACET_SERVER"], os.environ["PLACET_KEY"])
    asyncio.run(main(client, SqliteSaver("approvals.db")))
    client.close()
