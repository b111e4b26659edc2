"""The errors that callers and users of Placet meet, with wire code and HTTP status.

PlacetError
├── RequestError               the caller can fix it
│   ├── InvalidToken           401  invalid_token
│   │   ├── SessionEnded       401  invalid_token
│   │   └── KeyEnded           401  invalid_token
│   ├── NotPermitted           403  not_permitted
│   ├── ActionNotInline        403  action_not_inline
│   ├── VerificationRequired   403  verification_required
│   │   ├── SecondPersonRequired 403  verification_required
│   │   └── OutsideFrameRequired 403  verification_required
│   ├── VerificationFailed     403  verification_failed
│   ├── CaseNotFound           404  not_found
│   ├── MethodNotAllowed       405  method_not_allowed
│   ├── AlreadyClosed          409  duplicate_submission
│   │   └── ContentChanged     409  content_changed
│   ├── OperationConflict      409  operation_conflict
│   ├── CaseStillOpen          409  case_open
│   ├── CaseExpired            410  case_expired
│   ├── UnsupportedEncoding    415  unsupported_encoding
│   ├── RateLimited            429  rate_limited
│   │   └── QuotaExceeded      429  rate_limited
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
│           ├── CaseNotCompleted 400  invalid_request
│           └── BodyTooLarge   413  invalid_request
├── CaseConflict               409  conflict: the case changed while it was written; the desk retries
├── RelayConflict              409  conflict: a record of the relay changed while it was written
├── Unavailable                503  unavailable
│   ├── DetectorBusy           503  unavailable
│   ├── ContentAltered         503  unavailable
│   └── Unreachable            503  unavailable
├── SettingsError              the operator can fix it
│   ├── CaseFileUnavailable    the file of pending cases cannot be used
│   └── MigrationError
├── MissingExtra               an optional part whose extra is not installed
├── FollowFailed               an agent could not follow a case to its end
│   ├── UnreadableAnswer       the service's response cannot be read
│   ├── CaseLost               the service no longer reports the status of the case
│   ├── CredentialsRefused     the service refuses the agent's credentials
│   ├── NotificationFailed     the review link could not be sent
│   ├── CaseNotSaved           the file of pending cases cannot be written
│   ├── SignatureRequired      the decision has no valid signature, and the caller requires one
│   ├── KeysUnavailable        the keys of a required signature cannot be fetched
│   └── StillWaiting           the agent's max_wait is over and the case is still open
├── HookError                  a tool call could not be gated, answered or resumed
│   ├── InvalidFeedback        the answers do not match the waiting calls
│   │   └── AlreadyDecided     the calls were decided otherwise before
│   ├── NothingToResume        no call of the thread waits for an answer
│   ├── ThreadPaused           a new message to a thread that waits for a person
│   ├── ThreadBusy             another process is running the thread
│   ├── CaseNotOpened          no case can be opened for the calls
│   ├── CheckpointConflict     another process has saved a newer checkpoint
│   ├── ApprovalPending        a person has to decide about the call first
│   ├── CallRejected           a person rejected the call
│   └── ModelMisbehaved        the model's reply is not an assistant message
├── ServerRefused              the server answered a client with an error
├── ChannelRefused             a messenger refused a message
├── AddressRefused             an address that must not be called
└── SignatureInvalid           the signature of a result or callback is not valid
"""

from collections.abc import Mapping
from types import MappingProxyType
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
        """Return the response body: `error`, `message` and the details, in one flat object."""
        details = {name: _make_plain(detail) for name, detail in self.details.items()}
        return {"error": self.code, "message": _make_plain(self.message), **details}


def _make_plain(detail: Any) -> Any:
    """Return a detail whose texts are plain `str`, not subclasses such as translatable messages."""
    if isinstance(detail, dict):
        return {name: _make_plain(part) for name, part in detail.items()}
    return str(detail) if isinstance(detail, str) else detail


class RequestError(PlacetError):
    """The request cannot be served. Correct it and send it again."""

    code = "bad_request"
    status = 400


class InvalidToken(RequestError):
    """Not authenticated: the token is missing, wrong, or for another resource."""

    code = "invalid_token"
    status = 401


class SessionEnded(InvalidToken):
    """Your session has ended. Open your link again."""


class KeyEnded(InvalidToken):
    """This API key has expired or was revoked."""


class NotPermitted(RequestError):
    """The API key does not have the scope that this request requires."""

    code = "not_permitted"
    status = 403


