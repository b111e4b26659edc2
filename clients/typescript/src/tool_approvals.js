/** Approval of tool calls, for any agent: the server holds the decision, bound to the call and its arguments. */

import { toCanonicalJson } from "./canonical_json.js";
import { NotApproved, PlacetError, ServerRefused } from "./errors.js";
import { isObject, sleep } from "./exchange.js";
import { hasEnded } from "./wire.js";

const RECEIPT_TRIES = 3;
const MAX_PROMPT_LENGTH = 500;
const MAX_NAME_LENGTH = 200;
/** @type {readonly Decision[]} */
const DEFAULT_DECISIONS = ["approve", "reject"];

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
export class ToolApprovals {
  #client;
  #threadId;
  #agent;
  #timeout;
  #fields;
  #onWait;
  /** @type {Set<string>} */
  #running = new Set();

  /** @param {PlacetClient} client @param {ApprovalOptions} options */
  constructor(client, { threadId, agent = "The agent", timeout = "24h", onWait, fields = {} }) {
    if (typeof threadId !== "string" || threadId === "") throw new PlacetError("threadId must be text that names the conversation.");
    this.#client = client;
    this.#threadId = threadId;
    this.#agent = agent;
    this.#timeout = timeout;
    this.#fields = fields;
    this.#onWait = onWait;
  }

  /**
   * Say whether a call may run. The first time, this opens a case.
   *
   * @param {ToolCall} call @param {Rule} [rule]
   * @returns {Promise<Permission>}
   */
  async ask(call, rule = true) {
    const { opened, review } = await this.#open(call, rule);
    const poll = await this.#client.status(opened.case_id);
    return hasEnded(poll) ? readPermission(review, poll) : { kind: "wait", caseId: poll.case_id, reviewUrl: opened.review_url };
  }

  /**
   * Wait until the call is decided; `wait` is returned only when `timeoutMs` is over.
   *
   * @param {ToolCall} call @param {Rule} [rule] @param {import("./following.js").WaitOptions} [options]
   * @returns {Promise<Permission>}
   */
  async wait(call, rule = true, options = {}) {
    const asked = await this.ask(call, rule);
    if (asked.kind !== "wait") return asked;
    await this.#onWait?.({ ...asked, call });
    const poll = await this.#client.wait(asked.caseId, options);
    return hasEnded(poll) ? readPermission(describeCall(call, rule), poll) : asked;
  }

  /**
   * Run an approved call with `execute` and report what became of it. Raises NotApproved, and runs nothing, if
   * the call is not approved or has been run before.
   *
   * @template OUTPUT
   * @param {ToolCall} call @param {Rule} rule @param {(input: any) => OUTPUT | PromiseLike<OUTPUT>} execute
   * @returns {Promise<OUTPUT | ReviewedResult<OUTPUT>>}
   */
  async run(call, rule, execute) {
    return this.#runPermitted(call, await this.ask(call, rule), execute);
  }

  /**
   * Return a function that waits for the decision on each call and then runs it. Raises NotApproved for a call
   * that was not approved.
   *
   * @template INPUT, OUTPUT
   * @param {string} toolName @param {Rule} rule @param {(input: INPUT) => OUTPUT | PromiseLike<OUTPUT>} execute
   * @returns {(input: INPUT, call: {toolCallId: string, signal?: AbortSignal}) => Promise<OUTPUT | ReviewedResult<OUTPUT>>}
   */
  guard(toolName, rule, execute) {
    return async (input, { toolCallId, signal }) => {
      if (!needsReview(rule, input)) return execute(input);
      const call = { toolCallId, toolName, input };
      const permission = await this.wait(call, rule, signal === undefined ? {} : { signal });
      return this.#runPermitted(call, permission, execute);
    };
  }

  /**
   * @template OUTPUT
   * @param {ToolCall} call @param {Permission} permission
   * @param {(input: any) => OUTPUT | PromiseLike<OUTPUT>} execute
   * @returns {Promise<OUTPUT | ReviewedResult<OUTPUT>>}
   */
  async #runPermitted(call, permission, execute) {
    const { caseId } = permission;
    if (permission.kind === "wait") throw new NotApproved("Nobody has approved this call yet. It was not run.", "waiting");
    if (permission.kind === "replace") {
      if (permission.reason === null) return permission.text;
      throw new NotApproved(permission.text, permission.reason);
    }
    if (this.#running.has(caseId)) throw new NotApproved("This call is running. It was not run a second time.", "superseded");
    this.#running.add(caseId);
    try {
      await this.#requireNotRun(caseId, call.toolCallId);
      return await this.#execute(call, permission, execute);
    } finally {
      this.#running.delete(caseId);
    }
  }

