"""Discovery (spec Appendix D): /.well-known/hitl.json, with the fields of each version.

The text of 0.5 and 0.6 shows flat fields, but their published example and all their reference services have
one nested object, as all later versions do. Placet sends what the example shows.
"""

from datetime import timedelta
from typing import Any

from msgspec import Struct

from placet.protocol.duration import format_duration
from placet.protocol.service_paths import DISCOVERY, DOCS, OPENAPI, REVIEW_PAGES, REVIEWS
from placet.protocol.versions import is_at_least


class ServiceCard(Struct, frozen=True, kw_only=True):
    """What a service publishes about itself."""

    base_url: str
    name: str
    description: str
    review_types: tuple[str, ...]
    default_timeout_for: timedelta
    max_timeout_for: timedelta
    keep_for: timedelta
    polls_per_minute: int
    signs_results: bool
    sends_callbacks: bool


def build_discovery(card: ServiceCard, version: str) -> dict[str, Any]:
    """Return the discovery document with the fields of this version."""
    document: dict[str, Any] = {
        "spec_version": version,
        "service": {"name": card.name, "description": card.description, "url": card.base_url},
        "capabilities": _describe_capabilities(card, version),
        "endpoints": {
            "reviews_base": f"{card.base_url}{REVIEWS}",
            "review_page_base": f"{card.base_url}{REVIEW_PAGES}",
            "events_base": f"{card.base_url}{REVIEWS}",
            "well_known": f"{card.base_url}{DISCOVERY}",
        },
        "rate_limits": _describe_rate_limits(card),
        "policies": {
            "data_retention_days": card.keep_for.days,
            "expired_case_retention_days": card.keep_for.days,
        },
        "examples": {
            "documentation": f"{card.base_url}{DOCS}",
            "openapi": f"{card.base_url}{OPENAPI}",
        },
    }
    if is_at_least(version, "0.8"):
        document["authentication"] = {"type": "bearer", "documentation": f"{card.base_url}{DOCS}"}
    return {"hitl_protocol": document}


def _describe_capabilities(card: ServiceCard, version: str) -> dict[str, Any]:
    capabilities = {
        "review_types": list(card.review_types),
        "transports": ["polling", "sse"] + (["callback"] if card.sends_callbacks else []),
        "max_timeout": format_duration(card.max_timeout_for),
        "default_timeout": format_duration(card.default_timeout_for),
        "supports_reminders": True,
        "supports_multi_round": True,
        "supports_signatures": card.signs_results,
        "supports_surface": False,
        "surface_formats": [],
    }
    if is_at_least(version, "0.6"):
        capabilities["supports_inline_submit"] = True
    if is_at_least(version, "0.8"):
        capabilities["supports_agent_binding"] = False
    return capabilities


def _describe_rate_limits(card: ServiceCard) -> dict[str, int]:
    limits = {"poll_recommended_interval_seconds": 30, "poll_min_interval_seconds": 1}
    return {**limits, "max_requests_per_minute": card.polls_per_minute} if card.polls_per_minute else limits
