/** A client for services and agents that open cases on a Placet server. */

import { requireSecureAddress } from "./addresses.js";
import { readAgentRequest } from "./agent_request.js";
import { PlacetError } from "./errors.js";
import { exchangeJson } from "./exchange.js";
import { pollOnce, streamEvents, waitForEnd } from "./following.js";

/**
 * @typedef {import("./wire.js").CallReceipt} CallReceipt
 * @typedef {import("./wire.js").CaseDraft} CaseDraft
 * @typedef {import("./wire.js").CaseEvent} CaseEvent
 * @typedef {import("./wire.js").CaseList} CaseList
 * @typedef {import("./wire.js").HumanInputRequired} HumanInputRequired
 * @typedef {import("./wire.js").JsonWebKeySet} JsonWebKeySet
 * @typedef {import("./wire.js").Poll} Poll
 *
 * @typedef {object} ClientOptions
 * @property {import("./exchange.js").Fetch} [fetch] What sends the requests, in place of the global `fetch`.
 * @property {number} [timeoutMs] How long one request may take; 10 seconds by default.
 *
 * @typedef {object} OpenOptions
 * @property {string} [idempotencyKey] A name for this request: repeated, it returns the first response.
 * @property {import("./agent_request.js").AgentRequest} [agentRequest] The request that the agent sent to you.
 *   With the credential in it, the agent may poll and stream the case; the server gets its digest only. The
 *   `hitl_callback_url` of its JSON body is called back if that is possible.
 */

/**
 * Opens, follows and withdraws cases. Methods raise ServerRefused for an error response, and Unavailable if
 * the server cannot be reached.
 */
export class PlacetClient {
  #base;
  #headers;
  #fetch;
  #timeoutMs;

  /**
   * @param {string} baseUrl The address of the server: https, or on loopback.
   * @param {string} key An API key of the server.
   * @param {ClientOptions} [options]
   */
  constructor(baseUrl, key, { fetch = globalThis.fetch, timeoutMs = 10_000 } = {}) {
    const base = requireSecureAddress(baseUrl, "baseUrl");
    if (base.search || base.hash) throw new PlacetError("baseUrl must not have a query or a fragment.");
    if (!/^[!-~]+$/.test(key ?? "")) {
      throw new PlacetError("key is not an API key: it must be printable ASCII characters on one line.");
    }
    this.#base = base.href.replace(/\/+$/, "");
    this.#headers = { Authorization: `Bearer ${key}`, Accept: "application/json" };
    this.#fetch = /** @type {import("./exchange.js").Fetch} */ ((url, init) => fetch(url, init));
    this.#timeoutMs = timeoutMs;
  }

  /**
   * Open a case; return the 202 body, to be passed to the agent unchanged.
   *
   * @param {CaseDraft} draft
   * @param {OpenOptions} [options]
   * @returns {Promise<HumanInputRequired>}
   */
  async open(draft, { idempotencyKey, agentRequest } = {}) {
    const headers = nameRequest(idempotencyKey);
    const asked = agentRequest === undefined ? {} : await readAgentRequest(agentRequest);
    return this.#send("POST", "/v1/cases", { ...asked, ...draft }, headers);
  }

