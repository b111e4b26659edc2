"""Validation of a draft, and the offer and case that are built from it."""

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from placet.cases.case import Case, Offer, Subject, compute_offer_digest
from placet.cases.case_reader import CaseReader
from placet.cases.review_rules import ReviewRules
from placet.cases.tokens import digest_token
from placet.desk.case_limits import Limits
from placet.desk.draft import CaseDraft
from placet.errors import ValidationFailed
from placet.http.signed_requests import normalize_public_key
from placet.protocol.addresses import is_secure_or_loopback
from placet.protocol.agent_access import parse_agent_access
from placet.protocol.conversion import quote
from placet.protocol.duration import format_duration, parse_duration
from placet.protocol.forms import parse_form
from placet.protocol.hitl_object import DefaultAction
from placet.protocol.mail_address import is_mail_address
from placet.protocol.review_types import CONFIRMATION
from placet.protocol.surface import parse_surface
from placet.protocol.verification import (
    IDENTIFYING,
    ProofSource,
    RequirementBranch,
    SubmitPath,
    VerificationPolicy,
    find_unmeetable_branches,
)
from placet.protocol.versions import DEFAULT_VERSION, check_version, require_fields_in_version
from placet.text.characters import is_storable

_parse_duration = lru_cache(maxsize=256)(parse_duration)  # services use the same few timeouts
# The characters that `is_storable` refuses, in JSON: escaped if below the space, literal from DEL on.
_UNSTORABLE = re.compile(
    rb"(?<!\\)(?:\\\\)*\\(?:b|u00(?:0[0-8ef]|1[0-9a-f]))|\x7f|\xc2(?:[\x80-\x84]|[\x86-\x9f])"
)


class CaseCredentials(Struct, frozen=True, kw_only=True):
    """The id and the tokens of a new case. The tokens are sent with the 202 and never stored."""

    case_id: str
    review_token: str
    submit_token: str


def prepare_offer(
    draft: CaseDraft,
    rules: ReviewRules,
    *,
    entry_point: str,
    limits: Limits,
    service: str | None,
    salt: str,
    four_eyes: bool = False,
) -> Offer:
    """Return what the reviewer will see. Raises ValidationFailed or InvalidForm, naming the invalid field."""
    if rules.reserved_field is not None and entry_point != rules.entry_point:
        raise ValidationFailed(
            f"context.{rules.reserved_field}: only the {rules.entry_point} may send this. Rename the field."
        )
    if not draft.prompt.strip():
        raise ValidationFailed("prompt: is blank. Say in one sentence what the person decides.")
    if draft.default_action == "approve" and rules.requires_answer_to(draft.type):
        raise ValidationFailed("default_action: approve is not allowed for this review type.")
    if draft.default_action == "approve" and four_eyes:
        raise ValidationFailed("default_action: approve is not allowed under the four-eyes rule.")
    _check_texts(draft)
    _check_page_context(draft)
    _check_context(draft.shown_context, limits)
    context = rules.prepare(draft.shown_context)
    _check_result_schema(draft, rules, limits)
    if "form" in context and not rules.reads_form:
        parse_form(context["form"])  # the published schemas define its shape for every type
    return Offer(
        type=draft.type,
        prompt=draft.prompt,
        message=draft.message or draft.prompt,
        context=context,
        page_only=tuple(draft.page_context),
        result_schema=draft.result_schema,
        actions=_list_actions(draft, rules),
        affirmative_actions=_list_affirmative_actions(draft, rules),
        only_reviewer=draft.only_reviewer,
        four_eyes=four_eyes,
        asked_by=draft.asked_by if four_eyes else (),
        reviewers=draft.reviewers,
        inline_actions=_list_inline_actions(draft, rules, context),
        timeout=draft.timeout or format_duration(limits.default_timeout_for),
        surface=draft.surface,
        verification_policy=draft.verification_policy,
        service=draft.service or service,
        agent=draft.agent,
        salt=salt,
    )


