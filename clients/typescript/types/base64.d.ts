/** Base64 and base64url. */
/**
 * Return the bytes of strict base64; null for anything else.
 *
 * @param {string} text
 */
export declare function decodeBase64(text: string): Uint8Array<ArrayBuffer> | null;
/**
 * Return the bytes of base64url without padding; null for anything else.
 *
 * @param {string} text
 */
export declare function decodeBase64Url(text: string): Uint8Array<ArrayBuffer> | null;
/**
 * Return base64url without padding.
 *
 * @param {Uint8Array} bytes
 */
export declare function encodeBase64Url(bytes: Uint8Array): string;
