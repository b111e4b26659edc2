"""Discovery (spec Appendix D): /.well-known/hitl.json, flat up to 0.6 and nested from 0.7."""

from datetime import timedelta
from typing import Any

from msgspec import Struct

from placet.protocol.duration import format_duration
from placet.protocol.surface import INTEROP_PROFILE
from placet.protocol.versions import NESTED_DISCOVERY_SINCE, is_at_least


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
    """Return the discovery document in the format of this version."""
    return (
        _build_nested(card, version)
        if is_at_least(version, NESTED_DISCOVERY_SINCE)
        else _build_flat(card, version)
    )


def _build_flat(card: ServiceCard, version: str) -> dict[str, Any]:
    return {
        "hitl_protocol": version,
        "service": {"name": card.name, "description": card.description, "homepage": card.base_url},
        "review_types": list(card.review_types),
        "review_base_url": f"{card.base_url}/review",
        "api_base_url": f"{card.base_url}/v1",
        "surface_formats": [],
        "timeout_default": format_duration(card.default_timeout_for),
        "features": {
            "callback": card.sends_callbacks,
            "signed_responses": card.signs_results,
            "edit_grace_period": None,
        },
    }


def _build_nested(card: ServiceCard, version: str) -> dict[str, Any]:
    document: dict[str, Any] = {
        "spec_version": version,
        "service": {"name": card.name, "description": card.description, "url": card.base_url},
        "capabilities": _capabilities(card, version),
        "endpoints": {
            "reviews_base": f"{card.base_url}/v1/reviews",
            "review_page_base": f"{card.base_url}/review",
            "events_base": f"{card.base_url}/v1/reviews",
            "well_known": f"{card.base_url}/.well-known/hitl.json",
        },
        "rate_limits": _rate_limits(card),
        "policies": {
            "data_retention_days": card.keep_for.days,
            "expired_case_retention_days": card.keep_for.days,
        },
        "examples": {
            "documentation": f"{card.base_url}/docs",
            "openapi": f"{card.base_url}/openapi.json",
        },
    }
    if is_at_least(version, "0.8"):
        document["authentication"] = {"type": "bearer", "documentation": f"{card.base_url}/docs"}
    return {"hitl_protocol": document}


def _capabilities(card: ServiceCard, version: str) -> dict[str, Any]:
    capabilities = {
        "review_types": list(card.review_types),
        "transports": ["polling", "sse"] + (["callback"] if card.sends_callbacks else []),
        "max_timeout": format_duration(card.max_timeout_for),
        "default_timeout": format_duration(card.default_timeout_for),
        "supports_reminders": True,
        "supports_multi_round": True,
        "supports_signatures": card.signs_results,
        "supports_inline_submit": True,
        "supports_surface": False,
        "surface_formats": [],
        "surface_profiles": [INTEROP_PROFILE],
    }
    if is_at_least(version, "0.8"):
        capabilities["supports_agent_binding"] = False
    return capabilities


def _rate_limits(card: ServiceCard) -> dict[str, int]:
    limits = {"poll_recommended_interval_seconds": 30, "poll_min_interval_seconds": 1}
    return {**limits, "max_requests_per_minute": card.polls_per_minute} if card.polls_per_minute else limits