def build_case(
    draft: CaseDraft,
    offer: Offer,
    credentials: CaseCredentials,
    *,
    owner: str | None,
    subject: Subject,
    now: datetime,
    limits: Limits,
) -> Case:
    """Return the new case. Raises ValidationFailed for an invalid timeout, default action or version."""
    version = check_version(DEFAULT_VERSION if draft.spec_version is None else draft.spec_version)
    require_fields_in_version(
        version,
        {"inline_actions": draft.inline_actions, "verification_policy": draft.verification_policy},
    )
    expires_at = now + _parse_timeout(draft, limits)
    return Case(
        id=credentials.case_id,
        type=draft.type,
        spec_version=version,
        created_at=now,
        expires_at=expires_at,
        default_action=_choose_default_action(draft),
        offer_digest=compute_offer_digest(credentials.case_id, offer),
        review_digests=() if draft.review_url else (digest_token(credentials.review_token),),
        submit_digest=digest_token(credentials.submit_token) if offer.inline_actions else None,
        owner=owner,
        callback_url=draft.hitl_callback_url if draft.callback_url is None else draft.callback_url,
        reader=_check_reader(draft.reader),
        own_review_url=_build_own_review_url(draft, offer, credentials.case_id),
        reminders=_list_reminders(draft, now, expires_at),
        previous_case_id=draft.previous_case_id,
        subject=subject,
    )


def check_policy(draft: CaseDraft, sources: Sequence[ProofSource], now: datetime) -> None:
    """Raise ValidationFailed if no answer could satisfy the policy, or nothing identifies the reviewers."""
    policy = draft.verification_policy
    if policy is not None:
        usable = [source for source in sources if draft.reviewers or not source.needs_reviewers]
        for path in _list_paths_to_meet(policy):
            if unmet := find_unmeetable_branches(policy, path, usable):
                raise ValidationFailed(_describe_unmeetable(path, unmet, sources))
        if policy.binding.expires_at is not None and policy.binding.expires_at <= now:
            raise ValidationFailed("verification_policy.binding.expires_at: has passed.")
    if draft.reviewers:
        _check_reviewers(draft)
    if parse_agent_access(draft.shown_context) is not None:
        _check_agent_access(draft)


def _list_paths_to_meet(policy: VerificationPolicy) -> list[SubmitPath]:
    """Return the paths on which the policy must be possible to meet.

    An inline answer without evidence may send the person to the page; then the page is the way to answer.
    """
    leads_to_page = policy.fallback.on_missing == "browser_review"
    return [
        path
        for path in policy.required_for
        if policy.requires_evidence(path) and not (path == "inline_submit" and leads_to_page)
    ]


def _describe_unmeetable(path: SubmitPath, unmet: Sequence[str], sources: Sequence[ProofSource]) -> str:
    known = [
        f"{one.proof_type} of {one.provider}{' if you name reviewers' if one.needs_reviewers else ''}"
        for one in sources
        if path in one.paths
    ]
    return (
        f"verification_policy: this server cannot verify {' or '.join(unmet)} on {path}, so nobody could"
        f" answer. On {path} it verifies {', '.join(known) or 'nothing'}."
    )


def _check_reviewers(draft: CaseDraft) -> None:
    policy = draft.verification_policy
    identifies = policy is not None and policy.requires_evidence("browser_submit")
    if policy is None or not identifies or not all(map(_names_person, policy.requirements.any_of)):
        raise ValidationFailed(
            "reviewers: needs a verification_policy that requires x-passkey or x-email-code on browser_submit"
            " in every branch of any_of. Nothing else tells who answers."
        )
    if draft.inline_actions:
        raise ValidationFailed(
            "reviewers: an inline answer does not prove who gave it. Leave out inline_actions or reviewers."
        )
    for address in draft.reviewers:
        if not is_mail_address(address):
            raise ValidationFailed(f"reviewers: '{quote(address)}' is not an e-mail address.")


