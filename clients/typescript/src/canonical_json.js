/** RFC 8785: the one way to write a JSON value, so that its bytes can be signed. */

import { PlacetError } from "./errors.js";

const MAX_DEPTH = 64;

/**
 * Return the canonical JSON of a value. Raises PlacetError for values without one: undefined, functions, NaN,
 * lone surrogates, and deep nesting.
 *
 * @param {unknown} value
 * @param {number} [depth]
 * @returns {string}
 */
export function toCanonicalJson(value, depth = 0) {
  if (depth > MAX_DEPTH) throw new PlacetError(`The value is nested more than ${MAX_DEPTH} levels deep.`);
  if (value === null || typeof value === "boolean") return String(value);
  if (typeof value === "number" && Number.isFinite(value)) return JSON.stringify(value);
  if (typeof value === "string" && value.isWellFormed()) return JSON.stringify(value);
  if (Array.isArray(value)) return `[${value.map((one) => toCanonicalJson(one, depth + 1)).join(",")}]`;
  if (typeof value === "object" && isPlain(value)) {
    const members = /** @type {Record<string, unknown>} */ (value);
    // The default order compares UTF-16 code units, as RFC 8785 requires.
    const names = Object.keys(members).sort();
    const written = names.map((name) => `${toCanonicalJson(name)}:${toCanonicalJson(members[name], depth + 1)}`);
    return `{${written.join(",")}}`;
  }
  throw new PlacetError("The value is not plain JSON: text, finite numbers, true, false, null, lists and objects.");
}

/** @param {object} value */
function isPlain(value) {
  const prototype = Object.getPrototypeOf(value);
  return prototype === null || Object.getPrototypeOf(prototype) === null;
}
