"""The review desk: creates, shows, answers and cancels cases. Every entry point uses it."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, cast

from placet.cases.case import Case, Offer, Subject
from placet.cases.commands import Cancel, Command, Expire, PassOn, Respond, View, Work
from placet.cases.deadlines import SYSTEM, due_at
from placet.cases.events import Event
from placet.cases.grant import Grant
from placet.cases.machine import CaseStep, apply, require
from placet.cases.review_rules import ReviewRules
from placet.cases.tokens import token_digest
from placet.desk import random_values
from placet.desk.access import actor_of, require_owner, require_review_token, require_submit_token
from placet.desk.addresses import Addresses
from placet.desk.answer import Answer, check_answer, decide
from placet.desk.case_creation import BuildHold, CaseCreator, CreatedCase
from placet.desk.desk_store import DeskStore
from placet.desk.draft import CaseDraft
from placet.desk.evidence import judge_evidence
from placet.desk.grants import GrantService, build_grants
from placet.desk.limits import Limits
from placet.desk.new_deliveries import build_deliveries
from placet.desk.reviewer_notes import check_note
from placet.desk.signatures import Signatures
from placet.errors import (
    CaseConflict,
    CaseNotFound,
    ContentChanged,
    RequestError,
    Unavailable,
    ValidationFailed,
)
from placet.ports.case_store import CaseCreation, CaseUpdate, FormDraft
from placet.ports.identity import Principal
from placet.ports.signer import Signer
from placet.ports.verifier import EvidenceVerifier
from placet.protocol.inline_submit import SubmitReceipt, SubmitRequest
from placet.protocol.poll import Progress, Result, Status
from placet.text.wording import message

MAX_LINKS = 50
ATTEMPTS = 16  # conflicts are rare: sixteen in a row mean that the store does not work


class ReviewDesk:
    """The operations on cases. When a method returns, its change is durable; otherwise it raises."""

    def __init__(
        self,
        *,
        store: DeskStore,
        kinds: Mapping[str, ReviewRules],
        custom_kind: ReviewRules,
        addresses: Addresses,
        clock: Callable[[], datetime],
        limits: Limits | None = None,
        signer: Signer | None = None,
        verifier: EvidenceVerifier | None = None,
        check_callback: Callable[[str], Awaitable[None]] | None = None,
        service_name: str | None = None,
        observe: Callable[[CaseUpdate | CaseCreation], None] | None = None,
    ) -> None:
        self.store = store
        self.addresses = addresses
        self.limits = limits or Limits()
        self.signer = signer
        self._signatures = Signatures(signer, jwks_url=addresses.jwks) if signer else None
        self.verifier = verifier
        self.now = clock
        self.observe = observe
        self.grants = GrantService(store=store, clock=clock, keep_for=self.limits.keep_for, observe=observe)
        self._kinds = kinds
        self._custom_kind = custom_kind
        self._creator = CaseCreator(
            store=store,
            kind=self.kind,
            addresses=addresses,
            clock=clock,
            limits=self.limits,
            verifiable=verifier.paths if verifier else frozenset(),
            check_callback=check_callback,
            service_name=service_name,
            observe=observe,
        )

    def kind(self, type: str, context: Mapping[str, Any]) -> ReviewRules:
        """Return the review type with this name, in the variant for this context. Custom types share one."""
        return self._kinds.get(type, self._custom_kind).variant_for(context)

    async def open(
        self,
        draft: CaseDraft,
        principal: Principal,
        *,
        idempotency_key: str | None = None,
        subject: Subject | None = None,
        hold: BuildHold | None = None,
    ) -> CreatedCase:
        """Create a case and its hold in one transaction; a repeated Idempotency-Key returns the first."""
        return await self._creator.open(
            draft, principal, idempotency_key=idempotency_key, subject=subject or Subject(), hold=hold
        )

    async def require_callable(self, url: str) -> None:
        """Raise ValidationFailed for a URL that callbacks may not be sent to."""
        await self._creator.require_callable(url)

    # Reading

    async def get_owned_case(self, case_id: str, principal: Principal) -> Case:
        """Return a case of this principal. Raises CaseNotFound for a case of another one."""
        return require_owner(await self.store.get_case(case_id), principal)

    async def current(self, case_id: str, principal: Principal) -> Case:
        """Return the current state of a case of this principal. A case past its deadline is expired first."""
        case = require_owner(await self.store.get_case(case_id), principal)
        if not case.live or self.now() < case.expires_at:
            return case
        return await self._order(case_id, Expire(actor=SYSTEM))

    async def admit(self, case_id: str, review_token: str) -> tuple[Case, str]:
        """Return the case of a review link and the digest of that link. Changes nothing."""
        case = await self._require_case(case_id)
        return case, require_review_token(case, review_token)

    async def get_case_and_offer(self, case_id: str) -> tuple[Case, Offer]:
        """Return a case with its offer. Raises CaseNotFound."""
        found = await self.store.get_case_and_offer(case_id)
        if found is None:
            raise CaseNotFound()
        return found

    async def events(self, case_id: str, *, after: int = 0) -> Sequence[Event]:
        """Return the case's events with a sequence number above `after`."""
        return await self.store.list_events(case_id, after=after)

    async def rounds(self, case: Case, *, limit: int = 50) -> list[Case]:
        """Return the case with its previous and next cases, oldest first."""
        chain = [case]
        while chain[0].previous_case_id and len(chain) < limit:
            earlier = await self.store.get_case(chain[0].previous_case_id)
            if earlier is None or earlier.owner != case.owner:
                break
            chain.insert(0, earlier)
        while chain[-1].next_case_id and len(chain) < limit:
            later = await self.store.get_case(chain[-1].next_case_id)
            if later is None or later.owner != case.owner:
                break
            chain.append(later)
        return chain

    async def list_cases(
        self, principal: Principal, *, status: Status | None, before: str | None, limit: int
    ) -> Sequence[Case]:
        """Return the principal's cases, newest first."""
        return await self.store.list_cases(principal.name, status=status, before=before, limit=limit)

    # The reviewer

    async def view(self, case_id: str, *, actor: str) -> Case:
        """Record that the reviewer has opened the page."""
        return await self._order(case_id, View(actor=actor))

    async def work(
        self, case_id: str, *, actor: str, values: dict[str, Any], step: int, progress: Progress | None
    ) -> Case:
        """Save the values entered so far and record the progress. Sensitive values stay in the draft."""
        command = Work(actor=actor, progress=progress)
        case = await self._order(case_id, command)
        try:
            await self.store.save_draft(
                FormDraft(case_id=case_id, values=values, step=step, saved_at=self.now())
            )
        except CaseConflict:  # the case was closed meanwhile: this raises the error for its state
            return await self._order(case_id, command)
        return case

    async def pass_on(self, case_id: str, *, actor: str, note: str | None = None) -> str:
        """Return a new review link for a colleague. The event log records who passed the case on."""
        token = random_values.generate_token()
        command = PassOn(actor=actor, review_digest=token_digest(token), note=check_note(note))
        if len((await self._require_case(case_id)).review_digests) >= MAX_LINKS:
            most = message(
                "This question has been passed on {count} times; decide it here.", count=MAX_LINKS - 1
            )
            raise ValidationFailed(most)
        await self._order(case_id, command)
        return self.addresses.review(case_id, token)

    async def decline(self, case_id: str, *, actor: str, reason: str | None) -> Case:
        """Cancel the case because the reviewer will not decide it, with their reason (ruling 5)."""
        command = Cancel(actor=actor, reason=check_note(reason))
        return await self._order(case_id, command)

    async def answer(self, case_id: str, answer: Answer, *, shown: str | None = None) -> Case:
        """Apply the answer. Raises ContentChanged if `shown` is not the digest of the case's offer."""
        case, offer = await self.get_case_and_offer(case_id)
        return await self._take(case, offer, answer, shown)

    async def _take(self, case: Case, offer: Offer, answer: Answer, shown: str | None) -> Case:
        for _ in range(ATTEMPTS):
            if self._is_repeat(case, answer):
                return case
            if shown is not None and shown != case.offer_digest and case.live:
                raise ContentChanged()
            try:
                return await self._answer(case, offer, answer)
            except CaseConflict:
                case, offer = await self.get_case_and_offer(case.id)
        raise Unavailable()

    async def require_submitter(self, case_id: str, token: str | None) -> None:
        """Raise InvalidToken unless this token may answer this case inline."""
        require_submit_token((await self.get_case_and_offer(case_id))[0], token)

    async def submit_inline(
        self, case_id: str, token: str | None, request: SubmitRequest, *, replay_digest: str | None = None
    ) -> SubmitReceipt:
        """Apply an answer that an agent submits for a messenger's button."""
        case, offer = await self.get_case_and_offer(case_id)
        require_submit_token(case, token)
        answer = Answer(
            action=request.action,
            data=request.data,
            path="inline_submit",
            actor=f"inline:{request.submitted_by.platform}",
            submitted_via=request.submitted_via,
            submitted_by=request.submitted_by,
            evidence=request.verification_evidence,
            replay_digest=replay_digest,
        )
        try:
            case = await self._take(case, offer, answer, None)
        except RequestError as error:
            error.details.setdefault("case_id", case_id)
            if error.status == 403:  # spec 0.7: the page to open instead, without a token
                error.details.setdefault("review_url", self.addresses.page(case_id))
            raise
        return SubmitReceipt(
            status=case.status.value, case_id=case.id, completed_at=cast(datetime, case.closed_at)
        )

    async def _answer(self, case: Case, offer: Offer, answer: Answer) -> Case:
        require(case, Respond, now=self.now())  # a late or second answer gets this error before any other
        kind = self.kind(case.type, offer.context)
        data = check_answer(answer, offer, kind)
        judgement = await judge_evidence(
            answer.evidence,
            policy=offer.verification_policy,
            path=answer.path,
            case=case,
            action=answer.action,
            verifier=self.verifier,
            store=self.store,
            now=self.now(),
        )
        now = self.now()  # the deadline is checked after verification, which takes time
        result = Result(action=answer.action, data=data)
        if self._signatures is not None:
            result = await self._signatures.sign(result, case=case, now=now)
        grants = build_grants(case, offer, answer, data, now=now) if kind.offers_grants else ()
        decision = decide(answer, result, judgement.result)
        command = Respond(actor=answer.actor, decision=decision, grants=grants)
        step = apply(case, command, now=now, salt=random_values.generate_salt())
        return await self._commit(case, step, spent_evidence=judgement.spent, grants=grants)

    def _is_repeat(self, case: Case, answer: Answer) -> bool:
        decision = case.decision
        return (
            decision is not None
            and answer.replay_digest is not None
            and decision.replay_digest == answer.replay_digest
        )

    # The owner

    async def cancel(self, case_id: str, principal: Principal, *, reason: str | None) -> Case:
        """Cancel a case. Raises AlreadyClosed or CaseExpired if it is closed."""
        await self.get_owned_case(case_id, principal)
        command = Cancel(actor=actor_of(principal), reason=check_note(reason))
        return await self._order(case_id, command)

    # Writing

    async def order(self, case: Case, command: Command) -> Case:
        """Apply a command to this version of the case. Raises CaseConflict if it has changed."""
        step = apply(case, command, now=self.now(), salt=random_values.generate_salt())
        return await self._commit(case, step) if step.events else case

    async def _order(self, case_id: str, command: Command) -> Case:
        for _ in range(ATTEMPTS):
            try:
                return await self.order(await self._require_case(case_id), command)
            except CaseConflict:
                continue
        raise Unavailable()

    async def _require_case(self, case_id: str) -> Case:
        case = await self.store.get_case(case_id)
        if case is None or case.erased_at is not None:
            raise CaseNotFound()
        return case

    async def _commit(
        self,
        case: Case,
        step: CaseStep,
        *,
        spent_evidence: tuple[str, ...] = (),
        grants: tuple[Grant, ...] = (),
    ) -> Case:
        update = CaseUpdate(
            step=step,
            due_at=due_at(step.case, keep_for=self.limits.keep_for),
            deliveries=build_deliveries(step, random_values.generate_message_id),
            spent_evidence=spent_evidence,
            clear_draft=case.status is Status.IN_PROGRESS and not step.case.live,
            grants=grants,
        )
        await self.store.update_case(update)
        if self.observe is not None:
            self.observe(update)
        return step.case
