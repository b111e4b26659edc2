/** What a service passes on of an agent's request, so that the agent can follow the case itself. */

import { PlacetError } from "./errors.js";
import { isObject } from "./exchange.js";

const MAX_URL_LENGTH = 2048;
const MAX_BODY_BYTES = 1024 * 1024;

/**
 * @typedef {Request | {
 *   headers: Headers | Record<string, string | string[] | undefined>, body?: unknown
 * }} AgentRequest
 *   A `Request`, or a request of Express or Node.js: `headers`, and the parsed `body` if there is one.
 */

/**
 * Return the fields `reader` and `hitl_callback_url` of a draft, as far as the request has them. The body of
 * a `Request` is read from a copy, unless it has been read already.
 *
 * @param {AgentRequest} request
 * @returns {Promise<Pick<import("./wire.js").CaseDraft, "reader" | "hitl_callback_url">>}
 */
export async function readAgentRequest(request) {
  if (!isObject(request) || !isObject(request.headers)) {
    throw new PlacetError("agentRequest must be a Request, or an object with headers.");
  }
  const credential = readCredential(/** @type {AgentRequest} */ (request));
  const callbackUrl = await readCallbackUrl(/** @type {AgentRequest} */ (request));
  return {
    ...(credential ? { reader: { bearer_sha256: await digest(credential) } } : {}),
    ...(callbackUrl ? { hitl_callback_url: callbackUrl } : {}),
  };
}

/** @param {AgentRequest} request */
function readCredential({ headers }) {
  const authorization = readHeader(headers, "authorization");
  const bearer = /^bearer +(.+)$/i.exec(authorization);
  return bearer ? (bearer[1] ?? "").trim() : readHeader(headers, "x-api-key");
}

/** @param {AgentRequest["headers"]} headers @param {string} name */
function readHeader(headers, name) {
  if (headers instanceof Headers) return headers.get(name) ?? "";
  const found = Object.entries(headers).find(([key]) => key.toLowerCase() === name)?.[1];
  return typeof found === "string" ? found : "";
}

/** @param {AgentRequest} request */
async function readCallbackUrl(request) {
  const body = request instanceof Request ? await readJson(request) : request.body;
  const found = isObject(body) ? body.hitl_callback_url : undefined;
  return typeof found === "string" && found.length <= MAX_URL_LENGTH ? found : "";
}

/** @param {Request} request @returns {Promise<unknown>} */
async function readJson(request) {
  const isJson = /^application\/([\w.+-]+\+)?json\b/i.test(request.headers.get("content-type") ?? "");
  const size = Number(request.headers.get("content-length") ?? 0);
  if (!isJson || request.bodyUsed || request.body?.locked || size > MAX_BODY_BYTES) return undefined;
  try {
    return await request.clone().json();
  } catch {
    return undefined;
  }
}

/** @param {string} text */
async function digest(text) {
  const hashed = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(text));
  return Array.from(new Uint8Array(hashed), (byte) => byte.toString(16).padStart(2, "0")).join("");
}
