"""A refund in a LlamaIndex workflow that a person approves; run it with PLACET_SERVER and PLACET_KEY."""

import asyncio
import json
import os
from collections.abc import Sequence
from pathlib import Path

from workflows import Context, Workflow, step
from workflows.events import Event, StartEvent, StopEvent

from placet import PlacetClient
from placet.hook import HumanInTheLoopHook, ServerReviews, SqliteSaver, ToolCall
from placet.hook.frameworks.llama_index import ApprovalRequested, WorkflowApproval

client = PlacetClient(os.environ["PLACET_SERVER"], os.environ["PLACET_KEY"])
hook = HumanInTheLoopHook({"refund": "Refunds need approval"})
approval = WorkflowApproval(hook, saver=SqliteSaver("approvals.db"), reviews=ServerReviews(client))
file = Path("order-17.json")
KEY = "order 17, turn 1"
refunded: list[str] = []


def refund(call: ToolCall) -> str:
    """Pay an order back."""
    refunded.append(call.arguments["order"])
    return f"refunded {call.arguments['order']}"


class Support(Workflow):
    """Pays an order back after a person has approved it."""

    @step
    async def pay_back(self, ctx: Context, ev: StartEvent) -> StopEvent:
        call = ToolCall(id="c1", name="refund", arguments={"order": "17"})
        return StopEvent(result=await approval.run(ctx, KEY, call, refund))


async def run(stored: str | None, decided: Sequence[Event] = ()) -> tuple[object, str]:
    """Run the workflow until it ends or waits; return its result and its context."""
    workflow = Support(timeout=None)
    ctx = Context(workflow) if stored is None else Context.from_dict(workflow, json.loads(stored))
    handler = workflow.run(ctx=ctx)
    async for event in approval.events(handler, decided):
        if isinstance(event, ApprovalRequested):
            print("Please decide:", event.review_url)
    context = json.dumps(ctx.to_dict())
    if handler.is_done():
        return await handler, context
    await handler.cancel_run()
    return None, context


result, context = asyncio.run(run(None))
assert result is None
file.write_text(context)

assert approval.answer(KEY) == []  # nobody has decided on the page yet
stopped = approval.waiting(KEY)
assert stopped is not None
decided = approval.answer(KEY, stopped.edit_tool("refund", {"order": "18"}))
result, context = asyncio.run(run(file.read_text(), decided))
assert refunded == ["18"]
print(result)
client.close()