class ActionNotInline(RequestError):
    """This action is not available inline. Open the review link."""

    code = "action_not_inline"
    status = 403


class VerificationRequired(RequestError):
    """This case requires verification evidence. Open the review link."""

    code = "verification_required"
    status = 403


class SecondPersonRequired(VerificationRequired):
    """Four eyes: the approval must come from a known person other than the one who asked."""


class OutsideFrameRequired(VerificationRequired):
    """This decision is made on the page itself, not in a frame of another site."""


class VerificationFailed(RequestError):
    """The verification evidence is not valid. Open the review link."""

    code = "verification_failed"
    status = 403


class CaseNotFound(RequestError):
    """Case not found."""

    code = "not_found"
    status = 404


class MethodNotAllowed(RequestError):
    """This URL does not support the request method."""

    code = "method_not_allowed"
    status = 405


class AlreadyClosed(RequestError):
    """This case is already closed. The first answer counts."""

    code = "duplicate_submission"
    status = 409


class OperationConflict(RequestError):
    """The operation is not in a state in which this can be done."""

    code = "operation_conflict"
    status = 409


class ContentChanged(AlreadyClosed):
    """The answer is for other content than this case shows. Nothing was recorded; open the case again."""

    code = "content_changed"


class CaseStillOpen(RequestError):
    """This case is not decided yet. Report its calls after the decision."""

    code = "case_open"
    status = 409


class CaseExpired(RequestError):
    """This case expired before the answer arrived. Nothing was recorded."""

    code = "case_expired"
    status = 410


class UnsupportedEncoding(RequestError):
    """The body has a Content-Encoding other than gzip."""

    code = "unsupported_encoding"
    status = 415


class RateLimited(RequestError):
    """Too many requests for this case. Wait and try again."""

    code = "rate_limited"
    status = 429


class QuotaExceeded(RateLimited):
    """A quota of this principal is used up. `quota` says which, and `limit` how much it allows."""


class BadRequest(RequestError):
    """The request is not valid."""


class InvalidJson(BadRequest):
    """The body is not valid JSON."""

    code = "invalid_json"


class InvalidSubmission(BadRequest):
    """The answer does not have the shape that this case requires."""

    code = "invalid_submission"


class InvalidAction(BadRequest):
    """This case does not offer that action."""

    code = "invalid_action"


class InvalidSelection(BadRequest):
    """The selection does not match the offered options."""

    code = "invalid_selection"


class InvalidInput(BadRequest):
    """Some answers are missing or not valid. `fields` says which."""

    code = "invalid_input"


class InvalidForm(BadRequest):
    """The form definition is not valid."""

    code = "invalid_form"


class ChoiceRequired(BadRequest):
    """Send exactly one of prefer_hitl or skip_hitl."""

    code = "HITL_CHOICE_REQUIRED"


class ValidationFailed(BadRequest):
    """The request does not match the documented schema."""

    code = "invalid_request"


class InvalidChoice(ValidationFailed):
    """Send either prefer_hitl or skip_hitl as true, not both."""

    code = "VALIDATION_ERROR"


class CaseNotCompleted(ValidationFailed):
    """previous_case_id: only a completed case can be continued. Open this one without previous_case_id."""


class BodyTooLarge(ValidationFailed):
    """The request body is larger than this server accepts."""

    status = 413


class CaseConflict(PlacetError):
    """The case changed while it was being written. Read it again and retry."""

    code = "conflict"
    status = 409


class RelayConflict(PlacetError):
    """Another request changed this first. Read it again and retry."""

    code = "conflict"
    status = 409


class Unavailable(PlacetError):
    """Temporarily unavailable. Nothing was recorded; try again."""

    code = "unavailable"
    status = 503


class DetectorBusy(Unavailable):
    """Too many messages wait to be checked. Try again later."""


class ContentAltered(Unavailable):
    """The stored content of this case was altered. It cannot be shown or answered; ask again."""


class Unreachable(Unavailable):
    """The remote server could not be reached, or did not answer correctly in time."""


class SettingsError(PlacetError):
    """A setting is missing, unknown or not valid."""

    code = "settings"


class CaseFileUnavailable(SettingsError):
    """The file of pending cases cannot be opened, created or locked."""


class MigrationError(SettingsError):
    """The database schema does not match this version of Placet."""


