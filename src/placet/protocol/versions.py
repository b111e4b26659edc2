"""The supported versions of the HITL Protocol, and the version in which each field appeared."""

from collections.abc import Mapping
from functools import cache
from typing import Any

from placet.errors import ValidationFailed

SPEC_VERSIONS = ("0.5", "0.6", "0.7", "0.8", "0.9")
DEFAULT_VERSION = "0.9"

# Fields that an older version does not define; its schema forbids them.
HITL_SINCE: Mapping[str, str] = {
    "submit_url": "0.6",
    "submit_token": "0.6",
    "inline_actions": "0.6",
    "verification_policy": "0.8",
}
CUSTOM_TYPES_SINCE = "0.6"
POLL_SINCE: Mapping[str, str] = {"submission_context": "0.8"}


def check_version(version: str) -> str:
    """Return the version; raises ValidationFailed if it is not supported."""
    if version not in SPEC_VERSIONS:
        raise ValidationFailed(
            f"spec_version {version[:20]!r} is not supported; use one of {', '.join(SPEC_VERSIONS)}."
        )
    return version


def is_at_least(version: str, since: str) -> bool:
    """Return whether `version` is `since` or later."""
    return SPEC_VERSIONS.index(version) >= SPEC_VERSIONS.index(since)


@cache
def list_absent_fields(version: str, *, of: str) -> frozenset[str]:
    """Return the fields of `of` ("hitl" or "poll") that this version does not define."""
    windows = {"hitl": HITL_SINCE, "poll": POLL_SINCE}[of]
    return frozenset(name for name, since in windows.items() if not is_at_least(version, since))


def convert_type(type: str, *, version: str) -> str:
    """Return the review type as this version writes it.

    The schema of 0.5 has no custom types, and its text says that agents treat one as `input`.
    """
    return "input" if type.startswith("x-") and not is_at_least(version, CUSTOM_TYPES_SINCE) else type


def require_fields_in_version(version: str, offered: Mapping[str, Any]) -> None:
    """Raise ValidationFailed for a field that the version does not define, instead of dropping it."""
    for name, value in offered.items():
        since = HITL_SINCE.get(name)
        if since and value is not None and not is_at_least(version, since):
            raise ValidationFailed(f"{name} needs spec_version {since} or later, not {version}.")
