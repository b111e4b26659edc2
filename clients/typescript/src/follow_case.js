/** The agent's side: wait for the case that a service opened, at the addresses that the service gave. */

import { requireSecureAddress } from "./addresses.js";
import { PlacetError } from "./errors.js";
import { isObject } from "./exchange.js";
import { waitForEnd } from "./following.js";

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
export function followCase(asked, options) {
  const { origins, credential, fetch = globalThis.fetch, requestTimeoutMs = 10_000, ...wait } = options;
  const hitl = isObject(asked) && "hitl" in asked ? asked.hitl : asked;
  if (!isObject(hitl)) throw new PlacetError("This is not a 202 response of the HITL Protocol: it has no hitl object.");
  const trusted = new Set(origins.map((origin) => requireSecureAddress(origin, "origins").origin));
  const pollUrl = requireTrusted(hitl.poll_url, "poll_url", trusted);
  const eventsUrl = hitl.events_url == null ? null : requireTrusted(hitl.events_url, "events_url", trusted);
  const headers = credential === undefined ? {} : { Authorization: `Bearer ${credential}` };
  const address = {
    pollUrl,
    eventsUrl,
    headers: { ...headers, Accept: "application/json" },
    fetch: /** @type {import("./exchange.js").Fetch} */ ((url, init) => fetch(url, init)),
    requestTimeoutMs,
  };
  return waitForEnd(address, wait);
}

/** @param {unknown} address @param {string} name @param {Set<string>} trusted */
function requireTrusted(address, name, trusted) {
  const url = requireSecureAddress(typeof address === "string" ? address : "", name);
  if (!trusted.has(url.origin)) {
    throw new PlacetError(`${name} is at ${url.origin}, which is not in origins. Add it if you trust it.`);
  }
  return url.href;
}