def _check_agent_access(draft: CaseDraft) -> None:
    """Raise ValidationFailed for what the profile forbids in the review of an operation."""
    policy = draft.verification_policy
    if policy is None or not policy.requires_evidence("browser_submit"):
        raise ValidationFailed(
            "verification_policy: the review of an operation requires proof on browser_submit."
        )
    if draft.type != CONFIRMATION or draft.default_action != "abort" or draft.inline_actions:
        raise ValidationFailed(
            "The review of an operation is a confirmation with default_action abort and no inline_actions."
        )


def _names_person(branch: RequirementBranch) -> bool:
    return any(need.proof_type in IDENTIFYING for need in branch.all_of)


def _parse_timeout(draft: CaseDraft, limits: Limits) -> timedelta:
    if draft.timeout is None:
        return limits.default_timeout_for
    asked = _parse_duration(draft.timeout, "timeout")
    if asked > limits.max_timeout_for:
        raise ValidationFailed(
            f"timeout: {draft.timeout!r} is over the limit of {format_duration(limits.max_timeout_for)}."
        )
    return asked


def _choose_default_action(draft: CaseDraft) -> DefaultAction:
    if draft.default_action != "approve":
        return draft.default_action or "skip"
    if not draft.allow_default_approve:
        raise ValidationFailed("default_action: approve needs allow_default_approve: true beside it.")
    return "approve"


def _build_own_review_url(draft: CaseDraft, offer: Offer, case_id: str) -> str | None:
    """Return the URL of the service's own page. Raises ValidationFailed where ours has to be used."""
    if draft.review_url is None:
        return None
    policy = offer.verification_policy
    if offer.four_eyes or offer.reviewers or policy is not None:
        raise ValidationFailed(
            "review_url: four_eyes, reviewers and verification_policy need our page, since we know and check "
            "the person there. Leave review_url out."
        )
    if draft.page_context:
        raise ValidationFailed("review_url: page_context is for our page. Leave one of them out.")
    url = draft.review_url.replace("{case_id}", case_id)
    if not is_secure_or_loopback(url):
        raise ValidationFailed("review_url: use an https:// address without a user name, or loopback.")
    return url


def _check_reader(reader: CaseReader | None) -> CaseReader | None:
    if reader is None:
        return None
    if reader == CaseReader():
        raise ValidationFailed("reader: name the agent by bearer_sha256, by public_key or by principal.")
    if reader.public_key is None:
        return reader
    try:
        return replace(reader, public_key=normalize_public_key(reader.public_key))
    except ValidationFailed as error:
        raise ValidationFailed(f"reader.{error.message}") from error


def _list_reminders(draft: CaseDraft, now: datetime, expires_at: datetime) -> tuple[datetime, ...]:
    asked = draft.reminder_at
    moments = () if asked is None else (asked,) if isinstance(asked, datetime) else asked
    for moment in moments:
        if not now < moment < expires_at:
            raise ValidationFailed(f"reminder_at: {moment.isoformat()} is not between now and expires_at.")
    return tuple(sorted({moment.astimezone(UTC) for moment in moments}))


def _list_actions(draft: CaseDraft, rules: ReviewRules) -> tuple[str, ...]:
    custom = draft.type.startswith("x-") and not rules.actions
    if custom and not draft.actions:
        raise ValidationFailed(f"actions: a custom type declares its actions; add them for {draft.type}.")
    if not custom and draft.actions is not None and not rules.takes_custom_actions:
        raise ValidationFailed(
            f"actions: only escalations and custom x-… types declare actions; {draft.type} has its own."
        )
    actions = tuple(dict.fromkeys(draft.actions or rules.actions))
    if not actions:
        raise ValidationFailed(f"type: {draft.type[:100]!r} is neither a standard type nor an x-… type.")
    return actions


