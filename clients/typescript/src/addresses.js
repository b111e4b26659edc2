/** Which addresses a credential may be sent to. */

import { PlacetError } from "./errors.js";

const LOOPBACK = new Set(["localhost", "127.0.0.1", "[::1]"]);

/**
 * Return the address, which is https or on loopback. Raises PlacetError for others.
 *
 * @param {string | URL} address
 * @param {string} name What the address is called in the error.
 */
export function requireSecureAddress(address, name) {
  let url;
  try {
    url = new URL(address);
  } catch {
    throw new PlacetError(`${name} is not an absolute URL.`);
  }
  const isLoopback = url.protocol === "http:" && LOOPBACK.has(url.hostname);
  if (url.protocol !== "https:" && !isLoopback) {
    throw new PlacetError(`${name} must be https://… or on loopback, since a credential is sent to it.`);
  }
  if (url.username || url.password) {
    throw new PlacetError(`${name} must not contain a user name or a password.`);
  }
  return url;
}
