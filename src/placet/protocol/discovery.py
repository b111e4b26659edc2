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


class ServiceDetails(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the discovery document says besides what the server knows itself, `[discovery]`."""

    homepage: str | None = None
    """The home page of the service. Default: the base URL of this server."""
    logo_url: str | None = None
    """The address of the service's logo."""
    contact: str | None = None
    """Whom to ask about the service: an e-mail address, a phone number or a URL."""
    review_types: tuple[str, ...] = ()
    """The review types that the service uses, also custom ones. Default: all five types."""
    authentication: str | None = "bearer"
    """How agents authenticate at the API of the service; empty leaves it out."""
    documentation: str | None = None
    """The address of the service's documentation. Default: this server's description of its API."""
    privacy_policy: str | None = None
    """The address of the privacy policy."""
    terms_of_service: str | None = None
    """The address of the terms of service."""


URL_DETAILS = ("homepage", "logo_url", "documentation", "privacy_policy", "terms_of_service")
"""The details that are addresses."""


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
    max_open_cases: int = 0
    """How many open cases one principal may have; 0 for no limit."""
    surface_formats: tuple[str, ...] = ()
    surface_profiles: tuple[str, ...] = ()
    details: ServiceDetails = ServiceDetails()


def build_discovery(card: ServiceCard, version: str) -> dict[str, Any]:
    """Return the discovery document with the fields of this version."""
    documentation = card.details.documentation or f"{card.base_url}{DOCS}"
    document: dict[str, Any] = {
        "spec_version": version,
        "service": _describe_service(card),
        "capabilities": _describe_capabilities(card, version),
        "endpoints": {
            "reviews_base": f"{card.base_url}{REVIEWS}",
            "review_page_base": f"{card.base_url}{REVIEW_PAGES}",
            "events_base": f"{card.base_url}{REVIEWS}",
            "well_known": f"{card.base_url}{DISCOVERY}",
        },
        "rate_limits": _describe_rate_limits(card),
        "policies": _drop_missing(
            {
                "data_retention_days": card.keep_for.days,
                "expired_case_retention_days": card.keep_for.days,
                "privacy_policy": card.details.privacy_policy,
                "terms_of_service": card.details.terms_of_service,
            }
        ),
        "examples": {"documentation": documentation, "openapi": f"{card.base_url}{OPENAPI}"},
    }
    if is_at_least(version, "0.8") and card.details.authentication:
        document["authentication"] = {
            "type": card.details.authentication,
            "documentation": documentation,
        }
    return {"hitl_protocol": document}


def _describe_service(card: ServiceCard) -> dict[str, Any]:
    details = card.details
    return _drop_missing(
        {
            "name": card.name,
            "description": card.description,
            "url": details.homepage or card.base_url,
            "logo_url": details.logo_url,
            "contact": details.contact,
        }
    )


def _drop_missing(values: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def _describe_capabilities(card: ServiceCard, version: str) -> dict[str, Any]:
    capabilities: dict[str, Any] = {
        "review_types": list(card.details.review_types or card.review_types),
        "transports": ["polling", "sse"] + (["callback"] if card.sends_callbacks else []),
        "max_timeout": format_duration(card.max_timeout_for),
        "default_timeout": format_duration(card.default_timeout_for),
        "supports_reminders": True,
        "supports_multi_round": True,
        "supports_signatures": card.signs_results,
        "supports_surface": bool(card.surface_formats),
        "surface_formats": list(card.surface_formats),
    }
    if card.surface_profiles and is_at_least(version, "0.8"):
        capabilities["surface_profiles"] = list(card.surface_profiles)
    if is_at_least(version, "0.6"):
        capabilities["supports_inline_submit"] = True
    if is_at_least(version, "0.8"):
        capabilities["supports_agent_binding"] = False
    return capabilities


def _describe_rate_limits(card: ServiceCard) -> dict[str, int]:
    limits = {"poll_recommended_interval_seconds": 30, "poll_min_interval_seconds": 1}
    if card.polls_per_minute:
        limits["max_requests_per_minute"] = card.polls_per_minute
    if card.max_open_cases:
        limits["max_active_cases_per_agent"] = card.max_open_cases
    return limits
