"""The discovery document in every version."""

from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from placet.protocol.discovery import ServiceCard, ServiceDetails, build_discovery
from placet.protocol.versions import SPEC_VERSIONS

CARD = ServiceCard(
    base_url="https://placet.example",
    name="Placet",
    description="Asks people",
    review_types=("approval", "selection"),
    default_timeout_for=timedelta(hours=24),
    max_timeout_for=timedelta(days=7),
    keep_for=timedelta(days=30),
    polls_per_minute=60,
    signs_results=True,
    sends_callbacks=True,
)

CAPABILITIES = {
    "review_types",
    "transports",
    "max_timeout",
    "default_timeout",
    "supports_reminders",
    "supports_multi_round",
    "supports_signatures",
    "supports_surface",
    "surface_formats",
}
SECTIONS = {
    "spec_version",
    "service",
    "capabilities",
    "endpoints",
    "rate_limits",
    "policies",
    "examples",
}


def get_nested_document(version: str, card: ServiceCard = CARD) -> dict[str, Any]:
    document: dict[str, Any] = build_discovery(card, version)["hitl_protocol"]
    return document


@pytest.mark.parametrize("version", SPEC_VERSIONS)
def test_discovery_is_one_object_with_the_fields_of_its_version(version: str) -> None:
    document = get_nested_document(version)
    assert set(build_discovery(CARD, version)) == {"hitl_protocol"}
    assert document["spec_version"] == version
    assert set(document) == SECTIONS | ({"authentication"} if version >= "0.8" else set())
    inline = {"supports_inline_submit"} if version >= "0.6" else set()
    binding = {"supports_agent_binding"} if version >= "0.8" else set()
    assert set(document["capabilities"]) == CAPABILITIES | inline | binding
    assert set(document["service"]) == {"name", "description", "url"}
    assert set(document["endpoints"]) == {"reviews_base", "review_page_base", "events_base", "well_known"}


@pytest.mark.parametrize("version", SPEC_VERSIONS)
def test_no_surface_is_advertised_while_surfaces_are_not_supported(version: str) -> None:
    capabilities = get_nested_document(version)["capabilities"]
    assert capabilities["supports_surface"] is False
    assert not capabilities["surface_formats"]
    assert "surface_profiles" not in capabilities


@pytest.mark.parametrize("version", SPEC_VERSIONS)
def test_no_grace_period_is_promised_in_any_version(version: str) -> None:
    """Ruling 3: the first answer stands at once."""
    assert "grace" not in str(build_discovery(CARD, version))


def test_the_document_tells_what_this_server_can_do() -> None:
    silent = replace(CARD, signs_results=False, sends_callbacks=False, polls_per_minute=0)
    assert get_nested_document("0.9")["capabilities"]["transports"] == ["polling", "sse", "callback"]
    assert get_nested_document("0.9", silent)["capabilities"]["transports"] == ["polling", "sse"]
    assert get_nested_document("0.9", silent)["capabilities"]["supports_signatures"] is False
    assert get_nested_document("0.9")["rate_limits"]["max_requests_per_minute"] == 60
    assert "max_requests_per_minute" not in get_nested_document("0.9", silent)["rate_limits"]
    assert get_nested_document("0.9")["policies"]["data_retention_days"] == 30
    assert get_nested_document("0.9")["capabilities"]["max_timeout"] == "7d"


@pytest.mark.parametrize("version", SPEC_VERSIONS)
def test_operators_say_what_the_server_cannot_know(version: str) -> None:
    details = ServiceDetails(
        homepage="https://parcels.example",
        logo_url="https://parcels.example/logo.svg",
        contact="desk@parcels.example",
        review_types=("confirmation", "x-parcel"),
        authentication="",
        documentation="https://parcels.example/docs",
        privacy_policy="https://parcels.example/privacy",
    )
    formats = ("json-render",)
    card = replace(CARD, details=details, surface_formats=formats, surface_profiles=("p",), max_open_cases=9)
    document = get_nested_document(version, card)
    assert document["service"]["url"] == "https://parcels.example"
    assert document["service"]["contact"] == "desk@parcels.example"
    assert document["capabilities"]["review_types"] == ["confirmation", "x-parcel"]
    assert document["capabilities"]["surface_formats"] == ["json-render"]
    assert document["capabilities"]["supports_surface"] is True
    assert ("surface_profiles" in document["capabilities"]) is (version >= "0.8")
    assert document["rate_limits"]["max_active_cases_per_agent"] == 9
    assert document["policies"]["privacy_policy"] == "https://parcels.example/privacy"
    assert document["examples"]["documentation"] == "https://parcels.example/docs"
    assert "authentication" not in document


@pytest.mark.parametrize("version", SPEC_VERSIONS)
def test_every_address_is_under_the_public_one(version: str) -> None:
    def addresses(value: object) -> list[str]:
        if isinstance(value, dict):
            return [found for child in value.values() for found in addresses(child)]
        return [value] if isinstance(value, str) and "://" in value else []

    found = addresses(build_discovery(CARD, version))
    assert found
    assert all(address.startswith("https://placet.example") for address in found)
