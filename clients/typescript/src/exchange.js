/** One HTTP request and its JSON response, with a limit on time and size. */

import { PlacetError, ServerRefused, Unavailable } from "./errors.js";

const MAX_RESPONSE_BYTES = 8 * 1024 * 1024;
export const MAX_TIMER_MS = 2 ** 31 - 1;

/** @typedef {(input: string, init: RequestInit) => Promise<Response>} Fetch */

/**
 * @typedef {object} Exchange
 * @property {number} status
 * @property {Headers} headers
 * @property {unknown} body The JSON of the response; undefined for 304.
 */

/**
 * Send a request and read its JSON. Raises ServerRefused for an error response, and Unavailable if there is
 * no response that can be read.
 *
 * @param {Fetch} fetch
 * @param {string} url
 * @param {RequestInit} init
 * @param {{timeoutMs: number, signal?: AbortSignal | undefined}} limits
 * @returns {Promise<Exchange>}
 */
export async function exchangeJson(fetch, url, init, { timeoutMs, signal }) {
  const timer = AbortSignal.timeout(Math.min(timeoutMs, MAX_TIMER_MS));
  const limits = { ...init, redirect: /** @type {const} */ ("manual"), signal: joinSignals(timer, signal) };
  /** @type {Response} */
  let response;
  let text;
  try {
    response = await fetch(url, limits);
    text = response.status === 304 ? "" : await readText(response);
  } catch (error) {
    signal?.throwIfAborted();
    if (error instanceof PlacetError) throw error;
    const reason = timer.aborted ? `no response within ${timeoutMs} ms` : describe(error);
    throw new Unavailable(`${new URL(url).origin} cannot be reached: ${reason}.`, { cause: error });
  }
  const { status, headers } = response;
  if (status === 304) return { status, headers, body: undefined };
  const body = parseJson(text);
  if (status >= 400) throw refusedError(status, headers, body);
  if (status >= 300) throw new Unavailable(`${new URL(url).origin} redirects. Use the address it redirects to.`);
  if (!isObject(body)) throw new Unavailable(`${new URL(url).origin} did not return a JSON object.`);
  return { status, headers, body };
}

/**
 * Return the error for a response with an error status.
 *
 * @param {number} status @param {Headers} headers @param {unknown} body
 */
export function refusedError(status, headers, body) {
  const details = isObject(body) ? body : {};
  const code = typeof details.error === "string" ? details.error : "error";
  const message = typeof details.message === "string" ? details.message : "The server gave no reason.";
  return new ServerRefused(status, code, message, details, readRetryAfter(headers));
}

/**
 * Return how long a response asks to wait, in milliseconds; null if it does not say.
 *
 * @param {Headers} headers
 */
export function readRetryAfter(headers) {
  const said = headers.get("retry-after")?.trim() ?? "";
  if (/^\d{1,9}$/.test(said)) return Number(said) * 1000;
  const at = said ? Date.parse(said) : NaN;
  return Number.isNaN(at) ? null : Math.max(0, at - Date.now());
}

/** @param {unknown} value @returns {value is Record<string, unknown>} */
export function isObject(value) {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** @param {(AbortSignal | undefined)[]} signals */
export function joinSignals(...signals) {
  return AbortSignal.any(signals.filter((one) => one !== undefined));
}

/**
 * Return after this time, or at once when the signal is aborted.
 *
 * @param {number} durationMs @param {AbortSignal} [signal]
 * @returns {Promise<void>}
 */
export function sleep(durationMs, signal) {
  return new Promise((resolve) => {
    if (signal?.aborted) return resolve();
    const end = () => {
      clearTimeout(timer);
      signal?.removeEventListener("abort", end);
      resolve();
    };
    const timer = setTimeout(end, Math.max(0, Math.min(durationMs, MAX_TIMER_MS)));
    signal?.addEventListener("abort", end, { once: true });
  });
}

/** @param {unknown} error */
function describe(error) {
  const cause = error instanceof Error && error.cause instanceof Error ? error.cause : error;
  return cause instanceof Error ? cause.message : String(cause);
}

/** @param {Response} response */
async function readText(response) {
  if (response.body === null) return "";
  const reader = response.body.getReader();
  const decoder = new TextDecoder();
  let size = 0;
  let text = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return text + decoder.decode();
    size += value.byteLength;
    if (size > MAX_RESPONSE_BYTES) {
      await reader.cancel();
      throw new Unavailable(`The response has more than ${MAX_RESPONSE_BYTES} bytes.`);
    }
    text += decoder.decode(value, { stream: true });
  }
}

/** @param {string} text @returns {unknown} */
function parseJson(text) {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
