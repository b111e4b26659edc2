/** Verifies signed results with WebCrypto: a detached JWS over the canonical JSON of the decision. */
export type VerifiedResult = {
    caseId: string;
    action: string;
    /**
     * The key that signed.
     */
    kid: string;
    algorithm: string;
    /**
     * The digest of what the person was shown.
     */
    shown: string;
    signedAt: string;
};
/**
 * @typedef {object} VerifiedResult What a signature proves, besides `result.data`.
 * @property {string} caseId
 * @property {string} action
 * @property {string} kid The key that signed.
 * @property {string} algorithm
 * @property {string} shown The digest of what the person was shown.
 * @property {string} signedAt
 */
/**
 * Verify a completed poll response. Raises SignatureInvalid with the reason.
 *
 * Only what is returned and `result.data` are proved. `signer` is a hint: decide for yourself whose keys you
 * pass in.
 *
 * @param {unknown} poll A poll response, or the body of a callback, as parsed from JSON.
 * @param {import("./wire.js").JsonWebKeySet} keys The keys of a server that you trust.
 * @param {{shown?: string}} [options] With `shown`, this must be what the person saw.
 * @returns {Promise<VerifiedResult>}
 */
export declare function verifyResult(poll: unknown, keys: import("./wire.js").JsonWebKeySet, { shown }?: {
    shown?: string;
}): Promise<VerifiedResult>;