class MissingExtra(PlacetError, ImportError):
    """An optional part of Placet is used, but its extra is not installed."""

    code = "missing_extra"

    def __init__(self, message: str | None = None, *, extra: str = "", **details: Any) -> None:
        self.extra = extra
        super().__init__(message, **details)

    @classmethod
    def of(cls, user: str, extra: str) -> Self:
        """Return the error for a command, module or setting that needs an extra."""
        return cls(f'{user} needs the extra "{extra}": pip install "placet[{extra}]"', extra=extra)


class FollowFailed(PlacetError):
    """The case could not be followed to its end. Its result is unknown."""

    code = "follow_failed"


class UnreadableAnswer(FollowFailed):
    """The service's response cannot be read."""

    code = "unreadable_answer"


class CaseLost(FollowFailed):
    """The service no longer reports the status of this case."""

    code = "case_lost"


class CredentialsRefused(FollowFailed):
    """The service does not accept the agent's credentials for this case."""

    code = "credentials_refused"


class NotificationFailed(FollowFailed):
    """The review link could not be sent to the person."""

    code = "notification_failed"


class CaseNotSaved(FollowFailed):
    """The pending case could not be saved. A restart of the agent would lose it."""

    code = "case_not_saved"


class SignatureRequired(FollowFailed):
    """The decision has no valid signature, and the caller requires one."""

    code = "signature_required"


class KeysUnavailable(FollowFailed):
    """The keys of a required signature cannot be fetched now. The case can be followed again."""

    code = "keys_unavailable"


class StillWaiting(FollowFailed):
    """The person has not decided yet."""

    code = "still_waiting"


class HookError(PlacetError):
    """The agent's tool calls cannot continue."""

    code = "hook_error"


class InvalidFeedback(HookError):
    """The answers do not match the calls that wait for them. Nothing was stored."""

    code = "invalid_feedback"


class AlreadyDecided(InvalidFeedback):
    """These calls already have another decision. The first decision stands."""

    code = "already_decided"

    def __init__(self, message: str | None = None, *, outcome: Any = None, **details: Any) -> None:
        super().__init__(message, **details)
        self.outcome = outcome
        """What the first decision led to: a result, or the calls that wait now; None if it is not known."""


class NothingToResume(HookError):
    """This thread has nothing to resume: no call waits for an answer."""

    code = "nothing_to_resume"


class ThreadPaused(HookError):
    """This thread waits for a person. Answer or reject its waiting calls first."""

    code = "thread_paused"


class ThreadBusy(HookError):
    """Another process is running this thread. Try again later."""

    code = "thread_busy"


class CaseNotOpened(HookError):
    """No case can be opened for these calls. They wait; answer them in code."""

    code = "case_not_opened"

    def __init__(self, message: str | None = None, *, waiting: Any = None, **details: Any) -> None:
        super().__init__(message, **details)
        self.waiting = waiting
        """The interruption that waits for answers."""


class CheckpointConflict(HookError):
    """Another process has saved a newer checkpoint of this thread. Load it again."""

    code = "checkpoint_conflict"


class ApprovalPending(HookError):
    """A person has to decide about this call first. Nothing was run."""

    code = "approval_pending"


class CallRejected(HookError):
    """A person rejected this call. Nothing was run."""

    code = "call_rejected"


class ModelMisbehaved(HookError):
    """The model's reply is not an assistant message."""

    code = "model_misbehaved"


class ServerRefused(PlacetError):
    """The server answered with an error; `code`, `status` and `details` are its own."""

    code = "server_refused"

    def __init__(
        self,
        message: str | None = None,
        *,
        code: str = "server_refused",
        status: int = 500,
        reply_details: Mapping[str, Any] = MappingProxyType({}),
        **details: Any,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.status = status
        self.details = {**reply_details, **details}

    @classmethod
    def of(cls, status: int, body: Mapping[str, Any]) -> Self:
        """Return the error for a response."""
        return cls(
            str(body.get("message") or f"The server answered HTTP {status}."),
            code=str(body.get("error") or "unknown"),
            status=status,
            reply_details={name: value for name, value in body.items() if name not in ("error", "message")},
        )


class ChannelRefused(PlacetError):
    """The messenger refused the message."""

    code = "channel_refused"


class AddressRefused(PlacetError):
    """This address must not be called."""

    code = "address_refused"


class SignatureInvalid(PlacetError):
    """The signature does not match."""

    code = "signature_invalid"
