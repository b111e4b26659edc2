/** Tool approval for Vercel's AI SDK (the npm package `ai`, version 6 and 7). */

import { NotApproved, PlacetError } from "./errors.js";
import { isObject } from "./exchange.js";
import { needsReview } from "./tool_approvals.js";

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
export function guardTools(tools, rules, approvals) {
  const byName = new Map(/** @type {[string, Rule][]} */ (Object.entries(rules)));
  const guarded = Object.fromEntries(
    [...byName].map(([name, rule]) => [name, guardTool(name, Object.hasOwn(tools, name) ? tools[name] : undefined, rule, approvals)]),
  );
  return {
    tools: /** @type {TOOLS} */ ({ ...tools, ...guarded }),
    waiting: async (messages) => {
      const asked = listRequests(messages, byName);
      const permissions = await Promise.all(asked.map(({ call, rule }) => approvals.ask(call, rule)));
      return permissions.flatMap((permission, index) => {
        const call = /** @type {{call: ToolCall}} */ (asked[index]).call;
        const { toolName, toolCallId } = call;
        return permission.kind === "wait" ? [{ toolName, toolCallId, caseId: permission.caseId, reviewUrl: permission.reviewUrl }] : [];
      });
    },
    decide: async (messages, { wait = false, ...options } = {}) => {
      const asked = listRequests(messages, byName);
      const permissions = await Promise.all(
        asked.map(({ call, rule }) => (wait ? approvals.wait(call, rule, options) : approvals.ask(call, rule))),
      );
      if (asked.length === 0 || permissions.some((permission) => permission.kind === "wait")) return null;
      const content = asked.map(({ approvalId }, index) => respond(approvalId, /** @type {Permission} */ (permissions[index])));
      return { role: "tool", content };
    },
  };
}

/** @param {string} toolName @param {any} tool @param {Rule} rule @param {ToolApprovals} approvals */
function guardTool(toolName, tool, rule, approvals) {
  if (tool === undefined) throw new PlacetError(`There is a rule for ${toolName}, and no such tool.`);
  const { execute } = tool;
  if (typeof execute !== "function") {
    throw new PlacetError(`${toolName} has no execute, so its calls cannot be stopped here. Guard it where it runs.`);
  }
  return {
    ...tool,
    // Opens the case. A decided call needs approval as before: version 6 asks again when the run continues.
    needsApproval: async (/** @type {any} */ input, /** @type {{toolCallId: string}} */ { toolCallId }) => {
      if (!needsReview(rule, input)) return false;
      await approvals.ask({ toolCallId, toolName, input }, rule);
      return true;
    },
    execute: async (/** @type {any} */ input, /** @type {{toolCallId: string}} */ options) => {
      const run = async (/** @type {any} */ permitted) => readLast(await execute.call(tool, permitted, options));
      if (!needsReview(rule, input)) return run(input);
      return approvals.run({ toolCallId: options.toolCallId, toolName, input }, rule, run);
    },
  };
}

/**
 * A tool may stream its result; the last value is the result.
 *
 * @param {any} result
 */
async function readLast(result) {
  if (typeof result !== "object" || result === null || !(Symbol.asyncIterator in result)) return result;
  let last;
  for await (const value of result) last = value;
  return last;
}

/** @param {string} approvalId @param {Permission} permission @returns {ApprovalResponse} */
function respond(approvalId, permission) {
  const base = /** @type {const} */ ({ type: "tool-approval-response", approvalId });
  if (permission.kind === "replace" && permission.reason !== null) return { ...base, approved: false, reason: permission.text };
  if (permission.kind === "wait") throw new NotApproved("Nobody has approved this call yet.", "waiting");
  return { ...base, approved: true };
}

/**
 * Return the approval requests for tools with a rule that have no response yet.
 *
 * @param {Messages} messages @param {Map<string, Rule>} rules
 */
function listRequests(messages, rules) {
  const parts = messages.flatMap(({ content }) => (Array.isArray(content) ? content : [])).filter(isObject);
  const answered = new Set(parts.filter(({ type }) => type === "tool-approval-response").map(({ approvalId }) => approvalId));
  const calls = new Map(parts.filter(({ type }) => type === "tool-call").map((part) => [part.toolCallId, part]));
  return parts.flatMap((part) => {
    if (part.type !== "tool-approval-request" || answered.has(part.approvalId) || part.isAutomatic) return [];
    const found = calls.get(part.toolCallId);
    const rule = rules.get(String(found?.toolName));
    if (found === undefined || rule === undefined) return [];
    const call = { toolCallId: String(found.toolCallId), toolName: String(found.toolName), input: found.input };
    return [{ approvalId: String(part.approvalId), call, rule }];
  });
}
