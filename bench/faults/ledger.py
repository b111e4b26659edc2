"""What clients were told: every acknowledged case and answer, and what broke off before that."""

from datetime import datetime
from typing import Any

from msgspec import Struct, field


class AcknowledgedAnswer(Struct, frozen=True, kw_only=True):
    """An answer as it was sent, and when the server said it was taken."""

    action: str
    data: dict[str, Any]
    completed_at: datetime | None = None


class Promise(Struct, kw_only=True):
    """One acknowledged case: what was promised about it, and which answers may or may not have arrived."""

    case_id: str
    poll_url: str
    submit_url: str
    submit_token: str
    expires_at: datetime
    taken: AcknowledgedAnswer | None = None
    unsure: list[AcknowledgedAnswer] = field(default_factory=list)


class Ledger(Struct, kw_only=True):
    """Everything the clients know."""

    promises: dict[str, Promise] = field(default_factory=dict)
    unsure_openings: int = 0
    unsure_answers: int = 0
    refusals: dict[int, int] = field(default_factory=dict)
    surprises: list[str] = field(default_factory=list)

    @property
    def answers(self) -> int:
        """How many answers were acknowledged."""
        return sum(one.taken is not None for one in self.promises.values())

    def opened(self, hitl: dict[str, Any]) -> Promise:
        """Note a 202; the same case again is the same promise."""
        promise = Promise(
            case_id=hitl["case_id"],
            poll_url=hitl["poll_url"],
            submit_url=hitl["submit_url"],
            submit_token=hitl["submit_token"],
            expires_at=datetime.fromisoformat(hitl["expires_at"]),
        )
        return self.promises.setdefault(promise.case_id, promise)

    def answered(self, promise: Promise, answer: AcknowledgedAnswer) -> None:
        """Note a 200; a second one must be the first one over again."""
        if promise.taken is not None and promise.taken != answer:
            self.surprises.append(f"{promise.case_id}: acknowledged twice, {promise.taken} and {answer}")
        promise.taken = answer

    def refused(self, promise: Promise, status: int, *, now: datetime) -> None:
        """Note an answer that was not taken: there must be a reason for it."""
        self.refusals[status] = self.refusals.get(status, 0) + 1
        late = status == 410 and now >= promise.expires_at
        second = status == 409 and (promise.taken is not None or bool(promise.unsure))
        if not late and not second:
            self.surprises.append(f"{promise.case_id}: an answer was refused with {status} for no reason")
