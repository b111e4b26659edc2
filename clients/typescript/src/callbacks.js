/** Verifies callbacks: the HMAC of Standard Webhooks, or that of `X-HITL-Signature`. */

import { decodeBase64 } from "./base64.js";
import { SignatureInvalid } from "./errors.js";

const STANDARD_HEADERS = /** @type {const} */ (["webhook-id", "webhook-timestamp", "webhook-signature"]);
const HITL_HEADER = "x-hitl-signature";
const PREFIX = "whsec_";
const HMAC = { name: "HMAC", hash: "SHA-256" };

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
export async function verifyCallback(body, headers, options) {
  const { secrets, now = new Date(), toleranceMs = 300_000, acceptUntimed = false } = options;
  const bytes = typeof body === "string" ? new TextEncoder().encode(body) : body;
  const found = lowerNames(headers);
  const usable = secrets.filter((secret) => secret !== "");
  if (STANDARD_HEADERS.some((name) => found.has(name))) {
    return verifyStandard(bytes, found, usable, now, toleranceMs);
  }
  if (!acceptUntimed) throw new SignatureInvalid("The callback carries no Standard Webhooks headers.");
  await verifyHitl(bytes, found, usable);
  return null;
}

/**
 * @param {Uint8Array} body @param {Map<string, string>} headers @param {string[]} secrets
 * @param {Date} now @param {number} toleranceMs
 */
async function verifyStandard(body, headers, secrets, now, toleranceMs) {
  const missing = STANDARD_HEADERS.filter((name) => !headers.has(name));
  if (missing.length > 0) throw new SignatureInvalid(`The callback lacks ${missing.join(", ")}.`);
  const [id = "", timestamp = "", signatures = ""] = STANDARD_HEADERS.map((name) => headers.get(name));
  // No full stop: the part of an id after it could be read as a timestamp.
  if (!/^[!-\-/-~]{1,256}$/.test(id)) throw new SignatureInvalid("The webhook-id is malformed.");
  if (!/^[0-9]{1,12}$/.test(timestamp)) throw new SignatureInvalid("The webhook-timestamp is not in whole seconds.");
  const keys = secrets.map(decodeSecret).filter((key) => key !== null);
  const offered = signatures.split(" ").map((one) => (one.startsWith("v1,") ? decodeBase64(one.slice(3)) : null));
  await requireMatch(keys, joinBytes(new TextEncoder().encode(`${id}.${timestamp}.`), body), offered, "webhook-signature");
  if (!(Math.abs(now.getTime() - Number(timestamp) * 1000) <= toleranceMs)) {
    throw new SignatureInvalid("The webhook-timestamp is too far from the present.");
  }
  return id;
}

/** @param {Uint8Array} body @param {Map<string, string>} headers @param {string[]} secrets */
async function verifyHitl(body, headers, secrets) {
  const signatures = headers.get(HITL_HEADER);
  if (signatures === undefined) throw new SignatureInvalid("The callback carries no signature.");
  const keys = secrets.map((secret) => new TextEncoder().encode(secret));
  const offered = signatures.split(",").map((one) => decodeHex(one.trim().toLowerCase()));
  await requireMatch(keys, body, offered, "X-HITL-Signature");
}

/**
 * @param {Uint8Array[]} keys @param {Uint8Array} signed @param {(Uint8Array | null)[]} offered
 * @param {string} header
 */
async function requireMatch(keys, signed, offered, header) {
  if (keys.length === 0) throw new SignatureInvalid(`None of the secrets can check ${header}.`);
  let matches = false;
  for (const raw of keys) {
    const key = await crypto.subtle.importKey("raw", toBuffer(raw), HMAC, false, ["verify"]);
    for (const signature of offered) {
      // WebCrypto compares in constant time.
      const isValid = signature !== null && (await crypto.subtle.verify("HMAC", key, toBuffer(signature), toBuffer(signed)));
      matches = matches || isValid;
    }
  }
  if (!matches) throw new SignatureInvalid(`No signature in ${header} matches.`);
}

/** @param {string} secret */
function decodeSecret(secret) {
  const key = secret.startsWith(PREFIX) ? decodeBase64(secret.slice(PREFIX.length)) : null;
  return key !== null && key.length >= 24 && key.length <= 64 ? key : null;
}

/** @param {string} text */
function decodeHex(text) {
  const hex = /^sha256=([0-9a-f]{64})$/.exec(text)?.[1];
  return hex === undefined ? null : Uint8Array.from(hex.match(/../g) ?? [], (pair) => parseInt(pair, 16));
}

/** @param {Uint8Array} first @param {Uint8Array} second */
function joinBytes(first, second) {
  const joined = new Uint8Array(first.length + second.length);
  joined.set(first);
  joined.set(second, first.length);
  return joined;
}

/** @param {Uint8Array} bytes @returns {Uint8Array<ArrayBuffer>} */
function toBuffer(bytes) {
  return new Uint8Array(bytes);
}

/** @param {Headers | Record<string, string | string[] | undefined>} headers */
function lowerNames(headers) {
  /** @type {Map<string, string>} */
  const found = new Map();
  for (const [name, value] of headers instanceof Headers ? headers.entries() : Object.entries(headers)) {
    if (value === undefined) continue;
    const lowered = name.toLowerCase();
    if (typeof value !== "string" || (found.get(lowered) ?? value) !== value) {
      const isOurs = lowered === HITL_HEADER || STANDARD_HEADERS.some((one) => one === lowered);
      if (isOurs) throw new SignatureInvalid(`The callback carries two different ${lowered} headers.`);
      continue;
    }
    found.set(lowered, value);
  }
  return found;
}
