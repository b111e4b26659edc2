/** The server that the tests use, and a person who answers there. */

import { PlacetClient } from "placet-client";

export const SERVER = process.env.PLACET_SERVER ?? "http://127.0.0.1:8600";
export const KEY = process.env.PLACET_KEY ?? "";
export const client = new PlacetClient(SERVER, KEY);

/**
 * Answer as a person with the review link does.
 *
 * @param {string} reviewUrl @param {string} action @param {Record<string, unknown>} [data]
 */
export async function answer(reviewUrl, action, data = {}) {
  const headers = { "Content-Type": "application/json" };
  const address = reviewUrl.replace("?", "/respond?");
  const response = await fetch(address, { method: "POST", headers, body: JSON.stringify({ action, data }) });
  if (!response.ok) throw new Error(`the page did not take the answer: ${response.status} ${await response.text()}`);
}

/** A name that no other test uses. */
export function unique(name = "test") {
  return `${name}-${crypto.randomUUID()}`;
}
