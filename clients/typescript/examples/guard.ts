// Tool approval for any agent: a function that waits for a person before each call.

import assert from "node:assert/strict";

import { NotApproved, PlacetClient, ToolApprovals } from "placet-client";

const threadId = `order ${Date.now()}`; // names the conversation

const placet = new PlacetClient(process.env.PLACET_SERVER ?? "", process.env.PLACET_KEY ?? "");
const approvals = new ToolApprovals(placet, {
  threadId,
  agent: "Shop assistant",
  onWait: ({ call, reviewUrl }) => console.log(`${call.toolName} waits. Please decide:`, reviewUrl),
});

const refund = approvals.guard(
  "refund",
  { description: "Refunds need approval", when: ({ amount }) => amount > 10 },
  async ({ order, amount }: { order: string; amount: number }) => `refunded ${amount} for order ${order}`,
);

async function callTool(toolCallId: string, input: { order: string; amount: number }) {
  try {
    return await refund(input, { toolCallId });
  } catch (error) {
    if (error instanceof NotApproved) return error.message; // for the model to read
    throw error;
  }
}

assert.equal(await callTool("call_1", { order: "17", amount: 40 }), "refunded 40 for order 17");
assert.equal(await callTool("call_2", { order: "18", amount: 5 }), "refunded 5 for order 18");
