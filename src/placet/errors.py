"""Every error of Placet, with its wire code and HTTP status.

PlacetError
├── RequestError               the caller can fix it
│   ├── InvalidToken           401  invalid_token
│   │   └── SessionEnded       401  invalid_token
│   ├── NotPermitted           403  not_permitted
│   ├── ActionNotInline        403  action_not_inline
│   ├── VerificationRequired   403  verification_required
│   ├── VerificationFailed     403  verification_failed
│   ├── CaseNotFound           404  not_found
│   ├── MethodNotAllowed       405  method_not_allowed
│   ├── AlreadyClosed          409  duplicate_submission
│   │   └── ContentChanged     409  content_changed
│   ├── CaseExpired            410  case_expired
│   ├── RateLimited            429  rate_limited
│   └── BadRequest             400
│       ├── InvalidJson        400  invalid_json
│       ├── InvalidSubmission  400  invalid_submission
│       ├── InvalidAction      400  invalid_action
│       ├── InvalidSelection   400  invalid_selection
│       ├── InvalidInput       400  invalid_input
│       ├── InvalidForm        400  invalid_form
│       ├── ChoiceRequired     400  HITL_CHOICE_REQUIRED
│       └── ValidationFailed   400  invalid_request
│           ├── InvalidChoice  400  VALIDATION_ERROR
│           └── BodyTooLarge   413  invalid_request
├── CaseConflict               409  conflict: two writers met; the desk looks again and decides
├── RelayConflict              409  conflict: two writers met over what the relay keeps
├── Unavailable                503  unavailable
│   └── Unreachable            503  unavailable
├── SettingsError              the operator can fix it
│   └── MigrationError
├── MissingExtra               a part whose optional dependencies are not installed
├── FollowFailed               an agent could not follow a case to its end
│   ├── UnreadableAnswer       a service's answer that cannot be understood
│   ├── CaseLost               the service no longer tells how the case stands
│   ├── CredentialsRefused     the service wants other credentials to tell it
│   ├── NotificationFailed                the link reached nobody
│   ├── CaseNotSaved                the file for pending cases takes nothing
│   └── StillWaiting           the agent's patience ended before the case did
├── HookError                  a tool call could not be gated, answered or resumed
│   ├── InvalidFeedback        answers that do not fit the calls that wait
│   ├── NothingToResume        a thread that waits for nobody
│   ├── ThreadPaused           a message to a thread that waits for a person
│   ├── ThreadBusy             a thread that another process works on
│   ├── CaseNotOpened            calls that no case could be opened for
│   ├── CheckpointConflict     a thread that someone else has moved on
│   ├── ApprovalPending        a call that a person has to decide first
│   ├── CallRejected           a call that a person rejected
│   └── ModelMisbehaved        a model's reply that is no message
├── ChannelRefused             a messenger that will not take a message
├── AddressRefused             an address the guard will not call
└── SignatureInvalid           a signed result or callback that does not hold
"""

from typing import Any, Self


class PlacetError(Exception):
    """Something went wrong in Placet."""

    code: str = "internal"
    status: int = 500

    def __init__(self, message: str | None = None, **details: Any) -> None:
        self.message = message or (type(self).__doc__ or "").strip().splitlines()[0]
        self.details = details
        super().__init__(self.message)

    def body(self) -> dict[str, Any]:
        """The flat body that travels: `error`, `message` and whatever details help."""
        details = {name: _plain(detail) for name, detail in self.details.items()}
        return {"error": self.code, "message": _plain(self.message), **details}


def _plain(detail: Any) -> Any:
    """A detail whose texts are nothing but text, however they were made."""
    if isinstance(detail, dict):
        return {name: _plain(part) for name, part in detail.items()}
    return str(detail) if isinstance(detail, str) else detail


class RequestError(PlacetError):
    """The request cannot be served as it stands."""

    code = "bad_request"
    status = 400


class InvalidToken(RequestError):
    """The token is missing, wrong, or meant for something else."""

    code = "invalid_token"
    status = 401


class SessionEnded(InvalidToken):
    """Open your link again; this page no longer knows that you came by it."""


class NotPermitted(RequestError):
    """This key does not carry the scope that the request needs."""

    code = "not_permitted"
    status = 403


class ActionNotInline(RequestError):
    """This action cannot be taken inline; open the review link."""

    code = "action_not_inline"
    status = 403


class VerificationRequired(RequestError):
    """This case asks for verification evidence; open the review link."""

    code = "verification_required"
    status = 403


class VerificationFailed(RequestError):
    """The verification evidence does not hold; open the review link."""

    code = "verification_failed"
    status = 403


class CaseNotFound(RequestError):
    """There is no such case for you."""

    code = "not_found"
    status = 404


class MethodNotAllowed(RequestError):
    """This address does not take that method."""

    code = "method_not_allowed"
    status = 405


class AlreadyClosed(RequestError):
    """This case has already been closed; the first answer stands."""

    code = "duplicate_submission"
    status = 409


class ContentChanged(AlreadyClosed):
    """What you answered is not what this case shows; nothing was recorded."""

    code = "content_changed"


