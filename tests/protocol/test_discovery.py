"""The discovery document in both of its shapes."""

from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from placet.protocol.discovery import ServiceCard, build_discovery
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
    "supports_inline_submit",
    "supports_surface",
    "surface_formats",
    "surface_profiles",
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


def nested(version: str, card: ServiceCard = CARD) -> dict[str, Any]:
    document: dict[str, Any] = build_discovery(card, version)["hitl_protocol"]
    return document


@pytest.mark.parametrize("version", ["0.5", "0.6"])
def test_up_to_06_the_document_is_flat(version: str) -> None:
    document = build_discovery(CARD, version)
    assert document["hitl_protocol"] == version
    assert set(document) == {
        "hitl_protocol",
        "service",
        "review_types",
        "review_base_url",
        "api_base_url",
        "surface_formats",
        "timeout_default",
        "features",
    }
    assert document["service"]["homepage"] == "https://placet.example"
    assert document["timeout_default"] == "1d"
    assert set(document["features"]) == {"callback", "signed_responses", "edit_grace_period"}


@pytest.mark.parametrize("version", ["0.7", "0.8", "0.9"])
def test_from_07_everything_stands_under_one_key(version: str) -> None:
    later = version != "0.7"
    document = nested(version)
    assert set(build_discovery(CARD, version)) == {"hitl_protocol"}
    assert document["spec_version"] == version
    assert set(document) == SECTIONS | ({"authentication"} if later else set())
    assert set(document["capabilities"]) == CAPABILITIES | ({"supports_agent_binding"} if later else set())
    assert set(document["endpoints"]) == {"reviews_base", "review_page_base", "events_base", "well_known"}


def test_no_grace_period_is_promised_in_any_version() -> None:
    """Ruling 3: the first answer stands at once."""
    assert build_discovery(CARD, "0.5")["features"]["edit_grace_period"] is None


def test_the_document_tells_what_this_server_can_do() -> None:
    silent = replace(CARD, signs_results=False, sends_callbacks=False, polls_per_minute=0)
    assert nested("0.9")["capabilities"]["transports"] == ["polling", "sse", "callback"]
    assert nested("0.9", silent)["capabilities"]["transports"] == ["polling", "sse"]
    assert nested("0.9", silent)["capabilities"]["supports_signatures"] is False
    assert nested("0.9")["rate_limits"]["max_requests_per_minute"] == 60
    assert "max_requests_per_minute" not in nested("0.9", silent)["rate_limits"]
    assert nested("0.9")["policies"]["data_retention_days"] == 30
    assert nested("0.9")["capabilities"]["max_timeout"] == "7d"


@pytest.mark.parametrize("version", SPEC_VERSIONS)
def test_every_address_is_under_the_public_one(version: str) -> None:
    def addresses(value: object) -> list[str]:
        if isinstance(value, dict):
            return [found for child in value.values() for found in addresses(child)]
        return [value] if isinstance(value, str) and "://" in value else []

    found = addresses(build_discovery(CARD, version))
    assert found
    assert all(address.startswith("https://placet.example") for address in found)
