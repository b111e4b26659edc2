"""Hold an answer given on our page until the person has proved who they are, then take it.

The answer waits as a verification attempt. Whatever goes wrong, the case stays open and the attempt lapses.
"""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from placet.cases.case import Case, Offer
from placet.desk import random_values
from placet.desk.answer import Answer, GivenProofs
from placet.desk.review_desk import ReviewDesk
from placet.errors import CaseConflict, CaseNotFound, RateLimited, VerificationFailed
from placet.ports.proof_method import ProofMethod, ProofRequest
from placet.ports.verification_store import PageProof, VerificationAttempt, VerificationStore
from placet.protocol.verification import EvidenceRequirement, ProofSource, VerificationPolicy, satisfies
from placet.text.wording import message

ATTEMPT_LIFETIME = timedelta(minutes=15)
MAX_ATTEMPTS = 20
"""How many answers of one case may wait for a proof at a time."""
MAX_FAILURES = 5


class OpenMethod(Struct, frozen=True, kw_only=True):
    """A method that the person may use now, and what the page shows of it."""

    name: str
    shown: Mapping[str, Any]


class ProofInput(Struct, frozen=True, kw_only=True):
    """What a person sends for one method, and the network address that it comes from."""

    method: str
    typed: Mapping[str, str]
    address: str | None


