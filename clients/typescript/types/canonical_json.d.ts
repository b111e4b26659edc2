/** RFC 8785: the one way to write a JSON value, so that its bytes can be signed. */
/**
 * Return the canonical JSON of a value. Raises PlacetError for values without one: undefined, functions, NaN,
 * lone surrogates, and deep nesting.
 *
 * @param {unknown} value
 * @param {number} [depth]
 * @returns {string}
 */
export declare function toCanonicalJson(value: unknown, depth?: number): string;
