"""The card of a case as the server sends it, and how its case closed."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from placet.cases.case import Case, Offer
from placet.channels.card_building import build_case_card
from placet.desk.asker import describe_asker
from placet.desk.notifications import DeliveryKind
from placet.ports.channel import Card, CaseClosure
from placet.protocol.poll import Status


def build_notification_card(
    case: Case,
    offer: Offer,
    *,
    kind: DeliveryKind,
    review_url: str,
    references: Mapping[str, str],
    service_name: str | None,
    round: int,
) -> Card:
    """Return the card for a recipient. What only the page may show is left out."""
    asker = describe_asker(case, offer, service_name=service_name)
    context: dict[str, Any] = {k: v for k, v in offer.context.items() if k not in offer.page_only}
    return build_case_card(
        type=case.type,
        prompt=offer.prompt,
        message=offer.message,
        context=context,
        review_url=review_url,
        expires_at=case.expires_at,
        default_action=case.default_action,
        host=urlsplit(review_url).hostname or "",
        principal=asker.name,
        declared_service=asker.service,
        references=references,
        is_reminder=kind in ("reminder", "expiry_warning"),
        is_expiring=kind == "expiry_warning",
        round=round,
    )


def build_case_closure(case: Case) -> CaseClosure:
    """Return how a closed case ended."""
    at = case.closed_at or case.expires_at
    if case.status is Status.COMPLETED:
        decision = case.decision
        by = decision.responded_by if decision is not None else None
        action = decision.result.action if decision is not None else None
        return CaseClosure(how="decided", at=at, action=action, by=(by.name or by.email) if by else None)
    if case.status is Status.CANCELLED:
        return CaseClosure(how="withdrawn", at=at, reason=case.reason)
    return CaseClosure(how="expired", at=at)
