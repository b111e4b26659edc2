/** A client for services and agents that open cases on a Placet server. */
export type CallReceipt = import("./wire.js").CallReceipt;
export type CaseDraft = import("./wire.js").CaseDraft;
export type CaseEvent = import("./wire.js").CaseEvent;
export type CaseList = import("./wire.js").CaseList;
export type HumanInputRequired = import("./wire.js").HumanInputRequired;
export type JsonWebKeySet = import("./wire.js").JsonWebKeySet;
export type Poll = import("./wire.js").Poll;
export type ClientOptions = {
    /**
     * What sends the requests, in place of the global `fetch`.
     */
    fetch?: import("./exchange.js").Fetch;
    /**
     * How long one request may take; 10 seconds by default.
     */
    timeoutMs?: number;
};
export type OpenOptions = {
    /**
     * A name for this request: repeated, it returns the first response.
     */
    idempotencyKey?: string;
    /**
     * The request that the agent sent to you.
     * With the credential in it, the agent may poll and stream the case; the server gets its digest only. The
     * `hitl_callback_url` of its JSON body is called back if that is possible.
     */
    agentRequest?: import("./agent_request.js").AgentRequest;
};
/**
 * @typedef {import("./wire.js").CallReceipt} CallReceipt
 * @typedef {import("./wire.js").CaseDraft} CaseDraft
 * @typedef {import("./wire.js").CaseEvent} CaseEvent
 * @typedef {import("./wire.js").CaseList} CaseList
 * @typedef {import("./wire.js").HumanInputRequired} HumanInputRequired
 * @typedef {import("./wire.js").JsonWebKeySet} JsonWebKeySet
 * @typedef {import("./wire.js").Poll} Poll
 *
 * @typedef {object} ClientOptions
 * @property {import("./exchange.js").Fetch} [fetch] What sends the requests, in place of the global `fetch`.
 * @property {number} [timeoutMs] How long one request may take; 10 seconds by default.
 *
 * @typedef {object} OpenOptions
 * @property {string} [idempotencyKey] A name for this request: repeated, it returns the first response.
 * @property {import("./agent_request.js").AgentRequest} [agentRequest] The request that the agent sent to you.
 *   With the credential in it, the agent may poll and stream the case; the server gets its digest only. The
 *   `hitl_callback_url` of its JSON body is called back if that is possible.
 */
/**
 * Opens, follows and withdraws cases. Methods raise ServerRefused for an error response, and Unavailable if
 * the server cannot be reached.
 */
export declare class PlacetClient {
    #private;
    /**
     * @param {string} baseUrl The address of the server: https, or on loopback.
     * @param {string} key An API key of the server.
     * @param {ClientOptions} [options]
     */
    constructor(baseUrl: string, key: string, { fetch, timeoutMs }?: ClientOptions);
    /**
     * Open a case; return the 202 body, to be passed to the agent unchanged.
     *
     * @param {CaseDraft} draft
     * @param {OpenOptions} [options]
     * @returns {Promise<HumanInputRequired>}
     */
    open(draft: CaseDraft, { idempotencyKey, agentRequest }?: OpenOptions): Promise<HumanInputRequired>;
    /**
     * Return the state of a case.
     *
     * @param {string} caseId
     * @returns {Promise<Poll>}
     */
    status(caseId: string): Promise<Poll>;
    /**
     * Wait until the case has ended or `timeoutMs` is over; return the last state. The event stream says when
     * the case ends; without one, the case is polled.
     *
     * @param {string} caseId
     * @param {import("./following.js").WaitOptions} [options]
     * @returns {Promise<Poll>}
     */
    wait(caseId: string, options?: import("./following.js").WaitOptions): Promise<Poll>;
    /**
     * Yield the events of a case until it has ended.
     *
     * @param {string} caseId
     * @param {{lastEventId?: string, signal?: AbortSignal}} [options]
     * @returns {AsyncGenerator<CaseEvent>}
     */
    events(caseId: string, options?: {
        lastEventId?: string;
        signal?: AbortSignal;
    }): AsyncGenerator<CaseEvent>;
    /**
     * Return a page of your cases, newest first.
     *
     * @param {{status?: import("./wire.js").CaseStatus, before?: string, limit?: number}} [options]
     * @returns {Promise<CaseList>}
     */
    cases({ status, before, limit }?: {
        status?: import("./wire.js").CaseStatus;
        before?: string;
        limit?: number;
    }): Promise<CaseList>;
    /**
     * Withdraw a case.
     *
     * @param {string} caseId @param {{reason?: string}} [options]
     * @returns {Promise<Poll>}
     */
    cancel(caseId: string, { reason }?: {
        reason?: string;
    }): Promise<Poll>;
    /**
     * Send what a person answered on your own page, the `review_url` of the case.
     *
     * @param {string} caseId @param {string} action @param {Record<string, unknown>} [data]
     * @param {{respondedBy?: {name?: string, email?: string}, idempotencyKey?: string}} [options] `respondedBy`: who
     *   answered, if you have verified it.
     * @returns {Promise<Poll>}
     */
    answer(caseId: string, action: string, data?: Record<string, unknown>, { respondedBy, idempotencyKey }?: {
        respondedBy?: {
            name?: string;
            email?: string;
        };
        idempotencyKey?: string;
    }): Promise<Poll>;
    /**
     * Report what became of the calls of a decided case; the first receipt of each call counts. Returns all
     * receipts of the case.
     *
     * @param {string} caseId @param {CallReceipt[]} receipts
     * @returns {Promise<{receipts: CallReceipt[]}>}
     */
    reportCalls(caseId: string, receipts: CallReceipt[]): Promise<{
        receipts: CallReceipt[];
    }>;
    /**
     * Register a callback address, or read its secrets, which sign what it receives.
     *
     * @param {string} url
     * @returns {Promise<{url: string, secrets: string[], created_at: string}>}
     */
    registerCallback(url: string): Promise<{
        url: string;
        secrets: string[];
        created_at: string;
    }>;
    /**
     * Return the public keys of the server, for `verifyResult`. Fetch them once.
     *
     * @returns {Promise<JsonWebKeySet>}
     */
    keys(): Promise<JsonWebKeySet>;
}
