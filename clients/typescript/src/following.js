/** Waits for the end of a case: by its event stream where there is one, and by polling otherwise. */

import { Unavailable, ServerRefused } from "./errors.js";
import { readEvents } from "./event_stream.js";
import { exchangeJson, isObject, joinSignals, readRetryAfter, refusedError, sleep } from "./exchange.js";
import { hasEnded } from "./wire.js";

const TERMINAL_EVENTS = new Set(["review.completed", "review.expired", "review.cancelled"]);
const MAX_SILENCE_MS = 60_000;
const MAX_FAILURES = 10;
const MAX_PAUSE_MS = 60_000;
const STATUSES = new Set(["pending", "opened", "in_progress", "completed", "expired", "cancelled"]);

/**
 * @typedef {import("./wire.js").Poll} Poll
 * @typedef {import("./wire.js").CaseEvent} CaseEvent
 *
 * @typedef {object} CaseAddress Where and how the state of one case is read.
 * @property {string} pollUrl
 * @property {string | null} eventsUrl
 * @property {Record<string, string>} headers
 * @property {import("./exchange.js").Fetch} fetch
 * @property {number} requestTimeoutMs
 *
 * @typedef {object} WaitOptions
 * @property {number} [timeoutMs] How long to wait; by default until the case ends.
 * @property {number} [intervalMs] How often to poll where there is no event stream; the server's
 *   `Retry-After` counts if it is longer.
 * @property {AbortSignal} [signal] Aborts the wait.
 */

/**
 * Return the last poll response: that of an ended case, or an open one when `timeoutMs` is over.
 *
 * A short outage is waited out. Raises ServerRefused for a case that cannot be read, Unavailable after a long
 * outage, and the reason of `signal` when it is aborted.
 *
 * @param {CaseAddress} address
 * @param {WaitOptions} [options]
 * @returns {Promise<Poll>}
 */
export async function waitForEnd(address, { timeoutMs = Infinity, intervalMs = 2_000, signal } = {}) {
  const deadline = Date.now() + timeoutMs;
  const reading = { etag: "", failures: 0, hasStream: address.eventsUrl !== null };
  /** @type {Poll | null} */
  let last = null;
  for (;;) {
    signal?.throwIfAborted();
    const { poll, pauseMs } = await readState(address, reading, signal);
    last = poll ?? last;
    if (last !== null && hasEnded(last)) return last;
    const leftMs = deadline - Date.now();
    if (leftMs <= 0 && last !== null) return last;
    const waitMs = Math.max(0, Math.min(leftMs, Math.max(pauseMs, intervalMs)));
    if (!reading.hasStream || reading.failures > 0) await sleep(waitMs, signal);
    else reading.hasStream = await followStream(address, leftMs, signal);
  }
}

/**
 * Poll once.
 *
 * @param {CaseAddress} address
 * @param {string} [etag]
 * @param {AbortSignal} [signal]
 */
export async function pollOnce(address, etag = "", signal) {
  const headers = etag ? { ...address.headers, "If-None-Match": etag } : address.headers;
  const limits = { timeoutMs: address.requestTimeoutMs, signal };
  const response = await exchangeJson(address.fetch, address.pollUrl, { headers }, limits);
  return {
    poll: response.body === undefined ? null : readPoll(response.body),
    etag: response.headers.get("etag") ?? "",
    pauseMs: readRetryAfter(response.headers) ?? 0,
  };
}

/**
 * Yield the events of a case as they happen, until it ends. A lost connection is made again, and what was
 * missed is sent again.
 *
 * @param {CaseAddress} address
 * @param {{lastEventId?: string, signal?: AbortSignal | undefined}} [options]
 * @returns {AsyncGenerator<CaseEvent>}
 */
export async function* streamEvents(address, { lastEventId = "", signal } = {}) {
  let failures = 0;
  while (failures < MAX_FAILURES) {
    signal?.throwIfAborted();
    try {
      for await (const event of openStream(address, lastEventId, signal)) {
        failures = 0;
        if (event === null) continue;
        lastEventId = event.id || lastEventId;
        yield event;
        if (TERMINAL_EVENTS.has(event.name)) return;
      }
      failures += 1;
    } catch (error) {
      signal?.throwIfAborted();
      if (!isPassing(error)) throw error;
      failures += 1;
    }
    await sleep(Math.min(500 * 2 ** failures, MAX_PAUSE_MS), signal);
  }
  throw new Unavailable(`The events of this case cannot be read: ${MAX_FAILURES} connections were lost.`);
}