def _list_affirmative_actions(draft: CaseDraft, rules: ReviewRules) -> tuple[str, ...]:
    actions, affirmative = draft.actions or (), draft.affirmative_actions or ()
    for action in affirmative:
        if action not in actions:
            raise ValidationFailed(
                f"affirmative_actions: {action!r} is not in actions, the actions that the case declares."
            )
    if draft.actions is None:
        return ()
    return rules.list_affirmative_actions(tuple(dict.fromkeys(actions)), tuple(dict.fromkeys(affirmative)))


def _list_inline_actions(
    draft: CaseDraft, rules: ReviewRules, context: dict[str, Any]
) -> tuple[str, ...] | None:
    if draft.inline_actions is None:
        return None
    possible = draft.actions or rules.inline_for(context)
    for action in draft.inline_actions:
        if action not in possible:
            named = f"inline_actions: '{quote(action)}' cannot be an inline action of this {draft.type}."
            raise ValidationFailed(f"{named} Use {' or '.join(possible)}." if possible else named)
    return tuple(dict.fromkeys(draft.inline_actions))


def _check_texts(draft: CaseDraft) -> None:
    for name in ("prompt", "message", "service", "agent"):
        if not is_storable(getattr(draft, name) or ""):
            raise _build_unstorable_error(name)
    if not all(map(is_storable, draft.asked_by)):
        raise _build_unstorable_error("asked_by")
    if draft.surface is not None:
        parse_surface(msgspec.to_builtins(draft.surface))
    if draft.verification_policy is not None:
        _encode_json("verification_policy", draft.verification_policy)


def _check_page_context(draft: CaseDraft) -> None:
    if twice := draft.context.keys() & draft.page_context.keys():
        raise ValidationFailed(
            f"page_context.{quote(min(twice))}: context has this name too. Send it in one of the two."
        )
    if draft.page_context and draft.inline_actions:
        raise ValidationFailed(
            "inline_actions: a case with page_context is answered on its page only, because nobody else sees "
            "all of it. Leave out one of the two."
        )


def _check_result_schema(draft: CaseDraft, rules: ReviewRules, limits: Limits) -> None:
    """Raise ValidationFailed if the type takes no schema, or it is too large. It is read later."""
    if draft.result_schema is None:
        return
    if not rules.takes_result_schema:
        raise ValidationFailed("result_schema: the answers to this case have a fixed form. Leave it out.")
    if len(_encode_json("result_schema", draft.result_schema)) > limits.max_context_bytes:
        raise ValidationFailed(f"result_schema: is larger than {limits.max_context_bytes} bytes.")


def _check_context(context: dict[str, Any], limits: Limits) -> None:
    encoded = _encode_json("context", context)
    if len(encoded) > limits.max_context_bytes:
        raise ValidationFailed(f"context: is larger than {limits.max_context_bytes} bytes.")
    # Nesting needs brackets: with few of them, the depth need not be measured.
    brackets = encoded.count(b"{") + encoded.count(b"[")
    if brackets > limits.max_context_depth and _is_deeper_than(context, limits.max_context_depth):
        raise ValidationFailed(f"context: is nested deeper than {limits.max_context_depth} levels.")


def _encode_json(name: str, value: Any) -> bytes:
    try:
        encoded = msgspec.json.encode(value)
    except (TypeError, ValueError, RecursionError):
        raise ValidationFailed(f"{name} must be JSON that is not too deeply nested.") from None
    # Without these the regular expression, which takes longer, cannot match.
    suspect = b"\\u00" in encoded or b"\\b" in encoded or b"\x7f" in encoded or b"\xc2" in encoded
    if suspect and _UNSTORABLE.search(encoded):
        raise _build_unstorable_error(name)
    return encoded


def _build_unstorable_error(name: str) -> ValidationFailed:
    return ValidationFailed(f"{name} holds control characters or half a character; remove them.")


def _is_deeper_than(value: Any, levels: int) -> bool:
    if not isinstance(value, dict | list | tuple):
        return False
    children = value.values() if isinstance(value, dict) else value
    return levels == 0 or any(_is_deeper_than(child, levels - 1) for child in children)
