/** Approval of tool calls, for any agent: the server holds the decision, bound to the call and its arguments. */
export type PlacetClient = import("./client.js").PlacetClient;
export type CallOutcome = import("./wire.js").CallOutcome;
export type Poll = import("./wire.js").Poll;
export type NotRunReason = Exclude<CallOutcome, "ran">;
export type Decision = "approve" | "edit" | "reject" | "respond";
export type ToolCall = {
    /**
     * The id that the model gave to the call.
     */
    toolCallId: string;
    toolName: string;
    /**
     * The arguments: an object.
     */
    input: unknown;
};
export type ToolRule = {
    /**
     * What the reviewer reads above the arguments.
     */
    description?: string;
    /**
     * Which arguments need a review; by default all. It must return
     * the same for the same arguments every time.
     */
    when?: (input: any) => boolean;
    /**
     * `approve` and `reject` by default. With `edit`, a call may run with
     * other arguments; with `respond`, the reviewer may answer in the tool's place.
     */
    allowedDecisions?: Decision[];
    /**
     * The JSON Schema of the arguments, which edits must match.
     */
    schema?: Record<string, unknown>;
    /**
     * The page asks for more care.
     */
    highRisk?: boolean;
};
export type Rule = true | string | ToolRule;
export type Run = {
    kind: "run";
    caseId: string;
    input: any;
    isEdited: boolean;
};
export type Replace = {
    kind: "replace";
    caseId: string;
    text: string;
    /**
     * null if a reviewer answered in the tool's place.
     */
    reason: NotRunReason | null;
};
export type Wait = {
    kind: "wait";
    caseId: string;
    /**
     * Where the reviewer decides. Whoever has this link can decide.
     */
    reviewUrl: string;
};
export type Permission = Run | Replace | Wait;
export type ApprovalOptions = {
    /**
     * The conversation, so that calls with the same id in others are not confused.
     */
    threadId: string;
    /**
     * The name of the agent, as the reviewer sees it.
     */
    agent?: string;
    /**
     * How long reviewers have, such as `30m`; `24h` by default. Then the call is
     * rejected.
     */
    timeout?: string;
    /**
     * Called when `wait` or a guarded function
     * begins to wait, for you to send the link to the reviewer. It may be async.
     */
    onWait?: (waiting: Wait & {
        call: ToolCall;
    }) => unknown;
    /**
     * More fields of every case, such as `callback_url`.
     */
    fields?: Omit<Partial<import("./wire.js").CaseDraft>, "type" | "context" | "timeout" | "default_action">;
};
export type ReviewedResult<OUTPUT> = string | {
    note: string;
    result: OUTPUT;
};
/**
 * @typedef {import("./client.js").PlacetClient} PlacetClient
 * @typedef {import("./wire.js").CallOutcome} CallOutcome
 * @typedef {import("./wire.js").Poll} Poll
 * @typedef {Exclude<CallOutcome, "ran">} NotRunReason Why a call did not do its work.
 * @typedef {"approve" | "edit" | "reject" | "respond"} Decision
 *
 * @typedef {object} ToolCall
 * @property {string} toolCallId The id that the model gave to the call.
 * @property {string} toolName
 * @property {unknown} input The arguments: an object.
 *
 * @typedef {object} ToolRule How calls of a tool are reviewed.
 * @property {string} [description] What the reviewer reads above the arguments.
 * @property {(input: any) => boolean} [when] Which arguments need a review; by default all. It must return
 *   the same for the same arguments every time.
 * @property {Decision[]} [allowedDecisions] `approve` and `reject` by default. With `edit`, a call may run with
 *   other arguments; with `respond`, the reviewer may answer in the tool's place.
 * @property {Record<string, unknown>} [schema] The JSON Schema of the arguments, which edits must match.
 * @property {boolean} [highRisk] The page asks for more care.
 *
 * @typedef {true | string | ToolRule} Rule `true`, a description, or a ToolRule.
 *
 * @typedef {object} Run Run the call with exactly this input, which a reviewer may have edited.
 * @property {"run"} kind
 * @property {string} caseId
 * @property {any} input
 * @property {boolean} isEdited
 *
 * @typedef {object} Replace Do not run the call; the model reads `text`.
 * @property {"replace"} kind
 * @property {string} caseId
 * @property {string} text
 * @property {NotRunReason | null} reason null if a reviewer answered in the tool's place.
 *
 * @typedef {object} Wait Do not run the call now: nobody has decided it yet.
 * @property {"wait"} kind
 * @property {string} caseId
 * @property {string} reviewUrl Where the reviewer decides. Whoever has this link can decide.
 *
 * @typedef {Run | Replace | Wait} Permission
 *
 * @typedef {object} ApprovalOptions
 * @property {string} threadId The conversation, so that calls with the same id in others are not confused.
 * @property {string} [agent] The name of the agent, as the reviewer sees it.
 * @property {string} [timeout] How long reviewers have, such as `30m`; `24h` by default. Then the call is
 *   rejected.
 * @property {(waiting: Wait & {call: ToolCall}) => unknown} [onWait] Called when `wait` or a guarded function
 *   begins to wait, for you to send the link to the reviewer. It may be async.
 * @property {Omit<Partial<import("./wire.js").CaseDraft>, "type" | "context" | "timeout" | "default_action">} [fields]
 *   More fields of every case, such as `callback_url`.
 */