/**
 * @param {CaseAddress} address
 * @param {{etag: string, failures: number}} reading What is known from earlier polls; changed by this one.
 * @param {AbortSignal | undefined} signal
 */
async function readState(address, reading, signal) {
  try {
    const found = await pollOnce(address, reading.etag, signal);
    reading.etag = found.etag;
    reading.failures = 0;
    return found;
  } catch (error) {
    signal?.throwIfAborted();
    if (!isPassing(error)) throw error;
    // A 429 says that the case is open and that we ask too often; it is no outage.
    const isLimited = error instanceof ServerRefused && error.status === 429;
    reading.failures += 1;
    if (!isLimited && reading.failures >= MAX_FAILURES) throw error;
    const asked = error instanceof ServerRefused ? (error.retryAfterMs ?? 0) : 0;
    return { poll: null, pauseMs: Math.max(asked, Math.min(500 * 2 ** reading.failures, MAX_PAUSE_MS)) };
  }
}

/**
 * Follow the stream until the case ends, the stream ends, or the time is over. Return whether a stream can be
 * opened again.
 *
 * @param {CaseAddress} address @param {number} leftMs @param {AbortSignal | undefined} signal
 */
async function followStream(address, leftMs, signal) {
  const ended = new AbortController();
  const timer = sleep(leftMs, ended.signal).then(() => ended.abort());
  const started = Date.now();
  try {
    for await (const event of openStream(address, "", joinSignals(signal, ended.signal))) {
      if (event !== null && TERMINAL_EVENTS.has(event.name)) return true;
    }
  } catch {
    signal?.throwIfAborted();
  } finally {
    ended.abort();
    await timer;
  }
  // A server that ends streams at once is polled instead.
  return Date.now() - started > 1_000;
}

/**
 * @param {CaseAddress} address @param {string} lastEventId @param {AbortSignal | undefined} signal
 * @returns {AsyncGenerator<CaseEvent | null>}
 */
async function* openStream(address, lastEventId, signal) {
  const silence = new AbortController();
  let timer = setTimeout(() => silence.abort(), MAX_SILENCE_MS);
  try {
    const resumed = lastEventId ? { "Last-Event-ID": lastEventId } : {};
    const response = await address.fetch(address.eventsUrl ?? "", {
      headers: { ...address.headers, ...resumed, Accept: "text/event-stream" },
      redirect: "manual",
      signal: joinSignals(signal, silence.signal),
    });
    const isStream = response.headers.get("content-type")?.startsWith("text/event-stream") ?? false;
    if (response.status !== 200 || !isStream || response.body === null) {
      await response.body?.cancel();
      if (response.status >= 400) throw refusedError(response.status, response.headers, undefined);
      throw new Unavailable("The events URL does not return an event stream.");
    }
    for await (const event of readEvents(response.body)) {
      clearTimeout(timer);
      timer = setTimeout(() => silence.abort(), MAX_SILENCE_MS);
      yield event === null ? null : { id: event.id, name: event.name, data: parseData(event.data) };
    }
  } catch (error) {
    signal?.throwIfAborted();
    if (error instanceof ServerRefused || error instanceof Unavailable) throw error;
    throw new Unavailable("The event stream was lost.", { cause: error });
  } finally {
    clearTimeout(timer);
  }
}

/** @param {string} text @returns {Record<string, unknown>} */
function parseData(text) {
  try {
    const data = JSON.parse(text);
    return isObject(data) ? data : {};
  } catch {
    return {};
  }
}

/** @param {unknown} body @returns {Poll} */
function readPoll(body) {
  const found = /** @type {any} */ (body);
  const isPoll = STATUSES.has(found.status) && typeof found.case_id === "string";
  const hasResult = found.status !== "completed" || (isObject(found.result) && typeof found.result.action === "string");
  if (!isPoll || !hasResult) throw new Unavailable("The poll URL did not return the state of a case.");
  return found;
}

/** Return whether an error may be gone at the next try. @param {unknown} error */
function isPassing(error) {
  return error instanceof ServerRefused ? error.status === 429 || error.status >= 500 : error instanceof Unavailable;
}
