/**
 * The messages of the HTTP API, as types.
 *
 * @typedef {"pending" | "opened" | "in_progress" | "completed" | "expired" | "cancelled"} CaseStatus
 * @typedef {"skip" | "approve" | "reject" | "abort"} DefaultAction
 *
 * @typedef {object} CaseReader Who else may poll and stream a case: the agent that called you.
 * @property {string} [bearer_sha256] SHA-256, in lower-case hexadecimal, of the agent's credential.
 * @property {JsonWebKey} [public_key] The key with which the agent signs its requests: Ed25519 or P-256.
 * @property {string} [principal] Another principal of the server.
 *
 * @typedef {object} CaseDraft The question of a service to a reviewer.
 * @property {string} type approval, selection, input, confirmation, escalation, or your own `x-…` type.
 * @property {string} prompt The question in one sentence, for a person.
 * @property {string} [message] A summary for the agent to relay.
 * @property {Record<string, unknown>} [context] What the person needs to see and choose from.
 * @property {Record<string, unknown>} [page_context] More context, which only the review page shows.
 * @property {string} [timeout] How long the case stays open, such as `30m`, `24h` or `7d`.
 * @property {DefaultAction} [default_action] What you will do if there is no answer in time.
 * @property {boolean} [allow_default_approve]
 * @property {string} [callback_url] Where the server POSTs the outcome.
 * @property {string} [hitl_callback_url] The field of this name in the agent's request.
 * @property {string} [review_url] A page of your own for the reviewer; `{case_id}` in it is replaced.
 * @property {CaseReader} [reader]
 * @property {string | string[]} [reminder_at]
 * @property {string[]} [inline_actions] If present, inline submit is offered, for these actions only.
 * @property {string[]} [actions] All actions of a custom type or of an escalation with custom actions.
 * @property {string[]} [affirmative_actions] Those of `actions` that are a yes.
 * @property {string} [only_reviewer]
 * @property {boolean} [four_eyes]
 * @property {string[]} [asked_by]
 * @property {string} [previous_case_id]
 * @property {{format: string, version?: string}} [surface]
 * @property {Record<string, unknown>} [verification_policy]
 * @property {string} [spec_version]
 * @property {string} [service]
 * @property {string} [agent]
 *
 * @typedef {object} Hitl What an agent needs to pass a case to a person and to fetch the answer.
 * @property {string} spec_version
 * @property {string} case_id
 * @property {string} review_url
 * @property {string} poll_url
 * @property {string | null} [callback_url]
 * @property {string} type
 * @property {string} prompt
 * @property {string} timeout
 * @property {DefaultAction} default_action
 * @property {string} [created_at]
 * @property {string} [expires_at]
 * @property {string} [events_url]
 * @property {Record<string, unknown>} [context]
 * @property {string | string[]} [reminder_at]
 * @property {string} [previous_case_id]
 * @property {string} [submit_url]
 * @property {string} [submit_token]
 * @property {string[]} [inline_actions]
 *
 * @typedef {object} HumanInputRequired The body of HTTP 202; pass it to the agent unchanged.
 * @property {"human_input_required"} status
 * @property {string} message
 * @property {Record<string, unknown>} [data]
 * @property {Hitl} hitl
 *
 * @typedef {object} ResultSignature
 * @property {string} algorithm
 * @property {string} value
 * @property {string} signed_at
 * @property {string} signer
 *
 * @typedef {object} Result What the person decided.
 * @property {string} action
 * @property {Record<string, unknown>} data
 * @property {ResultSignature} [signature]
 *
 * @typedef {object} PollMembers
 * @property {string} case_id
 * @property {string} [created_at]
 * @property {string} [opened_at]
 * @property {string} [expires_at]
 * @property {string} [reminder_sent_at]
 *
 * @typedef {PollMembers & {status: "pending" | "opened" | "in_progress", progress?: Record<string, number>}} OpenPoll
 * @typedef {PollMembers & {
 *   status: "completed", result: Result, completed_at: string, next_case_id?: string,
 *   responded_by?: {name?: string, email?: string}, submission_context?: Record<string, unknown>
 * }} CompletedPoll
 * @typedef {PollMembers & {status: "expired", expired_at: string, default_action: DefaultAction}} ExpiredPoll
 * @typedef {PollMembers & {status: "cancelled", cancelled_at: string, reason?: string}} CancelledPoll
 * @typedef {OpenPoll | CompletedPoll | ExpiredPoll | CancelledPoll} Poll The state of a case.
 *
 * @typedef {object} CaseEvent One event of a stream.
 * @property {string} id
 * @property {string} name Such as `review.opened` or `review.completed`.
 * @property {Record<string, unknown>} data
 *
 * @typedef {object} CaseList A page of your cases, newest first; `next` is the `before` of the next page.
 * @property {{type: string, poll: Poll, previous_case_id?: string}[]} cases
 * @property {string | null} next
 *
 * @typedef {"ran" | "rejected" | "timed_out" | "withdrawn" | "superseded" | "failed" | "not_claimed"} CallOutcome
 *
 * @typedef {object} CallReceipt What became of one call of a decided case.
 * @property {string} call_id
 * @property {CallOutcome} outcome
 * @property {string} [at]
 *
 * @typedef {object} JsonWebKeySet
 * @property {(JsonWebKey & {kid?: string, retired_at?: string})[]} keys
 */

/** The states in which a case has ended. */
export const TERMINAL = Object.freeze(["completed", "expired", "cancelled"]);

/**
 * Return whether the case has ended.
 *
 * @param {Poll} poll
 * @returns {poll is CompletedPoll | ExpiredPoll | CancelledPoll}
 */
export function hasEnded(poll) {
  return TERMINAL.includes(poll.status);
}
