/** The agent's side: wait for the case that a service opened, at the addresses that the service gave. */
export type FollowOptions = {
    /**
     * The origins that may get the credential: that of the service which you called,
     * and those that you trust.
     */
    origins: string[];
    /**
     * The credential with which you called the service, sent as Bearer token.
     */
    credential?: string;
    fetch?: import("./exchange.js").Fetch;
    /**
     * How long one request may take; 10 seconds by default.
     */
    requestTimeoutMs?: number;
};
/**
 * @typedef {object} FollowOptions
 * @property {string[]} origins The origins that may get the credential: that of the service which you called,
 *   and those that you trust.
 * @property {string} [credential] The credential with which you called the service, sent as Bearer token.
 * @property {import("./exchange.js").Fetch} [fetch]
 * @property {number} [requestTimeoutMs] How long one request may take; 10 seconds by default.
 */
/**
 * Wait until the case of a 202 response has ended or `timeoutMs` is over; return the last state.
 *
 * Raises PlacetError if the addresses of the case are not at one of the origins.
 *
 * @param {import("./wire.js").Hitl | import("./wire.js").HumanInputRequired} asked
 * @param {FollowOptions & import("./following.js").WaitOptions} options
 * @returns {Promise<import("./wire.js").Poll>}
 */
export declare function followCase(asked: import("./wire.js").Hitl | import("./wire.js").HumanInputRequired, options: FollowOptions & import("./following.js").WaitOptions): Promise<import("./wire.js").Poll>;
