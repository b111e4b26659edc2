"""From a draft to a case: everything that is checked before a question may be put to a person."""

import re
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any

import msgspec
from msgspec import Struct

from placet.cases.case import Case, Offer, Subject, offer_digest
from placet.cases.review_rules import ReviewRules
from placet.cases.tokens import token_digest
from placet.desk.draft import CaseDraft
from placet.desk.limits import Limits
from placet.errors import ValidationFailed
from placet.protocol.duration import format_duration, parse_duration
from placet.protocol.forms import parse_form
from placet.protocol.hitl_object import DefaultAction
from placet.protocol.surface import parse_surface
from placet.protocol.verification import VerificationPolicy
from placet.protocol.versions import DEFAULT_VERSION, check_version, require_fields_in_version
from placet.text.characters import is_storable

_parsed = lru_cache(maxsize=256)(parse_duration)  # a service asks for the same few timeouts again and again
# What `is_storable` refuses, as it looks in JSON: escaped below the space, as it is from DEL on.
_UNKEEPABLE = re.compile(
    rb"(?<!\\)(?:\\\\)*\\(?:b|u00(?:0[0-8ef]|1[0-9a-f]))|\x7f|\xc2(?:[\x80-\x84]|[\x86-\x9f])"
)
_SUSPECT = (b"\\u00", b"\\b", b"\x7f", b"\xc2")  # without these there is no need to look closer
NEVER_APPROVED_BY_DEFAULT = frozenset({"x-tool-approval"})
"""Custom types that may not be approved by default; other types declare it themselves."""
_SILENCE_IS_NO = "default_action approve is never offered for this type of review: silence is no."


class Minted(Struct, frozen=True, kw_only=True):
    """The id and the tokens of a new case; the tokens leave with the 202 and are never stored."""

    case_id: str
    review_token: str
    submit_token: str


def prepare_offer(
    draft: CaseDraft, kind: ReviewRules, *, limits: Limits, service: str | None, salt: str
) -> Offer:
    """What will be shown; raises ValidationFailed or InvalidForm naming what cannot be asked."""
    if not draft.prompt.strip():
        raise ValidationFailed("prompt is blank; say in one sentence what the person decides.")
    if kind.requires_answer and draft.default_action == "approve":
        raise ValidationFailed(_SILENCE_IS_NO)
    _check_texts(draft)
    _check_context(draft.context, limits)
    context = kind.prepare(draft.context)
    if "form" in context and not kind.reads_form:
        parse_form(context["form"])  # the published schemas fix its shape for every type
    return Offer(
        type=draft.type,
        prompt=draft.prompt,
        message=draft.message or draft.prompt,
        context=context,
        actions=_actions(draft, kind),
        inline_actions=_inline_actions(draft, kind, context),
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
    minted: Minted,
    *,
    owner: str | None,
    subject: Subject,
    now: datetime,
    limits: Limits,
) -> Case:
    """The case as it begins; raises ValidationFailed for a deadline, default or version that cannot hold."""
    version = check_version(DEFAULT_VERSION if draft.spec_version is None else draft.spec_version)
    require_fields_in_version(
        version,
        {"inline_actions": draft.inline_actions, "verification_policy": draft.verification_policy},
    )
    expires_at = now + _timeout(draft, limits)
    return Case(
        id=minted.case_id,
        type=draft.type,
        spec_version=version,
        created_at=now,
        expires_at=expires_at,
        default_action=_default_action(draft),
        offer_digest=offer_digest(minted.case_id, offer),
        review_digests=(token_digest(minted.review_token),),
        submit_digest=token_digest(minted.submit_token) if offer.inline_actions is not None else None,
        owner=owner,
        callback_url=draft.callback_url,
        reminders=_reminders(draft, now, expires_at),
        previous_case_id=draft.previous_case_id,
        subject=subject,
    )


def check_policy(policy: VerificationPolicy | None, verifiable: frozenset[str]) -> None:
    """Refuse a policy that nobody here could ever satisfy on the page."""
    if policy and policy.requires_evidence("browser_submit") and "browser_submit" not in verifiable:
        raise ValidationFailed(
            "verification_policy asks for evidence on browser_submit; this server has no verifier for pages."
        )


