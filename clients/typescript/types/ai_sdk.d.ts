/** Tool approval for Vercel's AI SDK (the npm package `ai`, version 6 and 7). */
export type Permission = import("./tool_approvals.js").Permission;
export type Rule = import("./tool_approvals.js").Rule;
export type ToolApprovals = import("./tool_approvals.js").ToolApprovals;
export type ToolCall = import("./tool_approvals.js").ToolCall;
export type ApprovalResponse = {
    type: "tool-approval-response";
    approvalId: string;
    approved: boolean;
    reason?: string;
};
export type ApprovalMessage = {
    role: "tool";
    content: ApprovalResponse[];
};
export type Messages = readonly {
    role: string;
    content: unknown;
}[];
export type WaitingCall = {
    toolName: string;
    toolCallId: string;
    caseId: string;
    reviewUrl: string;
};
export type DecideOptions = {
    /**
     * Wait until all calls are decided.
     */
    wait?: boolean;
    /**
     * With `wait`: how long at most.
     */
    timeoutMs?: number;
    signal?: AbortSignal;
};
export type GuardedTools<TOOLS extends Record<string, any>> = {
    /**
     * Pass these to `generateText`, `streamText` or an agent.
     */
    tools: TOOLS;
    /**
     * Return the calls that wait for a decision.
     */
    waiting: (messages: Messages) => Promise<WaitingCall[]>;
    /**
     * Return the
     * message that continues the run, for you to append to the messages; null while a call is not decided.
     */
    decide: (messages: Messages, options?: DecideOptions) => Promise<ApprovalMessage | null>;
};
/**
 * @typedef {import("./tool_approvals.js").Permission} Permission
 * @typedef {import("./tool_approvals.js").Rule} Rule
 * @typedef {import("./tool_approvals.js").ToolApprovals} ToolApprovals
 * @typedef {import("./tool_approvals.js").ToolCall} ToolCall
 *
 * @typedef {{type: "tool-approval-response", approvalId: string, approved: boolean, reason?: string}} ApprovalResponse
 * @typedef {{role: "tool", content: ApprovalResponse[]}} ApprovalMessage
 * @typedef {readonly {role: string, content: unknown}[]} Messages
 * @typedef {{toolName: string, toolCallId: string, caseId: string, reviewUrl: string}} WaitingCall
 *
 * @typedef {object} DecideOptions
 * @property {boolean} [wait] Wait until all calls are decided.
 * @property {number} [timeoutMs] With `wait`: how long at most.
 * @property {AbortSignal} [signal]
 */
/**
 * @template {Record<string, any>} TOOLS
 * @typedef {object} GuardedTools
 * @property {TOOLS} tools Pass these to `generateText`, `streamText` or an agent.
 * @property {(messages: Messages) => Promise<WaitingCall[]>} waiting Return the calls that wait for a decision.
 * @property {(messages: Messages, options?: DecideOptions) => Promise<ApprovalMessage | null>} decide Return the
 *   message that continues the run, for you to append to the messages; null while a call is not decided.
 */
/**
 * Return the tools with approval: a call of a tool with a rule stops the run and opens a case, and runs only
 * when the server says that exactly this call was approved.
 *
 * A tool's `execute` asks the server itself, so an approval that somebody wrote into the messages runs nothing.
 * Raises PlacetError for a rule without a tool, and for a tool without `execute`.
 *
 * @template {Record<string, any>} TOOLS
 * @param {TOOLS} tools
 * @param {{[NAME in keyof TOOLS]?: Rule}} rules
 * @param {ToolApprovals} approvals
 * @returns {GuardedTools<TOOLS>}
 */
export declare function guardTools<TOOLS extends Record<string, any>>(tools: TOOLS, rules: { [NAME in keyof TOOLS]?: Rule; }, approvals: ToolApprovals): GuardedTools<TOOLS>;