class PageVerification:
    """Collects the proofs of an answer with the methods of this server."""

    def __init__(self, *, desk: ReviewDesk, store: VerificationStore, methods: Sequence[ProofMethod]) -> None:
        self._desk = desk
        self._store = store
        self._methods = {method.name: method for method in methods}

    @property
    def sources(self) -> tuple[ProofSource, ...]:
        """What the methods prove."""
        return tuple(method.source for method in self._methods.values())

    def applies_to(self, offer: Offer) -> bool:
        """Return whether an answer on our page needs proofs that our page collects."""
        policy = offer.verification_policy
        return policy is not None and policy.requires_evidence("browser_submit") and bool(self._methods)

    async def begin(
        self, case: Case, offer: Offer, answer: Answer, *, shown: str, address: str | None
    ) -> VerificationAttempt:
        """Check the answer and hold it. Raises as the desk's `answer` does if it could never be taken."""
        answer_digest = await self._desk.check_answer(case, offer, answer, shown=shown)
        now = self._desk.now()
        attempt = VerificationAttempt(
            id=random_values.generate_token(),
            case_id=case.id,
            action=answer.action,
            data=answer.data,
            answer_digest=answer_digest,
            actor=answer.actor,
            submitted_via=answer.submitted_via,
            responded_by=answer.responded_by,
            replay_digest=answer.replay_digest,
            created_at=now,
            expires_at=min(now + ATTEMPT_LIFETIME, case.expires_at),
        )
        attempt = await self._advance(attempt, offer, address)
        try:
            await self._store.add_verification_attempt(attempt, most=MAX_ATTEMPTS)
        except CaseConflict:
            raise RateLimited(
                "Too many answers of this case wait for a proof. Try again in 15 minutes.", retry_after=900
            ) from None
        return attempt

    async def load(self, case_id: str, attempt_id: str, actor: str) -> VerificationAttempt:
        """Return the attempt of this person. Raises CaseNotFound if it is over or somebody else's."""
        attempt = await self._store.get_verification_attempt(attempt_id)
        if attempt is None or (attempt.case_id, attempt.actor) != (case_id, actor):
            raise CaseNotFound()
        if self._desk.now() >= attempt.expires_at:
            raise CaseNotFound()
        return attempt

    def list_alternatives(self, attempt: VerificationAttempt, offer: Offer) -> list[list[OpenMethod]]:
        """Return the methods that are missing in each branch that the person can still complete."""
        return [
            [
                OpenMethod(name=method.name, shown=method.describe(attempt.started.get(method.name, {})))
                for method in methods
            ]
            for methods in self._find_open_branches(attempt, _require_policy(offer))
        ]

    def is_proved(self, attempt: VerificationAttempt, offer: Offer) -> bool:
        """Return whether the proofs that were given satisfy the policy."""
        return any(not _list_open(branch.all_of, attempt.proofs) for branch in _list_branches(offer))

    async def start(
        self, attempt: VerificationAttempt, offer: Offer, given: ProofInput
    ) -> VerificationAttempt:
        """Start a method with what the person typed, such as the address for a code."""
        method = self._require_method(attempt, offer, given.method)
        # The next version is written first, so that two requests cannot both send a code.
        attempt = await self._save(attempt)
        request = self._build_request(attempt, offer, given.address)
        state = await method.start(request, given.typed, attempt.started.get(method.name, {}))
        return await self._save(replace(attempt, started={**attempt.started, method.name: state}))

    async def finish(
        self, attempt: VerificationAttempt, offer: Offer, given: ProofInput
    ) -> VerificationAttempt:
        """Add the proof of one method. Raises VerificationFailed; after some failures the attempt is over."""
        method = self._require_method(attempt, offer, given.method)
        state = attempt.started.get(method.name)
        if state is None:
            raise VerificationFailed(message("This has expired. Try again."))
        # What was started is used up before it is checked: it can be presented once.
        attempt = await self._save(attempt if method.may_retry else _without(attempt, method.name))
        try:
            request = self._build_request(attempt, offer, given.address)
            proof = await method.finish(request, given.typed, state)
            _require_one_person(attempt.proofs, proof)
        except VerificationFailed:
            await self._count_failure(attempt, offer, given.address)
            raise
        proven = replace(_without(attempt, method.name), proofs=(*attempt.proofs, proof))
        return await self._save(await self._advance(proven, offer, given.address))

    async def check_automatic(
        self, attempt: VerificationAttempt, offer: Offer, address: str | None
    ) -> VerificationAttempt:
        """Try what needs nothing from the person once more, such as the network they are in."""
        return await self._save(await self._advance(attempt, offer, address))

    async def take(self, attempt: VerificationAttempt, *, shown: str) -> Case:
        """Take the answer with its proofs. Raises as the desk's `answer` does."""
        person = next((proof.person for proof in attempt.proofs if proof.person), attempt.responded_by)
        answer = Answer(
            action=attempt.action,
            data=attempt.data,
            path="browser_submit",
            actor=attempt.actor,
            submitted_via=attempt.submitted_via,
            responded_by=person,
            given=GivenProofs(
                attempt_id=attempt.id, answer_digest=attempt.answer_digest, proofs=attempt.proofs
            ),
            replay_digest=attempt.replay_digest,
        )
        case = await self._desk.answer(attempt.case_id, answer, shown=shown)
        await self._store.delete_verification_attempt(attempt.id)
        return case

    async def _advance(
        self, attempt: VerificationAttempt, offer: Offer, address: str | None
    ) -> VerificationAttempt:
        """Add what needs nothing from the person, and start what needs nothing typed."""
        policy = _require_policy(offer)
        for method in self._find_open_methods(attempt, policy):
            request = self._build_request(attempt, offer, address)
            if method.is_automatic:
                try:
                    proof = await method.finish(request, {}, {})
                except VerificationFailed:
                    continue
                attempt = replace(attempt, proofs=(*attempt.proofs, proof))
            elif method.starts_alone and method.name not in attempt.started:
                state = await method.start(request, {}, {})
                attempt = replace(attempt, started={**attempt.started, method.name: state})
        return attempt

    async def _count_failure(self, attempt: VerificationAttempt, offer: Offer, address: str | None) -> None:
        failed = replace(attempt, failures=attempt.failures + 1)
        if failed.failures >= MAX_FAILURES:
            await self._store.delete_verification_attempt(attempt.id)
            raise VerificationFailed(message("Too many attempts failed. Go back and decide again."))
        await self._save(await self._advance(failed, offer, address))

    async def _save(self, attempt: VerificationAttempt) -> VerificationAttempt:
        following = replace(attempt, version=attempt.version + 1)
        await self._store.update_verification_attempt(following)
        return following

    def _find_open_branches(
        self, attempt: VerificationAttempt, policy: VerificationPolicy
    ) -> list[list[ProofMethod]]:
        branches: list[list[ProofMethod]] = []
        for branch in policy.requirements.any_of:
            useful = [
                next((one for one in self._methods.values() if one.source.can_meet(need)), None)
                for need in _list_open(branch.all_of, attempt.proofs)
            ]
            known = list({one.name: one for one in useful if one is not None}.values())
            if None not in useful and known not in branches:
                branches.append(known)  # else nothing that the person does here completes this branch
        return branches

    def _find_open_methods(
        self, attempt: VerificationAttempt, policy: VerificationPolicy
    ) -> list[ProofMethod]:
        branches = self._find_open_branches(attempt, policy)
        return list({one.name: one for methods in branches for one in methods}.values())

    def _require_method(self, attempt: VerificationAttempt, offer: Offer, name: str) -> ProofMethod:
        for method in self._find_open_methods(attempt, _require_policy(offer)):
            if method.name == name and not method.is_automatic:
                return method
        raise VerificationFailed(message("This proof is not asked for here."))

    def _build_request(self, attempt: VerificationAttempt, offer: Offer, address: str | None) -> ProofRequest:
        return ProofRequest(
            case_id=attempt.case_id,
            attempt_id=attempt.id,
            prompt=offer.prompt,
            action=attempt.action,
            answer_digest=attempt.answer_digest,
            reviewers=offer.reviewers,
            address=address,
            now=self._desk.now(),
        )


def _require_policy(offer: Offer) -> VerificationPolicy:
    if offer.verification_policy is None:
        raise VerificationFailed(message("This proof is not asked for here."))
    return offer.verification_policy


def _list_branches(offer: Offer) -> Sequence[Any]:
    return _require_policy(offer).requirements.any_of


def _list_open(
    needs: Sequence[EvidenceRequirement], proofs: Sequence[PageProof]
) -> list[EvidenceRequirement]:
    return [need for need in needs if not any(satisfies(need, proof.format, proof.found) for proof in proofs)]


def _without(attempt: VerificationAttempt, name: str) -> VerificationAttempt:
    return replace(attempt, started={key: value for key, value in attempt.started.items() if key != name})


def _require_one_person(proofs: Sequence[PageProof], proof: PageProof) -> None:
    """Raise VerificationFailed if two proofs of one answer name two people."""
    emails = {
        one.person.email.lower() for one in (*proofs, proof) if one.person is not None and one.person.email
    }
    if len(emails) > 1:
        raise VerificationFailed(message("This proof is of another person than the one before."))
