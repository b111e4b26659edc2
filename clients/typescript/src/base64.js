/** Base64 and base64url. */

/**
 * Return the bytes of strict base64; null for anything else.
 *
 * @param {string} text
 */
export function decodeBase64(text) {
  if (text.length % 4 !== 0 || !/^[A-Za-z0-9+/]*={0,2}$/.test(text)) return null;
  return Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
}

/**
 * Return the bytes of base64url without padding; null for anything else.
 *
 * @param {string} text
 */
export function decodeBase64Url(text) {
  if (!/^[A-Za-z0-9_-]*$/.test(text) || text.length % 4 === 1) return null;
  return decodeBase64(text.replace(/-/g, "+").replace(/_/g, "/").padEnd(Math.ceil(text.length / 4) * 4, "="));
}

/**
 * Return base64url without padding.
 *
 * @param {Uint8Array} bytes
 */
export function encodeBase64Url(bytes) {
  let binary = "";
  for (const byte of bytes) binary += String.fromCharCode(byte);
  return btoa(binary).replace(/\+/g, "-").replace(/\//g, "_").replace(/=+$/, "");
}
