/** The errors of this package. All of them are a PlacetError. */

export class PlacetError extends Error {
  /** @param {string} message @param {ErrorOptions} [options] */
  constructor(message, options) {
    super(message, options);
    this.name = new.target.name;
  }
}

/** The server answered with an error. */
export class ServerRefused extends PlacetError {
  /**
   * @param {number} status The HTTP status.
   * @param {string} code The code of the error, such as `not_found`.
   * @param {string} message What is wrong, and what to do.
   * @param {Record<string, unknown>} details The whole body.
   * @param {number | null} retryAfterMs How long to wait before the next request, if the server said so.
   */
  constructor(status, code, message, details = {}, retryAfterMs = null) {
    super(`${status} ${code}: ${message}`);
    this.status = status;
    this.code = code;
    this.details = details;
    this.retryAfterMs = retryAfterMs;
  }
}

/** The server could not be reached, or its response could not be read. Nothing is known about the case. */
export class Unavailable extends PlacetError {}

/** A signature of a result or of a callback is missing, malformed or wrong. */
export class SignatureInvalid extends PlacetError {}

/** A call was not approved, so it did not run. */
export class NotApproved extends PlacetError {
  /**
   * @param {string} message What the model may read.
   * @param {import("./tool_approvals.js").NotRunReason | "waiting"} reason
   */
  constructor(message, reason) {
    super(message);
    this.reason = reason;
  }
}
