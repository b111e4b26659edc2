/** Verifies callbacks: the HMAC of Standard Webhooks, or that of `X-HITL-Signature`. */
export type CallbackOptions = {
    /**
     * The secrets of this address; two while one is rotated.
     */
    secrets: string[];
    now?: Date;
    /**
     * How far the time of a callback may be from now; 5 minutes by default.
     */
    toleranceMs?: number;
    /**
     * Whether `X-HITL-Signature` alone is enough. It covers neither id nor
     * time, so a captured callback can be sent again. No by default: Placet signs in both schemes.
     */
    acceptUntimed?: boolean;
};
/**
 * @typedef {object} CallbackOptions
 * @property {string[]} secrets The secrets of this address; two while one is rotated.
 * @property {Date} [now]
 * @property {number} [toleranceMs] How far the time of a callback may be from now; 5 minutes by default.
 * @property {boolean} [acceptUntimed] Whether `X-HITL-Signature` alone is enough. It covers neither id nor
 *   time, so a captured callback can be sent again. No by default: Placet signs in both schemes.
 */
/**
 * Check a callback and return its message id, or null if only `X-HITL-Signature` signs it. Raises
 * SignatureInvalid with the reason. The same message may come more than once: remember its id.
 *
 * @param {Uint8Array | string} body The raw body, before it is parsed.
 * @param {Headers | Record<string, string | string[] | undefined>} headers
 * @param {CallbackOptions} options
 * @returns {Promise<string | null>}
 */
export declare function verifyCallback(body: Uint8Array | string, headers: Headers | Record<string, string | string[] | undefined>, options: CallbackOptions): Promise<string | null>;
