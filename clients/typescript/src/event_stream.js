/** Reads server-sent events from the body of a response. */

import { Unavailable } from "./errors.js";

const MAX_EVENT_CHARACTERS = 8 * 1024 * 1024;

/** @typedef {{id: string, name: string, data: string}} ServerSentEvent */

/**
 * Yield the events of a stream until it ends.
 *
 * @param {ReadableStream<Uint8Array>} body
 * @returns {AsyncGenerator<ServerSentEvent | null>} null for bytes that complete no event, such as heartbeats.
 */
export async function* readEvents(body) {
  const reader = body.getReader();
  const decoder = new TextDecoder();
  const parser = new EventParser();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      const events = parser.feed(decoder.decode(value, { stream: true }));
      yield* events.length > 0 ? events : [null];
    }
  } finally {
    await reader.cancel().catch(() => undefined);
  }
}

/** Splits text into events, as the HTML standard says. */
export class EventParser {
  #pending = "";
  #endedWithReturn = false;
  #id = "";
  #name = "";
  /** @type {string[]} */
  #data = [];
  #size = 0;

  /**
   * Return the events that this text completes.
   *
   * @param {string} text
   */
  feed(text) {
    if (this.#endedWithReturn && text.startsWith("\n")) text = text.slice(1);
    if (text !== "") this.#endedWithReturn = text.endsWith("\r");
    const lines = (this.#pending + text).split(/\r\n|\r|\n/);
    this.#pending = lines.pop() ?? "";
    this.#limit(this.#pending.length);
    return lines.flatMap((line) => this.#readLine(line));
  }

  /** @param {string} line @returns {ServerSentEvent[]} */
  #readLine(line) {
    if (line === "") return this.#end();
    const colon = line.indexOf(":");
    const field = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
    if (field === "data") {
      this.#size += value.length + 1;
      this.#limit(this.#size);
      this.#data.push(value);
    } else if (field === "event") this.#name = value;
    else if (field === "id" && !value.includes("\0")) this.#id = value;
    return [];
  }

  #end() {
    const event = { id: this.#id, name: this.#name || "message", data: this.#data.join("\n") };
    const isComplete = this.#data.length > 0;
    this.#name = "";
    this.#data = [];
    this.#size = 0;
    return isComplete ? [event] : [];
  }

  /** @param {number} size */
  #limit(size) {
    if (size > MAX_EVENT_CHARACTERS) throw new Unavailable("The event stream sends events without end.");
  }
}
