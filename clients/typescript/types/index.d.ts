/** Get human decisions from a Placet server. */
export { readAgentRequest } from "./agent_request.js";
export { verifyCallback } from "./callbacks.js";
export { toCanonicalJson } from "./canonical_json.js";
export { PlacetClient } from "./client.js";
export { NotApproved, PlacetError, ServerRefused, SignatureInvalid, Unavailable } from "./errors.js";
export { followCase } from "./follow_case.js";
export { verifyResult } from "./signed_results.js";
export { ToolApprovals } from "./tool_approvals.js";
export { hasEnded } from "./wire.js";
export type AgentRequest = import("./agent_request.js").AgentRequest;
export type ClientOptions = import("./client.js").ClientOptions;
export type OpenOptions = import("./client.js").OpenOptions;
export type FollowOptions = import("./follow_case.js").FollowOptions;
export type WaitOptions = import("./following.js").WaitOptions;
export type VerifiedResult = import("./signed_results.js").VerifiedResult;
export type ApprovalOptions = import("./tool_approvals.js").ApprovalOptions;
export type Permission = import("./tool_approvals.js").Permission;
export type Rule = import("./tool_approvals.js").Rule;
export type ToolCall = import("./tool_approvals.js").ToolCall;
export type ToolRule = import("./tool_approvals.js").ToolRule;
export type CallReceipt = import("./wire.js").CallReceipt;
export type CaseDraft = import("./wire.js").CaseDraft;
export type CaseEvent = import("./wire.js").CaseEvent;
export type Hitl = import("./wire.js").Hitl;
export type HumanInputRequired = import("./wire.js").HumanInputRequired;
export type JsonWebKeySet = import("./wire.js").JsonWebKeySet;
export type Poll = import("./wire.js").Poll;
export type Result = import("./wire.js").Result;
/**
 * @typedef {import("./agent_request.js").AgentRequest} AgentRequest
 * @typedef {import("./client.js").ClientOptions} ClientOptions
 * @typedef {import("./client.js").OpenOptions} OpenOptions
 * @typedef {import("./follow_case.js").FollowOptions} FollowOptions
 * @typedef {import("./following.js").WaitOptions} WaitOptions
 * @typedef {import("./signed_results.js").VerifiedResult} VerifiedResult
 * @typedef {import("./tool_approvals.js").ApprovalOptions} ApprovalOptions
 * @typedef {import("./tool_approvals.js").Permission} Permission
 * @typedef {import("./tool_approvals.js").Rule} Rule
 * @typedef {import("./tool_approvals.js").ToolCall} ToolCall
 * @typedef {import("./tool_approvals.js").ToolRule} ToolRule
 * @typedef {import("./wire.js").CallReceipt} CallReceipt
 * @typedef {import("./wire.js").CaseDraft} CaseDraft
 * @typedef {import("./wire.js").CaseEvent} CaseEvent
 * @typedef {import("./wire.js").Hitl} Hitl
 * @typedef {import("./wire.js").HumanInputRequired} HumanInputRequired
 * @typedef {import("./wire.js").JsonWebKeySet} JsonWebKeySet
 * @typedef {import("./wire.js").Poll} Poll
 * @typedef {import("./wire.js").Result} Result
 */
