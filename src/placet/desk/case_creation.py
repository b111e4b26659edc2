"""Creation of a case from a draft, in one transaction."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from typing import Any
from weakref import WeakValueDictionary

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from placet.cases.case import Case, Offer, Subject
from placet.cases.commands import Link
from placet.cases.deadlines import get_due_at
from placet.cases.machine import CaseStep, apply, begin
from placet.cases.review_rules import ReviewRules
from placet.cases.wire import build_human_input_required
from placet.desk import idempotency, random_values
from placet.desk.access import get_actor
from placet.desk.case_building import CaseCredentials, build_case, check_policy, prepare_offer
from placet.desk.case_limits import Limits
from placet.desk.case_urls import CaseUrls
from placet.desk.desk_store import DeskStore
from placet.desk.draft import CaseDraft
from placet.desk.evaluation_turns import EvaluationTurns
from placet.desk.notifications import CaseNotifications
from placet.desk.quotas import CreationQuotas
from placet.desk.schema_check import SchemaCheck
from placet.errors import AddressRefused, CaseConflict, Unavailable, ValidationFailed
from placet.ports.case_store import CaseCreation, IdempotencyRecord
from placet.ports.endpoint_store import Endpoint
from placet.ports.hold_store import HoldCreation
from placet.ports.identity import Principal
from placet.protocol.verification import ProofSource

ATTEMPTS = 16

BuildHold = Callable[[str], HoldCreation]
"""Builds the hold of a new case from the case's id."""


class CreatedCase(Struct, frozen=True, kw_only=True):
    """A new case, with the bytes of its 202 body."""

    case_id: str
    body: bytes


class IdempotentRequest(Struct, frozen=True, kw_only=True):
    """The idempotency key of a request and the digest of its content."""

    key: str
    request_digest: str


