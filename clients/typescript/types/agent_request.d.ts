/** What a service passes on of an agent's request, so that the agent can follow the case itself. */
export type AgentRequest = Request | {
    headers: Headers | Record<string, string | string[] | undefined>;
    body?: unknown;
};
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
export declare function readAgentRequest(request: AgentRequest): Promise<Pick<import("./wire.js").CaseDraft, "reader" | "hitl_callback_url">>;