  /**
   * Return the state of a case.
   *
   * @param {string} caseId
   * @returns {Promise<Poll>}
   */
  async status(caseId) {
    const { poll } = await pollOnce(this.#addressOf(caseId));
    return /** @type {Poll} */ (poll);
  }

  /**
   * Wait until the case has ended or `timeoutMs` is over; return the last state. The event stream says when
   * the case ends; without one, the case is polled.
   *
   * @param {string} caseId
   * @param {import("./following.js").WaitOptions} [options]
   * @returns {Promise<Poll>}
   */
  wait(caseId, options) {
    return waitForEnd(this.#addressOf(caseId), options);
  }

  /**
   * Yield the events of a case until it has ended.
   *
   * @param {string} caseId
   * @param {{lastEventId?: string, signal?: AbortSignal}} [options]
   * @returns {AsyncGenerator<CaseEvent>}
   */
  events(caseId, options) {
    return streamEvents(this.#addressOf(caseId), options);
  }

  /**
   * Return a page of your cases, newest first.
   *
   * @param {{status?: import("./wire.js").CaseStatus, before?: string, limit?: number}} [options]
   * @returns {Promise<CaseList>}
   */
  cases({ status, before, limit = 50 } = {}) {
    const query = new URLSearchParams({ limit: String(limit) });
    if (status !== undefined) query.set("status", status);
    if (before !== undefined) query.set("before", before);
    return this.#send("GET", `/v1/reviews?${query}`);
  }

  /**
   * Withdraw a case.
   *
   * @param {string} caseId @param {{reason?: string}} [options]
   * @returns {Promise<Poll>}
   */
  cancel(caseId, { reason } = {}) {
    return this.#send("POST", `${pathOf(caseId)}/cancel`, reason === undefined ? {} : { reason });
  }

  /**
   * Send what a person answered on your own page, the `review_url` of the case.
   *
   * @param {string} caseId @param {string} action @param {Record<string, unknown>} [data]
   * @param {{respondedBy?: {name?: string, email?: string}, idempotencyKey?: string}} [options] `respondedBy`: who
   *   answered, if you have verified it.
   * @returns {Promise<Poll>}
   */
  answer(caseId, action, data = {}, { respondedBy, idempotencyKey } = {}) {
    const who = respondedBy === undefined ? {} : { responded_by: respondedBy };
    return this.#send("POST", `${pathOf(caseId)}/answer`, { action, data, ...who }, nameRequest(idempotencyKey));
  }

  /**
   * Report what became of the calls of a decided case; the first receipt of each call counts. Returns all
   * receipts of the case.
   *
   * @param {string} caseId @param {CallReceipt[]} receipts
   * @returns {Promise<{receipts: CallReceipt[]}>}
   */
  reportCalls(caseId, receipts) {
    return this.#send("POST", `${pathOf(caseId)}/receipts`, { receipts });
  }

  /**
   * Register a callback address, or read its secrets, which sign what it receives.
   *
   * @param {string} url
   * @returns {Promise<{url: string, secrets: string[], created_at: string}>}
   */
  registerCallback(url) {
    return this.#send("POST", "/v1/callbacks", { url });
  }

  /**
   * Return the public keys of the server, for `verifyResult`. Fetch them once.
   *
   * @returns {Promise<JsonWebKeySet>}
   */
  keys() {
    return this.#send("GET", "/.well-known/jwks.json");
  }

  /**
   * @param {string} method @param {string} path @param {object} [body] @param {Record<string, string>} [headers]
   * @returns {Promise<any>}
   */
  async #send(method, path, body, headers = {}) {
    const typed = body === undefined ? headers : { ...headers, "Content-Type": "application/json" };
    const init = { method, headers: { ...this.#headers, ...typed } };
    const request = body === undefined ? init : { ...init, body: JSON.stringify(body) };
    const limits = { timeoutMs: this.#timeoutMs };
    return (await exchangeJson(this.#fetch, this.#base + path, request, limits)).body;
  }

  /** @param {string} caseId @returns {import("./following.js").CaseAddress} */
  #addressOf(caseId) {
    return {
      pollUrl: `${this.#base}${pathOf(caseId)}/status`,
      eventsUrl: `${this.#base}${pathOf(caseId)}/events`,
      headers: this.#headers,
      fetch: this.#fetch,
      requestTimeoutMs: this.#timeoutMs,
    };
  }
}

/** @param {string | undefined} key @returns {Record<string, string>} */
function nameRequest(key) {
  if (key === undefined) return {};
  if (/^[ -~]{1,255}$/.test(key)) return { "Idempotency-Key": key };
  throw new PlacetError("idempotencyKey must be 1 to 255 printable ASCII characters: it is sent as a header.");
}

/** @param {string} caseId */
function pathOf(caseId) {
  if (!/^[A-Za-z0-9_-]{1,100}$/.test(caseId)) throw new PlacetError("caseId is not the id of a case.");
  return `/v1/reviews/${caseId}`;
}
