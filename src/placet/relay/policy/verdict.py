"""What the policies say about a message: the one value from the detectors to the audit."""

from msgspec import Struct

from placet.relay.a2a.call import A2ACall
from placet.relay.a2a.errors import A2AError
from placet.relay.a2a.reply import A2AReply
from placet.relay.policy.binding import BindingLevel
from placet.relay.policy.evaluation import Evaluation, Outcome


class HoldingPolicy(Struct, frozen=True, kw_only=True):
    """The policy that decided about a message, as holds store it and callers see it."""

    id: str
    name: str
    version: str
    level: BindingLevel

    def describe(self) -> dict[str, str]:
        """Return what callers see of the policy."""
        return {
            "policy_name": self.name,
            "policy_version": self.version,
            "policy_level": self.level.value,
        }


def get_holding_policy(evaluation: Evaluation) -> HoldingPolicy | None:
    """Return the policy that decided an evaluation, or None."""
    if evaluation.decided_by is None:
        return None
    policy = evaluation.decided_by.policy
    return HoldingPolicy(
        id=policy.policy_id, name=policy.name, version=policy.version, level=evaluation.decided_by.level
    )


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
        policy = get_holding_policy(self.evaluation)
        if policy is None:
            return A2AError("refused", "A policy blocked this message.")
        return A2AError("refused", f"A policy blocked this message: {policy.name}.", data=policy.describe())


PASS = PolicyVerdict()
UNWATCHED = PolicyVerdict(is_watched=False)
