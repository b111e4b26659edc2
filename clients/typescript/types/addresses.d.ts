/** Which addresses a credential may be sent to. */
/**
 * Return the address, which is https or on loopback. Raises PlacetError for others.
 *
 * @param {string | URL} address
 * @param {string} name What the address is called in the error.
 */
export declare function requireSecureAddress(address: string | URL, name: string): URL;
