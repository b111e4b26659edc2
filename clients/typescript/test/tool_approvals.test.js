import assert from "node:assert/strict";
import { test } from "node:test";

import { NotApproved, PlacetClient, PlacetError, ToolApprovals } from "placet-client";

import { answer, client, KEY, unique } from "./server.js";

const RULE = "Refunds need approval";
const ALL_DECISIONS = { allowedDecisions: /** @type {const} */ (["approve", "edit", "reject", "respond"]).slice() };

/** @param {string} [toolCallId] */
function refundOf(toolCallId = "call_1") {
  return { toolCallId, toolName: "refund", input: { order: "17", amount: 40 } };
}

/**
 * @param {ToolApprovals} approvals @param {ReturnType<typeof refundOf>} call
 * @param {import("placet-client").Rule} [rule]
 */
async function linkOf(approvals, call, rule = RULE) {
  const asked = await approvals.ask(call, rule);
  assert.ok(asked.kind === "wait");
  return asked.reviewUrl;
}

test("an approved call runs once, in whichever process", async () => {
  const threadId = unique();
  const [here, there] = [new ToolApprovals(client, { threadId }), new ToolApprovals(client, { threadId })];
  let runs = 0;
  const execute = async (/** @type {{order: string}} */ { order }) => `refunded ${order} ${(runs += 1)}`;
  const link = await linkOf(here, refundOf());
  assert.equal(await linkOf(there, refundOf()), link, "the same call is the same case");
  await assert.rejects(here.run(refundOf(), RULE, execute), /Nobody has approved/);
  await answer(link, "approve");
  const outcomes = await Promise.allSettled([1, 2, 3].map(() => there.run(refundOf(), RULE, execute)));
  assert.deepEqual(outcomes.filter((one) => one.status === "fulfilled").map((one) => one.value), ["refunded 17 1"]);
  await assert.rejects(here.run(refundOf(), RULE, execute), /run before/);
  assert.equal(runs, 1);
});

test("an approval counts for no other call, arguments, thread or description", async () => {
  const threadId = unique();
  const approvals = new ToolApprovals(client, { threadId });
  await answer(await linkOf(approvals, refundOf()), "approve");
  const others = [
    [approvals, { ...refundOf(), input: { order: "17", amount: 4000 } }, RULE],
    [approvals, refundOf("call_2"), RULE],
    [approvals, { ...refundOf(), toolName: "refund_all" }, RULE],
    [approvals, refundOf(), "Harmless"],
    [new ToolApprovals(client, { threadId: unique() }), refundOf(), RULE],
  ];
  for (const [asked, call, rule] of /** @type {[ToolApprovals, any, string][]} */ (others)) {
    const run = asked.run(call, rule, () => assert.fail("it ran"));
    await assert.rejects(run, (error) => error instanceof NotApproved && error.reason === "waiting");
  }
});

test("a rejected, withdrawn or wrongly answered call does not run", async () => {
  const approvals = new ToolApprovals(client, { threadId: unique() });
  const never = () => assert.fail("it ran");
  await answer(await linkOf(approvals, refundOf()), "reject", { decisions: { call_1: { decision: "reject", reason: "Too much" } } });
  await assert.rejects(approvals.run(refundOf(), RULE, never), (error) => {
    assert.ok(error instanceof NotApproved);
    assert.equal(error.reason, "rejected");
    assert.match(error.message, /Their reason: Too much/);
    return true;
  });
  const withdrawn = await approvals.ask(refundOf("call_2"), RULE);
  await client.cancel(withdrawn.caseId);
  await assert.rejects(approvals.run(refundOf("call_2"), RULE, never), /withdrawn/);
  for (const input of ["text", null, ["list"]]) {
    await assert.rejects(approvals.ask({ ...refundOf(), input }), PlacetError);
  }
});

test("an edit and a response in the tool's place reach the model", async () => {
  const approvals = new ToolApprovals(client, { threadId: unique() });
  const edited = { order: "17", amount: 4 };
  const execute = async (/** @type {{amount: number}} */ { amount }) => `refunded ${amount}`;
  const link = await linkOf(approvals, refundOf(), ALL_DECISIONS);
  await answer(link, "edit", { decisions: { call_1: { decision: "edit", arguments: edited } } });
  const said = await approvals.run(refundOf(), ALL_DECISIONS, execute);
  assert.equal(said, 'A person changed this call before it ran. It ran with {"order":"17","amount":4}. Its result: refunded 4');
  const other = await linkOf(approvals, refundOf("call_2"), ALL_DECISIONS);
  await answer(other, "edit", { decisions: { call_2: { decision: "respond", answer: "Ask again on Monday." } } });
  assert.equal(await approvals.run(refundOf("call_2"), ALL_DECISIONS, execute), "Ask again on Monday.");
});

test("a guarded function waits for the person", async () => {
  const approvals = new ToolApprovals(client, { threadId: unique(), agent: "Shop" });
  const rule = { description: RULE, when: (/** @type {{amount: number}} */ { amount }) => amount > 10 };
  const refund = approvals.guard("refund", rule, async (/** @type {{order: string, amount: number}} */ { order }) => `refunded ${order}`);
  assert.equal(await refund({ order: "1", amount: 5 }, { toolCallId: "small" }), "refunded 1");
  const running = refund({ order: "17", amount: 40 }, { toolCallId: "call_1" });
  await answer(await linkOf(approvals, refundOf(), rule), "approve");
  assert.equal(await running, "refunded 17");
});

test("a tool that fails is reported as failed and is not run again", async () => {
  const approvals = new ToolApprovals(client, { threadId: unique() });
  await answer(await linkOf(approvals, refundOf()), "approve");
  const fail = async () => {
    throw new RangeError("no money");
  };
  await assert.rejects(approvals.run(refundOf(), RULE, fail), RangeError);
  await assert.rejects(approvals.run(refundOf(), RULE, fail), /run before/);
});

test("no failure of the server lets a call run", async () => {
  const gone = new ToolApprovals(new PlacetClient("http://127.0.0.1:1", KEY), { threadId: unique() });
  await assert.rejects(gone.run(refundOf(), RULE, () => assert.fail("it ran")), PlacetError);
  const when = () => {
    throw new Error("broken");
  };
  const broken = new ToolApprovals(client, { threadId: unique() });
  const refund = broken.guard("refund", { when }, () => assert.fail("it ran"));
  await assert.rejects(refund(refundOf().input, { toolCallId: "call_1", signal: AbortSignal.timeout(200) }));
});