class CaseExpired(RequestError):
    """This case expired before the answer arrived."""

    code = "case_expired"
    status = 410


class RateLimited(RequestError):
    """Too many requests for this case; wait and try again."""

    code = "rate_limited"
    status = 429


class BadRequest(RequestError):
    """The request breaks a rule."""


class InvalidJson(BadRequest):
    """The body is not valid JSON."""

    code = "invalid_json"


class InvalidSubmission(BadRequest):
    """The answer does not have the shape this case asks for."""

    code = "invalid_submission"


class InvalidAction(BadRequest):
    """This case does not offer that action."""

    code = "invalid_action"


class InvalidSelection(BadRequest):
    """The selection does not fit what was offered."""

    code = "invalid_selection"


class InvalidInput(BadRequest):
    """Some answers are missing or do not fit their fields."""

    code = "invalid_input"


class InvalidForm(BadRequest):
    """The form itself is not well defined."""

    code = "invalid_form"


class ChoiceRequired(BadRequest):
    """Send exactly one of prefer_hitl or skip_hitl."""

    code = "HITL_CHOICE_REQUIRED"


class ValidationFailed(BadRequest):
    """The request does not fit the documented shape."""

    code = "invalid_request"


class InvalidChoice(ValidationFailed):
    """Send either prefer_hitl or skip_hitl as true, not both."""

    code = "VALIDATION_ERROR"


class BodyTooLarge(ValidationFailed):
    """The body is larger than this server accepts."""

    status = 413


class CaseConflict(PlacetError):
    """The case changed while it was being written; look again."""

    code = "conflict"
    status = 409


class RelayConflict(PlacetError):
    """Someone else changed this first; look again."""

    code = "conflict"
    status = 409


class Unavailable(PlacetError):
    """The store cannot take this right now; nothing was recorded."""

    code = "unavailable"
    status = 503


class Unreachable(Unavailable):
    """The other side could not be reached, or gave no proper answer in time."""


class SettingsError(PlacetError):
    """A setting is missing, unknown, or does not fit."""

    code = "settings"


class MigrationError(SettingsError):
    """The database's schema does not fit this version of Placet."""


class MissingExtra(PlacetError, ImportError):
    """A part of Placet is used whose extra is not installed."""

    code = "missing_extra"
    extra: str = ""

    @classmethod
    def of(cls, user: str, extra: str) -> Self:
        """Return the error for a command, module or setting that needs an extra."""
        error = cls(f'{user} needs the extra "{extra}": pip install "placet[{extra}]"')
        error.extra = extra
        return error


class FollowFailed(PlacetError):
    """The case could not be followed to its end; nothing is known of its result."""

    code = "follow_failed"


class UnreadableAnswer(FollowFailed):
    """The service's answer cannot be understood."""

    code = "unreadable_answer"


class CaseLost(FollowFailed):
    """The service does not let us follow this case any more."""

    code = "case_lost"


class CredentialsRefused(FollowFailed):
    """The service does not take our credentials for this case."""

    code = "credentials_refused"


class NotificationFailed(FollowFailed):
    """The person could not be told."""

    code = "notification_failed"


class CaseNotSaved(FollowFailed):
    """The case cannot be kept, so that a restart would lose it."""

    code = "case_not_saved"


class StillWaiting(FollowFailed):
    """The person has not decided yet."""

    code = "still_waiting"


class HookError(PlacetError):
    """The tool calls of this agent cannot go on as asked."""

    code = "hook_error"


class InvalidFeedback(HookError):
    """The answers do not fit the calls that wait for them; nothing was stored."""

    code = "invalid_feedback"


class NothingToResume(HookError):
    """This thread waits for nobody."""

    code = "nothing_to_resume"


class ThreadPaused(HookError):
    """This thread waits for a person; answer its calls first, or say what becomes of them."""

    code = "thread_paused"


class ThreadBusy(HookError):
    """Another process is working on this thread."""

    code = "thread_busy"


class CaseNotOpened(HookError):
    """No case can be opened for these calls; they wait, and can be answered in code."""

    code = "case_not_opened"

    def __init__(self, message: str | None = None, *, waiting: Any = None, **details: Any) -> None:
        super().__init__(message, **details)
        self.waiting = waiting
        """The interruption that waits for answers."""


class CheckpointConflict(HookError):
    """Someone else has moved this thread on."""

    code = "checkpoint_conflict"


class ApprovalPending(HookError):
    """A person has to decide this call first; nothing was run."""

    code = "approval_pending"


class CallRejected(HookError):
    """A person rejected this call; nothing was run."""

    code = "call_rejected"


class ModelMisbehaved(HookError):
    """The model's reply is not an assistant message."""

    code = "model_misbehaved"


class ChannelRefused(PlacetError):
    """The messenger does not take this message."""

    code = "channel_refused"


class AddressRefused(PlacetError):
    """This address may not be called from here."""

    code = "address_refused"


class SignatureInvalid(PlacetError):
    """The signature does not match."""

    code = "signature_invalid"
