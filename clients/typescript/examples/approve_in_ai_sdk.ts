// An agent of Vercel's AI SDK whose refunds wait for a person.

import assert from "node:assert/strict";

import { generateText, stepCountIs, tool, type ModelMessage } from "ai";
import { MockLanguageModelV4 } from "ai/test";
import { PlacetClient, ToolApprovals } from "placet-client";
import { guardTools } from "placet-client/ai-sdk";
import { z } from "zod";

/** Stands in for your model: it asks for a refund, then repeats the tool's result. */
const usage = {
  inputTokens: { total: 1, noCache: 1, cacheRead: 0, cacheWrite: 0 },
  outputTokens: { total: 1, text: 1, reasoning: 0 },
};
const model = new MockLanguageModelV4({
  doGenerate: async ({ prompt }) => {
    const last = prompt.at(-1);
    const call = { type: "tool-call", toolCallId: "c1", toolName: "refund", input: '{"order":"17"}' } as const;
    const isDone = last?.role === "tool";
    const content = isDone ? [{ type: "text" as const, text: JSON.stringify(last.content) }] : [call];
    const finishReason = { unified: isDone ? ("stop" as const) : ("tool-calls" as const), raw: undefined };
    return { content, finishReason, usage, warnings: [] };
  },
});
const threadId = `order ${Date.now()}`;

const placet = new PlacetClient(process.env.PLACET_SERVER ?? "", process.env.PLACET_KEY ?? "");
const refund = tool({
  description: "Pay an order back.",
  inputSchema: z.object({ order: z.string() }),
  execute: async ({ order }) => `refunded ${order}`,
});
const approvals = new ToolApprovals(placet, { threadId, agent: "Shop assistant" });
const guarded = guardTools({ refund }, { refund: "Refunds need approval" }, approvals);

const messages: ModelMessage[] = [{ role: "user", content: "Pay order 17 back." }];
const options = { model, tools: guarded.tools, stopWhen: stepCountIs(10) };

let result = await generateText({ ...options, messages });
messages.push(...result.responseMessages);

for (const { toolName, reviewUrl } of await guarded.waiting(messages)) {
  console.log(`${toolName} waits. Please decide:`, reviewUrl);
}

const decision = await guarded.decide(messages, { wait: true, timeoutMs: 60_000 });
if (decision !== null) {
  messages.push(decision);
  result = await generateText({ ...options, messages });
}

assert.match(result.text, /refunded 17/);