class CaseCreator:
    """Creates cases."""

    def __init__(
        self,
        *,
        store: DeskStore,
        find_rules: Callable[[str, Mapping[str, Any]], ReviewRules],
        addresses: CaseUrls,
        clock: Callable[[], datetime],
        limits: Limits,
        proof_sources: Sequence[ProofSource],
        check_callback: Callable[[str], Awaitable[None]] | None,
        service_name: str | None,
        four_eyes: bool,
        quotas: CreationQuotas,
        turns: EvaluationTurns,
        notifications: CaseNotifications | None = None,
        observe: Callable[[CaseCreation], None] | None = None,
    ) -> None:
        self._store = store
        self._find_rules = find_rules
        self._addresses = addresses
        self._now = clock
        self._limits = limits
        self._proof_sources = proof_sources
        self._check_callback = check_callback
        self._service_name = service_name
        self._four_eyes = four_eyes
        self._quotas = quotas
        self._schemas = SchemaCheck(turns)
        self._notifications = notifications
        self._observe = observe
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def open(
        self,
        draft: CaseDraft,
        principal: Principal,
        *,
        idempotency_key: str | None,
        subject: Subject,
        hold: BuildHold | None = None,
        max_context_bytes: int | None = None,
    ) -> CreatedCase:
        """Create the case, or return the first response if this key was used before.

        `hold` builds the hold that is written with the case. It cannot be combined with an idempotency key:
        the id of the hold identifies the request. Raises CaseConflict if that id is taken.
        `max_context_bytes` replaces the limit of the settings.
        """
        if idempotency_key is None or hold is not None:
            return await self._create(draft, principal, subject, None, hold, max_context_bytes)
        key = idempotency.check_key(idempotency_key)
        asked = msgspec.json.encode([draft, subject], order="deterministic")
        # The digest includes the key: without it, a guess of the erased content could be confirmed.
        repeatable = IdempotentRequest(key=key, request_digest=idempotency.digest(key, asked))
        for _ in range(ATTEMPTS):
            if first := await self._find_first_response(repeatable, principal):
                return first
            try:
                return await self._create(draft, principal, subject, repeatable, None)
            except CaseConflict:
                continue
        raise Unavailable()

    async def _find_first_response(
        self, request: IdempotentRequest, principal: Principal
    ) -> CreatedCase | None:
        replay = await self._store.get_idempotency_record(
            principal.name or "", idempotency.digest(request.key)
        )
        if replay is None or replay.expires_at <= self._now():
            return None
        case_id, body = idempotency.unseal(replay, key=request.key, request_digest=request.request_digest)
        return CreatedCase(case_id=case_id, body=body)

    async def _create(
        self,
        draft: CaseDraft,
        principal: Principal,
        subject: Subject,
        repeatable: IdempotentRequest | None,
        hold: BuildHold | None,
        max_context_bytes: int | None = None,
    ) -> CreatedCase:
        rules = self._find_rules(draft.type, draft.shown_context)
        limits = self._limits
        if max_context_bytes is not None:
            limits = replace(limits, max_context_bytes=max_context_bytes)
        case, offer, credentials = self._build_case(draft, rules, principal, subject, limits)
        case = await self._add_recipients(case, draft, rules)
        warnings = rules.list_warnings(offer.context)
        if case.callback_url is not None:
            try:
                await self.require_callable(case.callback_url)
            except ValidationFailed as refusal:
                if draft.callback_url is not None:
                    raise
                case = replace(case, callback_url=None)  # the agent asked for it, not the service
                warnings += (f"hitl_{refusal.message} Poll instead.",)
        body = self._build_body(case, offer, credentials, warnings)
        hidden = [part for part in (draft.page_context, draft.result_schema) if part]
        size = len(body) + (len(msgspec.json.encode(hidden)) if hidden else 0)
        await self._quotas.check(case.owner, size)
        # Reserved before anything else is awaited: requests at the same time must see each other.
        with self._quotas.reserve(case.owner, size):
            await self._schemas.check(case.owner, rules, _list_schemas(rules, offer))
            return await self._write(case, offer, body, principal, repeatable, hold)

    async def _write(
        self,
        case: Case,
        offer: Offer,
        body: bytes,
        principal: Principal,
        repeatable: IdempotentRequest | None,
        hold: BuildHold | None,
    ) -> CreatedCase:
        created: dict[str, Any] = {
            "type": case.type,
            "offer_digest": case.offer_digest,
            "expires_at": case.expires_at,
        }
        if case.recipients:
            created["recipients"] = case.recipients
        new_case, event = begin(case, created, actor=get_actor(principal), salt=random_values.generate_salt())
        creation = CaseCreation(
            case=new_case,
            offer=offer,
            events=(event,),
            due_at=get_due_at(new_case, keep_for=self._limits.keep_for),
            idempotency=self._replay(repeatable, new_case, body) if repeatable else None,
            endpoint=await self._build_endpoint(new_case) if new_case.callback_url else None,
            hold=hold(new_case.id) if hold is not None else None,
            deliveries=await self._notifications.plan(new_case, (event,)) if self._notifications else (),
        )
        if new_case.previous_case_id is None:
            await self._store.create_case(creation)
        else:
            creation = await self._create_linked(creation, principal)
        if self._observe is not None:
            self._observe(creation)
        return CreatedCase(case_id=new_case.id, body=body)

    async def _create_linked(self, creation: CaseCreation, principal: Principal) -> CaseCreation:
        """Write a follow-up case. Within this process, follow-ups of the same case are written one by one."""
        lock = self._locks.setdefault(creation.case.previous_case_id or "", asyncio.Lock())
        async with lock:
            for _ in range(ATTEMPTS):
                linked = replace(creation, link=await self._link_previous(creation.case, principal))
                try:
                    await self._store.create_case(linked)
                except CaseConflict:
                    if creation.idempotency is not None:
                        raise
                else:
                    return linked
        raise Unavailable()

    def _build_case(
        self, draft: CaseDraft, rules: ReviewRules, principal: Principal, subject: Subject, limits: Limits
    ) -> tuple[Case, Offer, CaseCredentials]:
        check_policy(draft, self._proof_sources, self._now())
        offer = prepare_offer(
            draft,
            rules,
            entry_point=subject.entry_point,
            limits=limits,
            service=self._service_name,
            four_eyes=self._four_eyes or draft.four_eyes,
            salt=random_values.generate_salt(),
        )
        now = self._now()
        credentials = CaseCredentials(
            case_id=random_values.generate_case_id(now),
            review_token=random_values.generate_token(),
            submit_token=random_values.generate_token(),
        )
        case = build_case(
            draft, offer, credentials, owner=principal.name, subject=subject, now=now, limits=limits
        )
        return case, offer, credentials

    async def _add_recipients(self, case: Case, draft: CaseDraft, rules: ReviewRules) -> Case:
        """Return the case with those whom it notifies. Raises ValidationFailed for an unknown recipient."""
        if self._notifications is not None:
            return await self._notifications.address(case, draft, entry_point=rules.entry_point)
        if draft.notify:
            raise ValidationFailed("notify: this server notifies nobody; leave the field out.")
        return case

    def _build_body(
        self, case: Case, offer: Offer, credentials: CaseCredentials, warnings: tuple[str, ...]
    ) -> bytes:
        submit_token = credentials.submit_token if case.submit_digest else None
        links = self._addresses.build_links(
            case.id, review_token=credentials.review_token, submit_token=submit_token
        )
        if case.own_review_url is not None:
            links = replace(links, review_url=case.own_review_url)
        return msgspec.json.encode(build_human_input_required(case, offer, links, warnings=warnings))

    def _replay(self, request: IdempotentRequest, case: Case, body: bytes) -> IdempotencyRecord:
        owner = case.owner or ""
        return IdempotencyRecord(
            owner=owner,
            key_digest=idempotency.digest(request.key),
            request_digest=request.request_digest,
            sealed_response=idempotency.seal(body, owner=owner, key=request.key, case_id=case.id),
            expires_at=max(case.expires_at, case.created_at + self._limits.replay_for),
        )

    async def _link_previous(self, case: Case, principal: Principal) -> CaseStep:
        """Return the step that links the previous case to this one. Both must have the same owner."""
        previous = await self._store.get_case(case.previous_case_id or "")
        if previous is None or previous.owner != principal.name or previous.erased_at is not None:
            raise ValidationFailed(f"previous_case_id: {case.previous_case_id!r} is not a case of yours.")
        command = Link(actor=get_actor(principal), next_case_id=case.id)
        return apply(previous, command, now=case.created_at, salt=random_values.generate_salt())

    async def _build_endpoint(self, case: Case) -> Endpoint | None:
        """Return a new endpoint with a new secret, or None if the owner has an endpoint with this URL."""
        owner, url = case.owner or "", case.callback_url or ""
        if await self._store.get_endpoint(owner, url) is not None:
            return None
        return Endpoint(
            owner=owner, url=url, secret=random_values.generate_callback_secret(), created_at=case.created_at
        )

    async def require_callable(self, url: str) -> None:
        """Raise ValidationFailed for a URL that callbacks may not be sent to."""
        if self._check_callback is None:
            raise ValidationFailed("callback_url: this server sends no callbacks; leave the field out.")
        try:
            await self._check_callback(url)
        except AddressRefused as error:
            raise ValidationFailed(f"callback_url: the address is refused. {error.message}") from error


def _list_schemas(rules: ReviewRules, offer: Offer) -> list[tuple[str, Mapping[str, Any]]]:
    """Return the schemas of an offer that somebody else wrote, each with its path."""
    schemas = list(rules.list_schemas(offer.context))
    if offer.result_schema is not None:
        schemas.append(("result_schema", offer.result_schema))
    return schemas
