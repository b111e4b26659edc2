"""Build the card of a case: who asks, the facts that a messenger shows, and the buttons."""

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from placet.channels.card_facts import SAYS_IT_IS, select_facts
from placet.ports.channel import Button, Card
from placet.reviews.registry import find_action, find_declaration
from placet.text.truncation import truncate

SHORT_NAME_LENGTH, MAX_SOURCE_LENGTH = 40, 76


def build_case_card(
    *,
    type: str,
    prompt: str,
    message: str,
    context: dict[str, Any],
    review_url: str,
    expires_at: datetime,
    default_action: str,
    host: str,
    principal: str | None,
    declared_service: str | None,
    references: Mapping[str, str],
    is_reminder: bool = False,
    is_expiring: bool = False,
    round: int = 1,
) -> Card:
    """Return the card of a case. `references` are the actions of its buttons, by reference.

    Button labels are ours: a service's labels could be misleading.
    """
    buttons = tuple(
        Button(action=action, label=_format_label(action), reference=reference)
        for reference, action in references.items()
    )
    declared = find_declaration(type)
    lists = declared.card_lists if declared else ()
    return Card(
        prompt=prompt,
        message=message,
        type=type,
        source=_format_source(host, principal),
        review_url=review_url,
        expires_at=expires_at,
        default_action=default_action,
        buttons=buttons,
        facts=(
            *_declare_service(declared_service, principal),
            *select_facts(context, decides=bool(buttons), lists=lists),
        ),
        is_reminder=is_reminder,
        is_expiring=is_expiring,
        round=round,
    )


def _format_source(host: str, principal: str | None) -> str:
    """Return the service's host, with the caller that the service has authenticated, if it says so."""
    name = " ".join(re.sub(r"[()\[\]<>]", " ", principal or "").split())
    fits = len(host) + SHORT_NAME_LENGTH < MAX_SOURCE_LENGTH
    return f"{truncate(name, SHORT_NAME_LENGTH)} ({host})" if name and fits else host


def _declare_service(name: str | None, principal: str | None) -> tuple[tuple[str, str], ...]:
    """Return the name that the caller declared, as a fact: it is not verified, so the heading omits it."""
    return ((SAYS_IT_IS, name),) if name and name != principal else ()


def _format_label(action: str) -> str:
    declared = find_action(action)
    return declared.label if declared else action.replace("_", " ").replace("-", " ").capitalize()
