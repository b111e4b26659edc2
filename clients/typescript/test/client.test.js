import assert from "node:assert/strict";
import { createServer } from "node:http";
import { test } from "node:test";

import { followCase, hasEnded, PlacetClient, PlacetError, readAgentRequest, ServerRefused, Unavailable } from "placet-client";

import { answer, client, KEY, SERVER, unique } from "./server.js";

const QUESTION = { type: "approval", prompt: "May this go out?", context: { artifact: { text: "Hello" } } };
const MINUTE = 60_000;

/**
 * Serve these responses on loopback for the length of a test.
 *
 * @param {import("node:test").TestContext} t @param {import("node:http").RequestListener} listener
 * @returns {Promise<string>}
 */
async function serve(t, listener) {
  const server = createServer(listener);
  await new Promise((resolve) => server.listen(0, "127.0.0.1", () => resolve(undefined)));
  t.after(() => {
    server.close();
    server.closeAllConnections();
  });
  return `http://127.0.0.1:${/** @type {import("node:net").AddressInfo} */ (server.address()).port}`;
}

test("a case on the service's own page is answered by the service", async () => {
  const { hitl } = await client.open({ ...QUESTION, review_url: "https://shop.example/decide/{case_id}" });
  assert.equal(hitl.review_url, `https://shop.example/decide/${hitl.case_id}`);
  const respondedBy = { name: "Ada" };
  const poll = await client.answer(hitl.case_id, "approve", { feedback: "Fine." }, { respondedBy });
  assert.ok(poll.status === "completed");
  assert.deepEqual(poll.responded_by, respondedBy);
});

test("a case is opened, waited for and answered", async () => {
  const { hitl, status } = await client.open(QUESTION, { idempotencyKey: unique() });
  assert.equal(status, "human_input_required");
  assert.equal((await client.status(hitl.case_id)).status, "pending");
  const waiting = client.wait(hitl.case_id, { timeoutMs: MINUTE });
  await answer(hitl.review_url, "approve", { feedback: "Fine." });
  const poll = await waiting;
  assert.ok(poll.status === "completed");
  assert.equal(poll.result.action, "approve");
  assert.deepEqual(poll.result.data, { feedback: "Fine." });
  assert.ok((await client.cases({ status: "completed" })).cases.some((one) => one.poll.case_id === hitl.case_id));
});

test("a repeated request returns the first response", async () => {
  const idempotencyKey = unique();
  const first = await client.open(QUESTION, { idempotencyKey });
  assert.deepEqual(await client.open(QUESTION, { idempotencyKey }), first);
});

test("a wait that is over returns the open case", async () => {
  const { hitl } = await client.open(QUESTION);
  const poll = await client.wait(hitl.case_id, { timeoutMs: 50 });
  assert.ok(!hasEnded(poll));
  assert.equal(poll.case_id, hitl.case_id);
});

test("an aborted wait raises the reason", async () => {
  const { hitl } = await client.open(QUESTION);
  const abort = new AbortController();
  const waiting = client.wait(hitl.case_id, { signal: abort.signal });
  setImmediate(() => abort.abort(new Error("stopped")));
  await assert.rejects(waiting, /stopped/);
});

test("a withdrawn case ends, and its events say so", async () => {
  const { hitl } = await client.open(QUESTION);
  await client.cancel(hitl.case_id, { reason: "Not needed." });
  const names = [];
  for await (const event of client.events(hitl.case_id)) names.push(event.name);
  assert.deepEqual(names, ["review.cancelled"]);
  const poll = await client.wait(hitl.case_id);
  assert.ok(poll.status === "cancelled");
  assert.equal(poll.reason, "Not needed.");
});

test("an error of the server carries its status, code and message", async () => {
  await assert.rejects(client.status("review_unknown"), (error) => {
    assert.ok(error instanceof ServerRefused);
    assert.equal(error.status, 404);
    assert.equal(error.code, "not_found");
    return true;
  });
  await assert.rejects(new PlacetClient(SERVER, "wrong").cases(), /401 invalid_token/);
  const wrong = /** @type {any} */ ({ ...QUESTION, timeout: "soon" });
  await assert.rejects(client.open(wrong), /400 .*timeout/);
});

test("settings that cannot work are refused", () => {
  for (const address of ["http://example.com", "ftp://127.0.0.1", "placet", "https://a:b@example.com", "https://x/?y"]) {
    assert.throws(() => new PlacetClient(address, KEY), PlacetError, address);
  }
  for (const key of ["", "two\nlines", "schlüssel"]) assert.throws(() => new PlacetClient(SERVER, key), PlacetError);
  assert.throws(() => client.cancel("../keys"), PlacetError);
});

