/** Waits for the end of a case: by its event stream where there is one, and by polling otherwise. */
export type Poll = import("./wire.js").Poll;
export type CaseEvent = import("./wire.js").CaseEvent;
export type CaseAddress = {
    pollUrl: string;
    eventsUrl: string | null;
    headers: Record<string, string>;
    fetch: import("./exchange.js").Fetch;
    requestTimeoutMs: number;
};
export type WaitOptions = {
    /**
     * How long to wait; by default until the case ends.
     */
    timeoutMs?: number;
    /**
     * How often to poll where there is no event stream; the server's
     * `Retry-After` counts if it is longer.
     */
    intervalMs?: number;
    /**
     * Aborts the wait.
     */
    signal?: AbortSignal;
};
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
export declare function waitForEnd(address: CaseAddress, { timeoutMs, intervalMs, signal }?: WaitOptions): Promise<Poll>;
/**
 * Poll once.
 *
 * @param {CaseAddress} address
 * @param {string} [etag]
 * @param {AbortSignal} [signal]
 */
export declare function pollOnce(address: CaseAddress, etag?: string, signal?: AbortSignal): Promise<{
    poll: import("./wire.js").Poll | null;
    etag: string;
    pauseMs: number;
}>;
/**
 * Yield the events of a case as they happen, until it ends. A lost connection is made again, and what was
 * missed is sent again.
 *
 * @param {CaseAddress} address
 * @param {{lastEventId?: string, signal?: AbortSignal | undefined}} [options]
 * @returns {AsyncGenerator<CaseEvent>}
 */
export declare function streamEvents(address: CaseAddress, { lastEventId, signal }?: {
    lastEventId?: string;
    signal?: AbortSignal | undefined;
}): AsyncGenerator<CaseEvent>;
