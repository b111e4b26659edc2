"""What the policies say about a message: the one value from the detectors to the audit."""

from msgspec import Struct

from placet.relay.a2a.call import A2ACall
from placet.relay.a2a.errors import A2AError
from placet.relay.a2a.reply import A2AReply
from placet.relay.policy.evaluation import Evaluation, Outcome

PASS_EVALUATION = Evaluation(outcome=Outcome.PASS)


class PolicyVerdict(Struct, frozen=True, kw_only=True):
    """What the policies say about a message, or about events of a stream that were inspected together."""

    evaluation: Evaluation = PASS_EVALUATION
    messages: tuple[A2ACall | A2AReply, ...] = ()
    """What is forwarded or held in place of what was inspected; empty if that is unchanged."""
    is_watched: bool = True
    """Whether any policy applies. What was inspected is sent as it was parsed, not as it arrived."""

    @property
    def outcome(self) -> Outcome:
        """Return what happens to the message."""
        return self.evaluation.outcome

    def build_refusal(self) -> A2AError:
        """Return the error for the caller. It names the policy, but not what matched."""
        applied = self.evaluation.decided_by
        if applied is None:
            return A2AError("refused", "A policy blocked this message.")
        return A2AError(
            "refused",
            f"A policy blocked this message: {applied.policy.name}.",
            data={
                "policy_name": applied.policy.name,
                "policy_version": applied.policy.version,
                "policy_level": applied.level.value,
            },
        )


PASS = PolicyVerdict()
UNWATCHED = PolicyVerdict(is_watched=False)
