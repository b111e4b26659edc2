// An agent that calls a service, gets a 202, and waits for the decision.

import assert from "node:assert/strict";

import { followCase, PlacetClient } from "placet-client";

const SERVICE = process.env.PLACET_SERVER ?? "";
const CREDENTIAL = "key-of-the-agent";

/** Stands in for the service that you call: it opens a case and names you as its reader. */
async function callService(credential: string): Promise<Response> {
  const placet = new PlacetClient(SERVICE, process.env.PLACET_KEY ?? "");
  const agentRequest = new Request("https://shop.example/", { headers: { Authorization: `Bearer ${credential}` } });
  const draft = { type: "confirmation", prompt: "Delete the backup?", context: { items: [{ id: "2019", title: "2019" }] } };
  return Response.json(await placet.open(draft, { agentRequest }), { status: 202 });
}

const response = await callService(CREDENTIAL);
if (response.status === 202) {
  const asked = await response.json();
  console.log("Please decide:", asked.hitl.review_url);
  const poll = await followCase(asked, { origins: [SERVICE], credential: CREDENTIAL, timeoutMs: 60_000 });
  console.log(poll.status === "completed" ? poll.result.action : `no decision: ${poll.status}`);
  assert.ok(poll.status === "completed" && poll.result.action === "confirm");
}
