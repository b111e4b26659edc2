import assert from "node:assert/strict";
import { createHmac } from "node:crypto";
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import { test } from "node:test";

import { SignatureInvalid, toCanonicalJson, verifyCallback, verifyResult } from "placet-client";

import { answer, client } from "./server.js";

const QUESTION = { type: "confirmation", prompt: "Delete?", context: { items: [{ id: "a", title: "Ü" }] }, default_action: /** @type {const} */ ("abort") };

/** Results that Placet's own library signed: `{poll, keys}` for each algorithm and kind of data. */
const SIGNED = JSON.parse(readFileSync(process.env.SIGNED_RESULTS ?? "", "utf8"));

test("results signed with every algorithm verify, and changed ones do not", async () => {
  assert.ok(SIGNED.length >= 3);
  for (const { poll, keys } of SIGNED) {
    const verified = await verifyResult(poll, keys);
    assert.equal(verified.caseId, poll.case_id);
    assert.equal(verified.algorithm, poll.result.signature.algorithm);
    await verifyResult(poll, keys, { shown: verified.shown });
    const { signature } = poll.result;
    const changed = [
      { ...poll, case_id: "another" },
      { ...poll, completed_at: "2026-05-06T09:10:00Z" },
      { ...poll, status: "expired" },
      { ...poll, result: { ...poll.result, action: "reject" } },
      { ...poll, result: { ...poll.result, data: { ...poll.result.data, more: 1 } } },
      { ...poll, result: { ...poll.result, signature: undefined } },
      { ...poll, result: { ...poll.result, signature: { ...signature, algorithm: "none" } } },
      { ...poll, result: { ...poll.result, signature: { ...signature, value: signature.value.slice(0, -8) } } },
      { ...poll, result: { ...poll.result, signature: { ...signature, value: `${signature.value.split("..")[0]}..` } } },
    ];
    for (const one of changed) await assert.rejects(verifyResult(one, keys), SignatureInvalid);
    await assert.rejects(verifyResult(poll, { keys: [] }), /exactly one key/);
    await assert.rejects(verifyResult(poll, { keys: [...keys.keys, ...keys.keys] }), /exactly one key/);
    await assert.rejects(verifyResult(poll, keys, { shown: "0".repeat(64) }), /not what the person was shown/);
    const retired = { keys: keys.keys.map((/** @type {object} */ key) => ({ ...key, retired_at: "2020-01-01T00:00:00Z" })) };
    await assert.rejects(verifyResult(poll, retired), /was retired/);
    const encrypting = { keys: keys.keys.map((/** @type {object} */ key) => ({ ...key, use: "enc" })) };
    await assert.rejects(verifyResult(poll, encrypting), /not meant for/);
  }
});

test("canonical JSON is that of RFC 8785", () => {
  const value = { "\u20ac": 1, "\r": 2, "\ud83d\ude00": 3, 1: 1e21, a: [1e-7, -0, 0.1, "\u000f\"\\\u2028"], b: null };
  assert.equal(
    toCanonicalJson(value),
    '{"\\r":2,"1":1e+21,"a":[1e-7,0,0.1,"\\u000f\\"\\\\\u2028"],"b":null,"\u20ac":1,"\ud83d\ude00":3}',
  );
  let deep = /** @type {unknown} */ (1);
  for (let level = 0; level < 70; level += 1) deep = [deep];
  for (const wrong of [NaN, Infinity, undefined, "\ud800", new Date(0), { a: undefined }, [() => 1], 1n, deep]) {
    assert.throws(() => toCanonicalJson(wrong));
  }
});

test("a result of the server verifies, and its callback too", async (t) => {
  /** @type {(value: {headers: any, body: Buffer}) => void} */
  let receive = () => undefined;
  const received = new Promise((resolve) => (receive = resolve));
  const receiver = createServer(async (request, response) => {
    const parts = [];
    for await (const part of request) parts.push(part);
    response.end();
    receive({ headers: request.headers, body: Buffer.concat(parts) });
  });
  await new Promise((resolve) => receiver.listen(0, "127.0.0.1", () => resolve(undefined)));
  t.after(() => receiver.close());
  const { port } = /** @type {import("node:net").AddressInfo} */ (receiver.address());
  const url = `http://127.0.0.1:${port}/outcomes`;
  const { secrets } = await client.registerCallback(url);
  const { hitl } = await client.open({ ...QUESTION, callback_url: url });
  await answer(hitl.review_url, "confirm", { confirmed_items: ["a"] });

  const keys = await client.keys();
  const verified = await verifyResult(await client.status(hitl.case_id), keys);
  assert.equal(verified.action, "confirm");

  const { headers, body } = await received;
  assert.equal(await verifyCallback(body, headers, { secrets }), headers["webhook-id"]);
  const hitlOnly = { "X-HITL-Signature": headers["x-hitl-signature"] };
  assert.equal(await verifyCallback(body, hitlOnly, { secrets, acceptUntimed: true }), null);
  await verifyCallback(body.toString("utf8"), new Headers({ ...headers }), { secrets: ["whsec_other", ...secrets] });
  const refused = [
    [Buffer.concat([body, Buffer.from(" ")]), headers, {}],
    [body, headers, { secrets: ["whsec_" + "A".repeat(44)] }],
    [body, headers, { secrets: [] }],
    [body, headers, { now: new Date(Date.now() + 600_000) }],
    [body, headers, { now: new Date(NaN) }],
    [body, { ...headers, "webhook-id": "msg.1" }, {}],
    [body, { ...headers, "webhook-id": undefined }, {}],
    [body, { ...headers, "webhook-timestamp": "soon" }, {}],
    [body, { ...headers, "webhook-signature": "v1,AAAA" }, {}],
    [body, { ...headers, "Webhook-Signature": "v1,AAAA" }, {}],
    [body, hitlOnly, {}],
    [body, {}, { acceptUntimed: true }],
    [body, { "X-HITL-Signature": `sha256=${"0".repeat(64)}` }, { acceptUntimed: true }],
  ];
  for (const [given, sent, options] of refused) {
    await assert.rejects(verifyCallback(given, sent, { secrets, ...options }), SignatureInvalid, JSON.stringify(sent));
  }
});

test("several signatures are accepted while a secret is rotated", async () => {
  const [old, next] = [Buffer.alloc(32, 1), Buffer.alloc(32, 2)];
  const now = new Date();
  const timestamp = String(Math.floor(now.getTime() / 1000));
  const sign = (/** @type {Buffer} */ key) => `v1,${createHmac("sha256", key).update(`m.${timestamp}.{}`).digest("base64")}`;
  const headers = { "webhook-id": "m", "webhook-timestamp": timestamp, "webhook-signature": `${sign(old)} ${sign(next)}` };
  for (const key of [old, next]) {
    assert.equal(await verifyCallback("{}", headers, { secrets: [`whsec_${key.toString("base64")}`], now }), "m");
  }
});
