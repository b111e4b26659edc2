/** Verifies signed results with WebCrypto: a detached JWS over the canonical JSON of the decision. */

import { decodeBase64Url, encodeBase64Url } from "./base64.js";
import { toCanonicalJson } from "./canonical_json.js";
import { SignatureInvalid } from "./errors.js";
import { isObject } from "./exchange.js";

const NOTICED_WITHIN_MS = 60_000;
const DETACHED = /^([A-Za-z0-9_-]{1,512})\.\.([A-Za-z0-9_-]{1,1024})$/;
const DIGEST = /^[0-9a-f]{64}$/;
const HEADER_MEMBERS = "alg,kid,shown,typ";
const SIGNATURE_MEMBERS = "algorithm,signed_at,signer,value";

/** @type {Record<string, {import: any, verify: any, jwk: Record<string, string>, members: string[]}>} */
const ALGORITHMS = {
  ES256: {
    import: { name: "ECDSA", namedCurve: "P-256" },
    verify: { name: "ECDSA", hash: "SHA-256" },
    jwk: { kty: "EC", crv: "P-256" },
    members: ["x", "y"],
  },
  RS256: {
    import: { name: "RSASSA-PKCS1-v1_5", hash: "SHA-256" },
    verify: { name: "RSASSA-PKCS1-v1_5" },
    jwk: { kty: "RSA" },
    members: ["n", "e"],
  },
  EdDSA: {
    import: { name: "Ed25519" },
    verify: { name: "Ed25519" },
    jwk: { kty: "OKP", crv: "Ed25519" },
    members: ["x"],
  },
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
export async function verifyResult(poll, keys, { shown } = {}) {
  if (!isObject(poll) || poll.status !== "completed") {
    throw new SignatureInvalid("Only a completed case has a result to verify.");
  }
  if (!isObject(poll.result)) throw new SignatureInvalid("This poll response has no result.");
  const { result } = poll;
  const { header, encodedHeader, signature, signedAt } = parseSignature(result.signature);
  if (signedAt !== poll.completed_at) throw new SignatureInvalid("signed_at must be the moment of completed_at.");
  if (shown !== undefined && shown !== header.shown) {
    throw new SignatureInvalid("This is not what the person was shown.");
  }
  const payload = buildPayload(poll, result, header.shown);
  const signed = new TextEncoder().encode(`${encodedHeader}.${encodeBase64Url(payload)}`);
  const algorithm = getAlgorithm(header.alg);
  const key = await importKey(findKey(keys, header, signedAt), header.alg);
  if (!(await crypto.subtle.verify(algorithm.verify, key, signature, signed))) {
    throw new SignatureInvalid(
      "The signature does not match: case, action, data, time or key is not the one that was signed.",
    );
  }
  const { alg, kid } = header;
  return { caseId: text(poll.case_id), action: text(result.action), kid, algorithm: alg, shown: header.shown, signedAt };
}

/** @param {string} name */
function getAlgorithm(name) {
  const found = Object.hasOwn(ALGORITHMS, name) ? ALGORITHMS[name] : undefined;
  if (!found) throw new SignatureInvalid(`The algorithm must be one of ${Object.keys(ALGORITHMS).join(", ")}.`);
  return found;
}

/** @param {unknown} raw */
function parseSignature(raw) {
  if (raw == null) throw new SignatureInvalid("This result carries no signature.");
  const fields = readTexts(raw, SIGNATURE_MEMBERS, "A signature");
  const [, encodedHeader = "", tail = ""] = DETACHED.exec(fields.value ?? "") ?? [];
  const signature = decodeBase64Url(tail);
  const decoded = decodeBase64Url(encodedHeader);
  if (!encodedHeader || signature === null || decoded === null) {
    throw new SignatureInvalid("The signature's value must be a detached JWS: header..signature.");
  }
  const header = readTexts(parse(decoded), HEADER_MEMBERS, "The signature's header");
  const { alg = "", kid = "", shown = "", typ } = header;
  if (typ !== "hitl-result+jws") throw new SignatureInvalid("The signature's typ must be hitl-result+jws.");
  if (!DIGEST.test(shown)) throw new SignatureInvalid("The signature's header must carry a digest of what was shown.");
  getAlgorithm(alg);
  if (alg !== fields.algorithm) {
    throw new SignatureInvalid("The signature names one algorithm and its header another.");
  }
  return { header: { alg, kid, shown }, encodedHeader, signature, signedAt: fields.signed_at ?? "" };
}

/** @param {Record<string, unknown>} poll @param {Record<string, unknown>} result @param {string} shown */
function buildPayload(poll, result, shown) {
  const data = result.data ?? {};
  if (!isObject(data)) throw new SignatureInvalid("result.data must be an object.");
  const payload = {
    action: text(result.action),
    case_id: text(poll.case_id),
    completed_at: text(poll.completed_at),
    data,
    shown,
  };
  try {
    return new TextEncoder().encode(toCanonicalJson(payload));
  } catch (error) {
    throw new SignatureInvalid(`This cannot be a signed result: ${/** @type {Error} */ (error).message}`);
  }
}

/**
 * @param {import("./wire.js").JsonWebKeySet} keys
 * @param {{alg: string, kid: string}} header
 * @param {string} signedAt
 */
function findKey(keys, header, signedAt) {
  if (!isObject(keys) || !Array.isArray(keys.keys)) {
    throw new SignatureInvalid("The key set must be an object with a list of keys.");
  }
  const found = keys.keys.filter((key) => isObject(key) && key.kid === header.kid);
  const [key] = found;
  if (!key || found.length !== 1) throw new SignatureInvalid("The key set must have exactly one key with this kid.");
  const operations = key.key_ops ?? ["verify"];
  const isForVerification = (key.use ?? "sig") === "sig" && operations.includes("verify");
  if ((key.alg ?? header.alg) !== header.alg || !isForVerification) {
    throw new SignatureInvalid("The published key is not meant for this algorithm.");
  }
  if (key.retired_at != null && !(Date.parse(signedAt) <= Date.parse(key.retired_at) + NOTICED_WITHIN_MS)) {
    throw new SignatureInvalid(`The key was retired at ${String(key.retired_at).slice(0, 40)}, before this was signed.`);
  }
  return key;
}

/** @param {JsonWebKey} key @param {string} name */
async function importKey(key, name) {
  const algorithm = getAlgorithm(name);
  const members = Object.fromEntries(algorithm.members.map((member) => [member, key[/** @type {"x"} */ (member)]]));
  const fits = Object.entries(algorithm.jwk).every(([member, value]) => key[/** @type {"kty"} */ (member)] === value);
  try {
    if (!fits) throw new TypeError("it is another type of key");
    const jwk = { ...algorithm.jwk, ...members };
    return await crypto.subtle.importKey("jwk", jwk, algorithm.import, false, ["verify"]);
  } catch (error) {
    throw new SignatureInvalid(`The published key does not fit ${name}.`, { cause: error });
  }
}

/**
 * Return the members of an object that has exactly these, all of them text.
 *
 * @param {unknown} value @param {string} names @param {string} subject
 */
function readTexts(value, names, subject) {
  const members = isObject(value) ? Object.keys(value).sort().join(",") : "";
  if (!isObject(value) || members !== names || !Object.values(value).every((one) => typeof one === "string")) {
    throw new SignatureInvalid(`${subject} has exactly ${names.replaceAll(",", ", ")}, all of them text.`);
  }
  return /** @type {Record<string, string>} */ (value);
}

/** @param {unknown} value */
function text(value) {
  if (typeof value !== "string") throw new SignatureInvalid("Case, action and time of a signed result are text.");
  return value;
}

/** @param {Uint8Array} bytes @returns {unknown} */
function parse(bytes) {
  try {
    return JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(bytes));
  } catch {
    return undefined;
  }
}
