/** The errors of this package. All of them are a PlacetError. */
export declare class PlacetError extends Error {
    /** @param {string} message @param {ErrorOptions} [options] */
    constructor(message: string, options?: ErrorOptions);
}
/** The server answered with an error. */
export declare class ServerRefused extends PlacetError {
    status: number;
    code: string;
    details: Record<string, unknown>;
    retryAfterMs: number | null;
    /**
     * @param {number} status The HTTP status.
     * @param {string} code The code of the error, such as `not_found`.
     * @param {string} message What is wrong, and what to do.
     * @param {Record<string, unknown>} details The whole body.
     * @param {number | null} retryAfterMs How long to wait before the next request, if the server said so.
     */
    constructor(status: number, code: string, message: string, details?: Record<string, unknown>, retryAfterMs?: number | null);
}
/** The server could not be reached, or its response could not be read. Nothing is known about the case. */
export declare class Unavailable extends PlacetError {
}
/** A signature of a result or of a callback is missing, malformed or wrong. */
export declare class SignatureInvalid extends PlacetError {
}
/** A call was not approved, so it did not run. */
export declare class NotApproved extends PlacetError {
    reason: "waiting" | import("./tool_approvals.js").NotRunReason;
    /**
     * @param {string} message What the model may read.
     * @param {import("./tool_approvals.js").NotRunReason | "waiting"} reason
     */
    constructor(message: string, reason: import("./tool_approvals.js").NotRunReason | "waiting");
}