test("what is no response of Placet is an outage and no decision", async (t) => {
  const bodies = ["<html>", "[]", "", '{"status":"completed","case_id":"c"}', '{"status":"yes","case_id":"c"}'];
  for (const body of bodies) {
    const url = await serve(t, (_, response) => response.end(body));
    await assert.rejects(new PlacetClient(url, KEY).status("c"), Unavailable, body);
  }
  const redirecting = await serve(t, (_, response) => response.writeHead(307, { Location: SERVER }).end());
  await assert.rejects(new PlacetClient(redirecting, KEY).status("c"), Unavailable);
  await assert.rejects(new PlacetClient("http://127.0.0.1:1", KEY).status("c"), Unavailable);
  const silent = await serve(t, () => undefined);
  await assert.rejects(new PlacetClient(silent, KEY, { timeoutMs: 50 }).status("c"), /no response within 50 ms/);
});

test("a wait polls where there is no stream, with ETag and Retry-After, and waits out an outage", async (t) => {
  /** @type {(string | undefined)[]} */
  const etags = [];
  const open = { status: "pending", case_id: "c" };
  const completed = { status: "completed", case_id: "c", completed_at: "2026-05-06T09:10:00Z", result: { action: "confirm", data: {} } };
  const url = await serve(t, (request, response) => {
    if (request.url?.endsWith("/events")) return response.writeHead(404).end();
    etags.push(request.headers["if-none-match"]);
    const answers = [
      () => response.writeHead(200, { ETag: '"1"', "Retry-After": "0" }).end(JSON.stringify(open)),
      () => response.writeHead(304, { ETag: '"1"' }).end(),
      () => response.writeHead(429, { "Retry-After": "0" }).end('{"error":"rate_limited"}'),
      () => response.writeHead(503).end("down"),
      () => response.end(JSON.stringify(completed)),
    ];
    return (answers[etags.length - 1] ?? answers.at(-1))?.();
  });
  const poll = await new PlacetClient(url, KEY).wait("c", { intervalMs: 1, timeoutMs: MINUTE });
  assert.equal(poll.status, "completed");
  assert.deepEqual(etags, [undefined, '"1"', '"1"', '"1"', '"1"']);
});

test("the agent follows the case with the credential it called the service with", async () => {
  const credential = unique("agent-key");
  const agentRequest = new Request("https://shop.example/orders", {
    method: "POST",
    headers: { Authorization: `Bearer ${credential}`, "Content-Type": "application/json" },
    body: JSON.stringify({ hitl_callback_url: "http://10.0.0.1/never" }),
  });
  const asked = await client.open(QUESTION, { agentRequest });
  assert.match(JSON.stringify(asked.data), /hitl_callback_url|callback/);
  assert.equal(await agentRequest.text().then((body) => body.length > 0), true, "the service can still read the body");
  const following = followCase(asked, { origins: [SERVER], credential, timeoutMs: MINUTE });
  await answer(asked.hitl.review_url, "reject");
  const poll = await following;
  assert.ok(poll.status === "completed");
  assert.equal(poll.result.action, "reject");
  const stranger = followCase(asked, { origins: [SERVER], credential: unique() });
  await assert.rejects(stranger, (error) => error instanceof ServerRefused && [401, 404].includes(error.status));
});

test("no credential goes to an origin that is not trusted", async (t) => {
  let requests = 0;
  const url = await serve(t, (_, response) => {
    requests += 1;
    response.end("{}");
  });
  const { hitl } = await client.open(QUESTION);
  const moved = { ...hitl, poll_url: `${url}/status` };
  assert.throws(() => followCase(moved, { origins: [SERVER], credential: "secret" }), /poll_url is at/);
  const streamed = { ...hitl, events_url: `${url}/events` };
  assert.throws(() => followCase(streamed, { origins: [SERVER], credential: "secret" }), /events_url is at/);
  assert.throws(() => followCase(/** @type {any} */ ({}), { origins: [SERVER] }), PlacetError);
  assert.equal(requests, 0);
});

test("requests of Node.js and Express are read too", async () => {
  const found = await readAgentRequest({ headers: { "X-Api-Key": "k" }, body: { hitl_callback_url: "https://a.example/h" } });
  const sha256 = "8254c329a92850f6d539dd376f4816ee2764517da5e0235514af433164480d7a";
  assert.deepEqual(found, { reader: { bearer_sha256: sha256 }, hitl_callback_url: "https://a.example/h" });
  assert.deepEqual(await readAgentRequest({ headers: { authorization: "Basic eDp5" } }), {});
  assert.deepEqual(await readAgentRequest(new Request("https://a.example")), {});
  const broken = { method: "POST", headers: { "Content-Type": "application/json" }, body: "{" };
  assert.deepEqual(await readAgentRequest(new Request("https://a.example", broken)), {});
  await assert.rejects(readAgentRequest(/** @type {any} */ ("request")), PlacetError);
});
