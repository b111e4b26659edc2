// A service with Placet beside it: it opens a case, hands the 202 on, and acts on the answer.

import assert from "node:assert/strict";

import { PlacetClient, verifyCallback, verifyResult } from "placet-client";

const placet = new PlacetClient(process.env.PLACET_SERVER ?? "", process.env.PLACET_KEY ?? "");

async function sendReply(request: Request): Promise<Response> {
  const { order, reply } = (await request.clone().json()) as { order: string; reply: string };
  const asked = await placet.open(
    {
      type: "approval",
      prompt: `May this reply about order ${order} go out?`,
      context: { artifact: { reply } },
      timeout: "4h",
      default_action: "reject",
    },
    { agentRequest: request, idempotencyKey: `reply to ${order}` },
  );
  return Response.json(asked, { status: 202 });
}

async function isApproved(caseId: string): Promise<boolean> {
  const poll = await placet.wait(caseId, { timeoutMs: 60_000 });
  if (poll.status !== "completed") return false;
  const proven = await verifyResult(poll, await placet.keys()); // fetch the keys once, from a server you trust
  return proven.action === "approve";
}

const SECRETS = ["whsec_MDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDA="]; // yours; two while you rotate
const seen = new Set<string | null>();

async function receiveOutcome(request: Request): Promise<Response> {
  const body = await request.text();
  try {
    const messageId = await verifyCallback(body, request.headers, { secrets: SECRETS });
    if (!seen.has(messageId)) seen.add(messageId); // the same message may come again; do your work once
  } catch {
    return new Response(null, { status: 401 });
  }
  return new Response(null, { status: 204 });
}

const headers = { Authorization: "Bearer key-of-the-agent", "Content-Type": "application/json" };
const body = JSON.stringify({ order: "17", reply: "Thank you." });
const response = await sendReply(new Request("https://shop.example/replies", { method: "POST", headers, body }));
assert.equal(response.status, 202);
const { hitl } = (await response.json()) as { hitl: { case_id: string; review_url: string } };
console.log("Please decide:", hitl.review_url);
assert.equal(await isApproved(hitl.case_id), true);
assert.equal((await receiveOutcome(new Request("https://shop.example/outcomes", { method: "POST" }))).status, 401);