def _timeout(draft: CaseDraft, limits: Limits) -> timedelta:
    asked = _parsed(draft.timeout) if draft.timeout is not None else limits.default_timeout_for
    if asked > limits.max_timeout_for:
        raise ValidationFailed(
            f"timeout {draft.timeout!r} is over the {format_duration(limits.max_timeout_for)} allowed here."
        )
    return asked


def _default_action(draft: CaseDraft) -> DefaultAction:
    if draft.default_action != "approve":
        return draft.default_action or "skip"
    if draft.type in NEVER_APPROVED_BY_DEFAULT:
        raise ValidationFailed(_SILENCE_IS_NO)
    if not draft.allow_default_approve:
        raise ValidationFailed("default_action approve needs allow_default_approve: true beside it.")
    return "approve"


def _reminders(draft: CaseDraft, now: datetime, expires_at: datetime) -> tuple[datetime, ...]:
    asked = draft.reminder_at
    moments = () if asked is None else (asked,) if isinstance(asked, datetime) else asked
    for moment in moments:
        if not now < moment < expires_at:
            raise ValidationFailed(f"reminder_at {moment.isoformat()} is not between now and expires_at.")
    return tuple(sorted({moment.astimezone(UTC) for moment in moments}))


def _actions(draft: CaseDraft, kind: ReviewRules) -> tuple[str, ...]:
    custom = draft.type.startswith("x-") and not kind.actions
    if custom and not draft.actions:
        raise ValidationFailed(f"A custom type declares its actions: add `actions` for {draft.type}.")
    if not custom and draft.actions is not None:
        raise ValidationFailed(f"actions belongs to custom x-… types; {draft.type} has its own.")
    actions = tuple(dict.fromkeys(draft.actions or kind.actions))
    if not actions:
        raise ValidationFailed(f"{draft.type[:100]!r} is neither a standard type nor an x-… type.")
    return actions


def _inline_actions(draft: CaseDraft, kind: ReviewRules, context: dict[str, Any]) -> tuple[str, ...] | None:
    if draft.inline_actions is None:
        return None
    possible = draft.actions or kind.inline_for(context)
    for action in draft.inline_actions:
        if action not in possible:
            raise ValidationFailed(f"{action!r} cannot be an inline action of this {draft.type}.")
    return tuple(dict.fromkeys(draft.inline_actions))


def _check_texts(draft: CaseDraft) -> None:
    for name in ("prompt", "message", "service", "agent"):
        if not is_storable(getattr(draft, name) or ""):
            raise _unkeepable(name)
    if draft.surface is not None:
        parse_surface(msgspec.to_builtins(draft.surface))
    if draft.verification_policy is not None:
        _plain_json("verification_policy", draft.verification_policy)


def _check_context(context: dict[str, Any], limits: Limits) -> None:
    encoded = _plain_json("context", context)
    if len(encoded) > limits.max_context_bytes:
        raise ValidationFailed(f"context is larger than {limits.max_context_bytes} bytes.")
    # Few brackets cannot nest deeply: most contexts need no walk.
    brackets = encoded.count(b"{") + encoded.count(b"[")
    if brackets > limits.max_context_depth and _deeper_than(context, limits.max_context_depth):
        raise ValidationFailed(f"context is nested deeper than {limits.max_context_depth} levels.")


def _plain_json(name: str, value: Any) -> bytes:
    try:
        encoded = msgspec.json.encode(value)
    except (TypeError, ValueError, RecursionError):
        raise ValidationFailed(f"{name} must be plain JSON of sane depth.") from None
    if any(mark in encoded for mark in _SUSPECT) and _UNKEEPABLE.search(encoded):
        raise _unkeepable(name)
    return encoded


def _unkeepable(name: str) -> ValidationFailed:
    return ValidationFailed(f"{name} holds control characters or half a character; remove them.")


def _deeper_than(value: Any, levels: int) -> bool:
    if not isinstance(value, dict | list | tuple):
        return False
    children = value.values() if isinstance(value, dict) else value
    return levels == 0 or any(_deeper_than(child, levels - 1) for child in children)
