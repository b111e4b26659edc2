"""A reviewer's answer, its validation, and the decision it becomes."""

from collections.abc import Awaitable, Callable
from typing import Any

from msgspec import Struct

from placet.cases.case import Decision, Offer
from placet.cases.review_rules import ReviewRules
from placet.errors import ActionNotInline, InvalidAction
from placet.ports.verification_store import PageProof
from placet.protocol.inline_submit import SubmittedBy
from placet.protocol.poll import RespondedBy, Result, SubmissionContext
from placet.protocol.verification import Evidence, SubmitPath, VerificationResult

Evaluate = Callable[..., Awaitable[dict[str, Any]]]
"""Runs a method of the rules that evaluates a schema of somebody else, as `RulesEvaluator.run`."""


class GivenProofs(Struct, frozen=True, kw_only=True):
    """The proofs that a person gave on our page for one answer."""

    attempt_id: str
    answer_digest: str
    proofs: tuple[PageProof, ...]


class Answer(Struct, frozen=True, kw_only=True):
    """The action and data that a reviewer submitted, and how they were submitted."""

    action: str
    data: dict[str, Any]
    path: SubmitPath
    actor: str
    submitted_via: str | None = None
    submitted_by: SubmittedBy | None = None
    responded_by: RespondedBy | None = None
    evidence: tuple[Evidence, ...] = ()
    given: GivenProofs | None = None
    replay_digest: str | None = None
    is_verified_press: bool = False
    """Whether a messenger reported the press to this server, which knows the person."""


def list_button_actions(offer: Offer, rules: ReviewRules) -> tuple[str, ...]:
    """Return the actions that a button of this server's own messages can take.

    They are the inline actions that the caller chose. A caller who chose none leaves it to the type, unless
    some of the content is on the page only, or an inline answer needs evidence.
    """
    policy = offer.verification_policy
    if policy is not None and policy.requires_evidence("inline_submit"):
        return ()
    if offer.inline_actions is not None:
        return offer.inline_actions
    return () if offer.page_only else rules.list_inline_actions(offer)


async def check_answer(
    answer: Answer, offer: Offer, rules: ReviewRules, evaluate: Evaluate
) -> dict[str, Any]:
    """Return the data to store. Raises InvalidAction, ActionNotInline, or an error of the review type."""
    if answer.action not in offer.actions:
        raise InvalidAction(
            f"{answer.action[:64]!r} is not an action of this case; use {', '.join(offer.actions)}."
        )
    data = answer.data
    if answer.path == "inline_submit":
        possible = list_button_actions(offer, rules) if answer.is_verified_press else offer.inline_actions
        if answer.action not in (possible or ()):
            raise ActionNotInline(f"{answer.action!r} cannot be taken inline; open the review link.")
        data = {**rules.build_inline_data(offer, answer.action), **data}
    if rules.evaluates_schema(offer, data):
        return await evaluate(rules.check, offer, answer.action, data)
    return rules.check(offer, answer.action, data)


def decide(answer: Answer, result: Result, verification: VerificationResult | None) -> Decision:
    """Return the decision to store. `submitted_by` is not verified, so it is not an identity (ruling 13)."""
    return Decision(
        result=result,
        submission=SubmissionContext(
            mode=answer.path,
            submitted_via=answer.submitted_via,
            submitted_by=answer.submitted_by,
            verification_result=verification,
        ),
        responded_by=answer.responded_by,
        replay_digest=answer.replay_digest,
    )
