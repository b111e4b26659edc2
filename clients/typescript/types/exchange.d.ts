/** One HTTP request and its JSON response, with a limit on time and size. */
import { ServerRefused } from "./errors.js";
export declare const MAX_TIMER_MS: number;
export type Fetch = (input: string, init: RequestInit) => Promise<Response>;
export type Exchange = {
    status: number;
    headers: Headers;
    /**
     * The JSON of the response; undefined for 304.
     */
    body: unknown;
};
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
export declare function exchangeJson(fetch: Fetch, url: string, init: RequestInit, { timeoutMs, signal }: {
    timeoutMs: number;
    signal?: AbortSignal | undefined;
}): Promise<Exchange>;
/**
 * Return the error for a response with an error status.
 *
 * @param {number} status @param {Headers} headers @param {unknown} body
 */
export declare function refusedError(status: number, headers: Headers, body: unknown): ServerRefused;
/**
 * Return how long a response asks to wait, in milliseconds; null if it does not say.
 *
 * @param {Headers} headers
 */
export declare function readRetryAfter(headers: Headers): number | null;
/** @param {unknown} value @returns {value is Record<string, unknown>} */
export declare function isObject(value: unknown): value is Record<string, unknown>;
/** @param {(AbortSignal | undefined)[]} signals */
export declare function joinSignals(...signals: (AbortSignal | undefined)[]): AbortSignal;
/**
 * Return after this time, or at once when the signal is aborted.
 *
 * @param {number} durationMs @param {AbortSignal} [signal]
 * @returns {Promise<void>}
 */
export declare function sleep(durationMs: number, signal?: AbortSignal): Promise<void>;
