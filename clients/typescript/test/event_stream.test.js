import assert from "node:assert/strict";
import { test } from "node:test";

import { EventParser } from "../src/event_stream.js";

const STREAM = ': hello\r\nretry: 2000\r\n\r\nid: 2\revent: review.opened\rdata: {"a":\rdata: 1}\r\r\nid: 3\ndata:x\n\nevent: none\n\ndata: cut';
const EVENTS = [
  { id: "2", name: "review.opened", data: '{"a":\n1}' },
  { id: "3", name: "message", data: "x" },
];

test("events are the same however the bytes are split", () => {
  for (let first = 0; first <= STREAM.length; first += 1) {
    for (const second of [first, first + 1, first + 7]) {
      const parser = new EventParser();
      const parts = [STREAM.slice(0, first), STREAM.slice(first, second), STREAM.slice(second)];
      assert.deepEqual(parts.flatMap((part) => parser.feed(part)), EVENTS);
    }
  }
});

test("an event without end is refused", () => {
  const parser = new EventParser();
  assert.throws(() => {
    for (let count = 0; count < 10; count += 1) parser.feed(`data: ${"x".repeat(1024 * 1024)}\n`);
  }, /without end/);
});