/**
 * What the model reads instead of the tool's own result: the reviewer's text with `respond`; with `edit`, a
 * note about the edit and the result.
 *
 * @template OUTPUT
 * @typedef {string | {note: string, result: OUTPUT}} ReviewedResult
 */
/**
 * Asks about the tool calls of one conversation.
 *
 * A decision belongs to one call of one thread with these arguments, description and options: another call is
 * another case. Nothing is stored in this process, so any process can continue.
 */
export declare class ToolApprovals {
    #private;
    /** @param {PlacetClient} client @param {ApprovalOptions} options */
    constructor(client: PlacetClient, { threadId, agent, timeout, onWait, fields }: ApprovalOptions);
    /**
     * Say whether a call may run. The first time, this opens a case.
     *
     * @param {ToolCall} call @param {Rule} [rule]
     * @returns {Promise<Permission>}
     */
    ask(call: ToolCall, rule?: Rule): Promise<Permission>;
    /**
     * Wait until the call is decided; `wait` is returned only when `timeoutMs` is over.
     *
     * @param {ToolCall} call @param {Rule} [rule] @param {import("./following.js").WaitOptions} [options]
     * @returns {Promise<Permission>}
     */
    wait(call: ToolCall, rule?: Rule, options?: import("./following.js").WaitOptions): Promise<Permission>;
    /**
     * Run an approved call with `execute` and report what became of it. Raises NotApproved, and runs nothing, if
     * the call is not approved or has been run before.
     *
     * @template OUTPUT
     * @param {ToolCall} call @param {Rule} rule @param {(input: any) => OUTPUT | PromiseLike<OUTPUT>} execute
     * @returns {Promise<OUTPUT | ReviewedResult<OUTPUT>>}
     */
    run<OUTPUT>(call: ToolCall, rule: Rule, execute: (input: any) => OUTPUT | PromiseLike<OUTPUT>): Promise<OUTPUT | ReviewedResult<OUTPUT>>;
    /**
     * Return a function that waits for the decision on each call and then runs it. Raises NotApproved for a call
     * that was not approved.
     *
     * @template INPUT, OUTPUT
     * @param {string} toolName @param {Rule} rule @param {(input: INPUT) => OUTPUT | PromiseLike<OUTPUT>} execute
     * @returns {(input: INPUT, call: {toolCallId: string, signal?: AbortSignal}) => Promise<OUTPUT | ReviewedResult<OUTPUT>>}
     */
    guard<INPUT, OUTPUT>(toolName: string, rule: Rule, execute: (input: INPUT) => OUTPUT | PromiseLike<OUTPUT>): (input: INPUT, call: {
        toolCallId: string;
        signal?: AbortSignal;
    }) => Promise<OUTPUT | ReviewedResult<OUTPUT>>;
}
/**
 * Return whether a rule asks for a review of these arguments. What is not a plain `false` asks.
 *
 * @param {Rule} rule @param {unknown} input
 */
export declare function needsReview(rule: Rule, input: unknown): boolean;
