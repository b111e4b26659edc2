"""The review desk: creates, shows, answers and cancels cases. Every entry point uses it."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any, cast

import msgspec

from placet.cases.call_receipt import CallReceipt
from placet.cases.case import Case, Offer, Subject
from placet.cases.case_reader import CaseReader
from placet.cases.commands import (
    Cancel,
    Command,
    Expire,
    HandBack,
    HandBackAsLast,
    PassOn,
    RecordNotification,
    ReportCalls,
    Respond,
    View,
    Work,
)
from placet.cases.deadlines import SYSTEM, get_due_at
from placet.cases.events import Event
from placet.cases.grant import Grant
from placet.cases.machine import CaseStep, apply, clamp_time, require
from placet.cases.review_rules import ReviewRules
from placet.cases.tokens import digest_token
from placet.desk import clock as system_clock
from placet.desk import random_values
from placet.desk.access import (
    get_actor,
    require_owner,
    require_reader,
    require_review_token,
    require_submit_token,
)
from placet.desk.answer import Answer, check_answer, decide
from placet.desk.answer_signing import AnswerSigner
from placet.desk.case_creation import BuildHold, CaseCreator, CreatedCase
from placet.desk.case_limits import Limits
from placet.desk.case_urls import CaseUrls
from placet.desk.content_check import ContentCheck
from placet.desk.desk_store import DeskStore
from placet.desk.draft import CaseDraft
from placet.desk.evaluation_turns import EvaluationTurns
from placet.desk.evidence import compute_answer_digest, require_named_reviewer, verify_evidence
from placet.desk.four_eyes import require_second_person
from placet.desk.grants import GrantService, build_grants
from placet.desk.hand_back import ends_case
from placet.desk.new_deliveries import build_deliveries
from placet.desk.notifications import CaseNotifications
from placet.desk.quotas import CreationQuotas
from placet.desk.reviewer_notes import check_note
from placet.errors import (
    CaseConflict,
    CaseNotFound,
    ContentAltered,
    ContentChanged,
    NotPermitted,
    RequestError,
    Unavailable,
    ValidationFailed,
)
from placet.ports.case_store import CaseCreation, CaseUpdate, FormDraft
from placet.ports.identity import Principal
from placet.ports.outbox_store import Delivery
from placet.ports.rules_evaluator import InProcessEvaluator, RulesEvaluator
from placet.ports.signer import Signer
from placet.ports.verifier import EvidenceVerifier
from placet.protocol.inline_submit import SubmitReceipt, SubmitRequest
from placet.protocol.poll import Progress, RespondedBy, Result, Status
from placet.protocol.verification import ProofSource
from placet.text.wording import message

MAX_LINKS = 50
MIN_DRAFT_BYTES = 512  # what the quota counts for the event of a draft
ATTEMPTS = 16  # conflicts are rare: sixteen in a row mean that the store does not work


class ReviewDesk:
    """The operations on cases. When a method returns, its change is durable; otherwise it raises."""

    def __init__(
        self,
        *,
        store: DeskStore,
        review_types: Mapping[str, ReviewRules],
        custom_type: ReviewRules,
        addresses: CaseUrls,
        clock: Callable[[], datetime],
        limits: Limits | None = None,
        signer: Signer | None = None,
        verifier: EvidenceVerifier | None = None,
        proof_sources: Sequence[ProofSource] | None = None,
        evaluator: RulesEvaluator | None = None,
        check_callback: Callable[[str], Awaitable[None]] | None = None,
        service_name: str | None = None,
        four_eyes: bool = False,
        notifications: CaseNotifications | None = None,
        observe: Callable[[CaseUpdate | CaseCreation], None] | None = None,
        monotonic: Callable[[], float] = system_clock.monotonic,
    ) -> None:
        self.store = store
        self.addresses = addresses
        self.limits = limits or Limits()
        self.signer = signer
        self._answer_signer = AnswerSigner(signer, jwks_url=addresses.jwks) if signer else None
        self.verifier = verifier
        if proof_sources is None:
            proof_sources = verifier.sources if verifier else ()
        self.turns = EvaluationTurns(evaluator or InProcessEvaluator())
        self.now = clock
        self.notifications = notifications
        self.observe = observe
        self.service_name = service_name
        self.grants = GrantService(store=store, clock=clock, keep_for=self.limits.keep_for, observe=observe)
        self.quotas = CreationQuotas(store, self.limits, monotonic)
        self._content = ContentCheck(store, self._order)
        self._review_types = review_types
        self._custom_type = custom_type
        self._creator = CaseCreator(
            store=store,
            find_rules=self.find_rules,
            addresses=addresses,
            clock=clock,
            limits=self.limits,
            proof_sources=proof_sources,
            check_callback=check_callback,
            service_name=service_name,
            four_eyes=four_eyes,
            quotas=self.quotas,
            turns=self.turns,
            notifications=notifications,
            observe=observe,
        )

    def find_rules(self, type: str, context: Mapping[str, Any]) -> ReviewRules:
        """Return the review type with this name, in the variant for this context. Custom types share one."""
        return self._review_types.get(type, self._custom_type).variant_for(context)

    async def open(
        self,
        draft: CaseDraft,
        principal: Principal,
        *,
        idempotency_key: str | None = None,
        subject: Subject | None = None,
        hold: BuildHold | None = None,
        max_context_bytes: int | None = None,
    ) -> CreatedCase:
        """Create a case and its hold in one transaction; a repeated Idempotency-Key returns the first.

        `max_context_bytes` replaces the limit of the settings.
        """
        return await self._creator.open(
            draft,
            principal,
            idempotency_key=idempotency_key,
            subject=subject or Subject(),
            hold=hold,
            max_context_bytes=max_context_bytes,
        )

    async def require_callable(self, url: str) -> None:
        """Raise ValidationFailed for a URL that callbacks may not be sent to."""
        await self._creator.require_callable(url)

    # Reading

    async def get_owned_case(self, case_id: str, principal: Principal) -> Case:
        """Return a case of this principal. Raises CaseNotFound for a case of another one."""
        return require_owner(await self.store.get_case(case_id), principal)

    async def get_current_case(self, case_id: str, principal: Principal) -> Case:
        """Return the current state of a case that this principal may read, expired first if it is due.

        Raises ContentAltered for an open case that can no longer be answered.
        """
        return await self._get_current(require_reader(await self.store.get_case(case_id), principal))

    async def find_case_of_reader(self, case_id: str, is_by: Callable[[CaseReader], bool]) -> Case | None:
        """Return the current state of the case if the request is by the reader whom its draft named."""
        case = await self.store.get_case(case_id)
        if case is None or case.reader is None or not is_by(case.reader):
            return None
        return await self._get_current(case)

    async def _get_current(self, case: Case) -> Case:
        if not case.live:
            return case
        if self.now() >= case.expires_at:
            return await self._order(case.id, Expire(actor=SYSTEM))
        if case.altered_at is not None:
            raise ContentAltered(case_id=case.id)
        if not self._content.is_known(case):
            case, _ = await self.get_case_and_offer(case.id)
        return case

    async def admit(self, case_id: str, review_token: str) -> tuple[Case, str]:
        """Return the case of a review link and the digest of that link. Changes nothing."""
        case = await self._require_case(case_id)
        return case, require_review_token(case, review_token)

    async def get_case_and_offer(self, case_id: str) -> tuple[Case, Offer]:
        """Return a case with its verified offer. Raises CaseNotFound or ContentAltered."""
        found = await self.store.get_case_and_offer(case_id)
        if found is None:
            raise CaseNotFound()
        await self._content.require(*found)
        return found

    async def is_intact(self, case: Case, offer: Offer) -> bool:
        """Return whether a listed offer is the one that the case was created with. If not, mark the case."""
        return await self._content.is_intact(case, offer)

    async def list_events(self, case_id: str, *, after: int = 0) -> Sequence[Event]:
        """Return the case's events with a sequence number above `after`."""
        return await self.store.list_events(case_id, after=after)

    async def list_rounds(self, case: Case, *, limit: int = 50) -> list[Case]:
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

    async def save_progress(
        self, case_id: str, *, actor: str, values: dict[str, Any], step: int, progress: Progress | None
    ) -> Case:
        """Save the values entered so far and record the progress. Sensitive values stay in the draft."""
        owner = (await self._require_case(case_id)).owner
        size = MIN_DRAFT_BYTES + len(msgspec.json.encode(values))
        await self.quotas.check_draft(owner, size)
        command = Work(actor=actor, progress=progress)
        with self.quotas.reserve_draft(owner, size):
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
        command = PassOn(actor=actor, review_digest=digest_token(token), note=check_note(note))
        if len((await self._require_case(case_id)).review_digests) >= MAX_LINKS:
            most = message(
                "This question has been passed on {count} times; decide it here.", count=MAX_LINKS - 1
            )
            raise ValidationFailed(most)
        await self._order(case_id, command)
        return self.addresses.build_review_url(case_id, token)

    async def hand_back(
        self, case_id: str, *, actor: str, reason: str | None, by: RespondedBy | None = None
    ) -> Case:
        """Record that the reviewer will not decide. The case stays open for others (ruling 5).

        It is cancelled only if the owner asked one named person, and no other link to it exists.
        """
        note = check_note(reason)
        for _ in range(ATTEMPTS):
            case, offer = await self.get_case_and_offer(case_id)
            command = HandBackAsLast if ends_case(case, offer, actor) else HandBack
            try:
                return await self.apply_command(case, command(actor=actor, by=by, reason=note))
            except CaseConflict:
                continue
        raise Unavailable()

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

    async def check_answer(self, case: Case, offer: Offer, answer: Answer, *, shown: str) -> str:
        """Return the digest of an answer that only lacks its proofs; else raise as `answer` does."""
        require(case, Respond, now=self.now())
        if shown != case.offer_digest:
            raise ContentChanged()
        rules = self.find_rules(case.type, offer.context)
        data = await check_answer(answer, offer, rules, partial(self.turns.run, case.owner))
        return compute_answer_digest(case, answer.action, data)

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
            submitted_via=request.via,
            submitted_by=request.submitted_by,
            evidence=request.verification_evidence,
            replay_digest=replay_digest,
        )
        try:
            case = await self._take(case, offer, answer, None)
        except RequestError as error:
            error.details.setdefault("case_id", case_id)
            if error.status == 403:  # spec 0.7: the page to open instead, without a token
                page = case.own_review_url or self.addresses.build_page_url(case_id)
                error.details.setdefault("review_url", page)
            raise
        return SubmitReceipt(
            status=case.status.value, case_id=case.id, completed_at=cast(datetime, case.closed_at)
        )

    async def answer_for_reviewer(
        self,
        case_id: str,
        principal: Principal,
        *,
        action: str,
        data: dict[str, Any],
        responded_by: RespondedBy | None = None,
        replay_digest: str | None = None,
    ) -> Case:
        """Apply the answer that a person gave on the page of the principal's own service.

        Raises NotPermitted for a case that is shown on our page: there, people answer for themselves.
        """
        case, offer = await self.get_case_and_offer(
            require_owner(await self.store.get_case(case_id), principal).id
        )
        if case.own_review_url is None:
            raise NotPermitted("This case is shown on our page, where the reviewer answers it.")
        answer = Answer(
            action=action,
            data=data,
            path="browser_submit",
            actor=get_actor(principal),
            responded_by=responded_by,
            replay_digest=replay_digest,
        )
        return await self._take(case, offer, answer, None)

    async def _answer(self, case: Case, offer: Offer, answer: Answer) -> Case:
        require(case, Respond, now=self.now())  # a late or second answer gets this error before any other
        rules = self.find_rules(case.type, offer.context)
        data = await check_answer(answer, offer, rules, partial(self.turns.run, case.owner))
        require_second_person(case, offer, answer)
        require_named_reviewer(offer, answer)
        if data:
            self.quotas.count_answer(case.owner, len(msgspec.json.encode(data)))
        verification = await verify_evidence(
            answer,
            data,
            offer=offer,
            case=case,
            verifier=self.verifier,
            store=self.store,
            now=self.now(),
        )
        # The deadline is checked after verification, which takes time. The signature covers this time.
        now = clamp_time(case, self.now())
        result = Result(action=answer.action, data=data)
        if self._answer_signer is not None:
            result = await self._answer_signer.sign(
                result, case=case, now=now, verification=verification.result
            )
        grants = build_grants(case, offer, answer, data, now=now) if rules.offers_grants else ()
        decision = decide(answer, result, verification.result)
        command = Respond(actor=answer.actor, decision=decision, grants=grants)
        step = apply(case, command, now=now, salt=random_values.generate_salt())
        return await self._commit(case, step, spent_evidence=verification.spent, grants=grants)

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
        command = Cancel(actor=get_actor(principal), reason=check_note(reason))
        return await self._order(case_id, command)

    async def report_calls(self, case_id: str, principal: Principal, receipts: Sequence[CallReceipt]) -> Case:
        """Record what became of the calls of a closed case; the first receipt of each call counts.

        Raises CaseStillOpen before the decision, and ValidationFailed for a call that the case is not about.
        """
        await self.get_owned_case(case_id, principal)
        case, offer = await self.get_case_and_offer(case_id)
        known = self.find_rules(case.type, offer.context).list_call_ids(offer.context)
        for receipt in receipts:
            if receipt.call_id not in known:
                raise ValidationFailed(f"The case has no call {receipt.call_id[:100]!r}.")
        return await self._order(case_id, ReportCalls(actor=get_actor(principal), receipts=tuple(receipts)))

    # Notifications

    async def record_notification(self, case_id: str, details: dict[str, Any], *, is_reminder: bool) -> Case:
        """Record that a recipient was sent a message about the case; return its state after that."""
        return await self._order(
            case_id, RecordNotification(actor=SYSTEM, is_reminder=is_reminder, details=details)
        )

    # Writing

    async def apply_command(self, case: Case, command: Command) -> Case:
        """Apply a command to this version of the case. Raises CaseConflict if it has changed."""
        step = apply(case, command, now=self.now(), salt=random_values.generate_salt())
        return await self._commit(case, step) if step.events else case

    async def _order(self, case_id: str, command: Command) -> Case:
        for _ in range(ATTEMPTS):
            try:
                return await self.apply_command(await self._require_case(case_id), command)
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
            due_at=get_due_at(step.case, keep_for=self.limits.keep_for),
            deliveries=await self._build_deliveries(step),
            spent_evidence=spent_evidence,
            clear_draft=case.status is Status.IN_PROGRESS and not step.case.live,
            grants=grants,
        )
        await self.store.update_case(update)
        if self.observe is not None:
            self.observe(update)
        return step.case

    async def _build_deliveries(self, step: CaseStep) -> tuple[Delivery, ...]:
        deliveries = build_deliveries(step, random_values.generate_message_id)
        if self.notifications is None:
            return deliveries
        return (*deliveries, *await self.notifications.plan(step.case, step.events))