  /**
   * @template OUTPUT
   * @param {ToolCall} call @param {Run} permission @param {(input: any) => OUTPUT | PromiseLike<OUTPUT>} execute
   * @returns {Promise<OUTPUT | ReviewedResult<OUTPUT>>}
   */
  async #execute(call, permission, execute) {
    /** @type {CallOutcome} */
    let outcome = "failed";
    try {
      const result = await execute(permission.input);
      outcome = "ran";
      return permission.isEdited ? discloseEdit(permission, result) : result;
    } finally {
      await this.#report(permission.caseId, call.toolCallId, outcome);
    }
  }

  /** @param {string} caseId @param {string} toolCallId */
  async #requireNotRun(caseId, toolCallId) {
    const { receipts } = await this.#client.reportCalls(caseId, []);
    if (receipts.some((receipt) => receipt.call_id === toolCallId)) {
      throw new NotApproved("This call was run before. It was not run a second time.", "superseded");
    }
  }

  /** @param {string} caseId @param {string} toolCallId @param {CallOutcome} outcome */
  async #report(caseId, toolCallId, outcome) {
    const receipt = { call_id: toolCallId, outcome, at: new Date().toISOString() };
    for (let tried = 1; tried <= RECEIPT_TRIES; tried += 1) {
      try {
        await this.#client.reportCalls(caseId, [receipt]);
        return;
      } catch (error) {
        // The call has ended, so a lost receipt must not hide its result.
        if (tried === RECEIPT_TRIES || (error instanceof ServerRefused && error.status < 500)) return;
        await sleep(200 * 2 ** tried);
      }
    }
  }

  /** @param {ToolCall} call @param {Rule} rule */
  async #open(call, rule) {
    const review = describeCall(call, rule);
    /** @type {import("./wire.js").CaseDraft} */
    const draft = {
      prompt: `${this.#agent} wants to call ${call.toolName}`.slice(0, MAX_PROMPT_LENGTH),
      ...this.#fields,
      type: "approval",
      timeout: this.#timeout,
      default_action: "reject",
      agent: this.#agent.slice(0, MAX_NAME_LENGTH),
      context: { tool_calls: [review], agent: this.#agent, thread_id: this.#threadId },
    };
    const asked = toCanonicalJson(JSON.parse(JSON.stringify(draft)));
    const { hitl } = await this.#client.open(draft, { idempotencyKey: `tool-call-${await digest(asked)}` });
    return { opened: hitl, review };
  }
}

/**
 * Return whether a rule asks for a review of these arguments. What is not a plain `false` asks.
 *
 * @param {Rule} rule @param {unknown} input
 */
export function needsReview(rule, input) {
  const when = typeof rule === "object" ? rule.when : undefined;
  try {
    return when === undefined || when(input) !== false;
  } catch {
    return true;
  }
}

/**
 * Return the call as a case shows it.
 *
 * @param {ToolCall} call @param {Rule} rule
 */
function describeCall({ toolCallId, toolName, input }, rule) {
  if (!isObject(input)) throw new PlacetError(`The input of ${toolName} must be an object, so that a reviewer can read it.`);
  const { description = "", allowedDecisions, schema, highRisk } = typeof rule === "object" ? rule : { description: typeof rule === "string" ? rule : "" };
  return {
    id: toolCallId,
    name: toolName,
    arguments: input,
    description,
    allowed_decisions: allowedDecisions ?? DEFAULT_DECISIONS,
    ...(schema === undefined ? {} : { schema }),
    ...(highRisk === undefined ? {} : { high_risk: highRisk }),
  };
}

/**
 * Return what an ended case says about a call. Raises PlacetError for a decision that cannot be read.
 *
 * @param {ReturnType<typeof describeCall>} review @param {Exclude<Poll, import("./wire.js").OpenPoll>} poll
 * @returns {Run | Replace}
 */
function readPermission(review, poll) {
  const caseId = poll.case_id;
  if (poll.status === "expired") return { kind: "replace", caseId, reason: "timed_out", text: "This call was not run. Nobody decided in time." };
  if (poll.status === "cancelled") {
    const said = poll.reason ? ` ${poll.reason}` : "";
    return { kind: "replace", caseId, reason: "withdrawn", text: `This call was not run. The review was withdrawn.${said}` };
  }
  const { data } = poll.result;
  const decisions = isObject(data) && isObject(data.decisions) ? data.decisions : {};
  const decided = Object.hasOwn(decisions, review.id) ? decisions[review.id] : undefined;
  const decision = isObject(decided) ? decided : {};
  const isAllowed = review.allowed_decisions.some((one) => one === decision.decision);
  if (!isAllowed) throw new PlacetError(`The case ${caseId} was answered without a decision about this call. It was not run.`);
  if (decision.decision === "approve") return { kind: "run", caseId, input: review.arguments, isEdited: false };
  if (decision.decision === "respond") return { kind: "replace", caseId, reason: null, text: String(decision.answer ?? "") };
  if (decision.decision === "edit" && isObject(decision.arguments)) {
    return { kind: "run", caseId, input: decision.arguments, isEdited: true };
  }
  if (decision.decision !== "reject") throw new PlacetError(`The case ${caseId} was edited without arguments. The call was not run.`);
  return { kind: "replace", caseId, reason: "rejected", text: describeRejection(decision.reason ?? (isObject(data) ? data.note : undefined)) };
}

/** @param {unknown} reason */
function describeRejection(reason) {
  return typeof reason === "string" && reason !== ""
    ? `A person rejected this call. Their reason: ${reason}`
    : "A person rejected this call and gave no reason. Do not repeat it unchanged.";
}

/**
 * The model has to know that a call ran with other arguments.
 *
 * @template OUTPUT
 * @param {Run} permission @param {OUTPUT} result
 * @returns {ReviewedResult<OUTPUT>}
 */
function discloseEdit({ input }, result) {
  const note = `A person changed this call before it ran. It ran with ${JSON.stringify(input)}.`;
  return typeof result === "string" ? `${note} Its result: ${result}` : { note, result };
}

/** @param {string} text */
async function digest(text) {
  const hashed = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(text));
  return Array.from(new Uint8Array(hashed), (byte) => byte.toString(16).padStart(2, "0")).join("");
}
