"""Five versions, one model set: which field exists when."""

import pytest

from placet.errors import ValidationFailed
from placet.protocol.versions import (
    DEFAULT_VERSION,
    SPEC_VERSIONS,
    check_version,
    is_at_least,
    list_absent_fields,
    require_fields_in_version,
)

INLINE = {"submit_url", "submit_token", "inline_actions"}


def test_we_speak_five_versions_and_the_newest_unasked() -> None:
    assert SPEC_VERSIONS == ("0.5", "0.6", "0.7", "0.8", "0.9")
    assert DEFAULT_VERSION == "0.9"


@pytest.mark.parametrize(
    ("version", "hitl", "poll"),
    [
        ("0.5", INLINE | {"verification_policy"}, {"submission_context"}),
        ("0.6", {"verification_policy"}, {"submission_context"}),
        ("0.7", {"verification_policy"}, {"submission_context"}),
        ("0.8", set(), set()),
        ("0.9", set(), set()),
    ],
)
def test_an_older_version_lacks_what_came_later(version: str, hitl: set[str], poll: set[str]) -> None:
    assert list_absent_fields(version, of="hitl") == hitl
    assert list_absent_fields(version, of="poll") == poll


@pytest.mark.parametrize(
    "version", ["", "0.4", "0.10", "1.0", "0.9.0", "v0.9", "0.9\n", "０.9", "9" * 10_000]
)
def test_an_unknown_version_is_refused_by_name(version: str) -> None:
    with pytest.raises(ValidationFailed) as refusal:
        check_version(version)
    assert repr(version[:20]) in refusal.value.message
    assert "0.5, 0.6, 0.7, 0.8, 0.9" in refusal.value.message


def test_versions_are_ordered_as_they_appeared() -> None:
    assert is_at_least("0.9", "0.5")
    assert is_at_least("0.7", "0.7")
    assert not is_at_least("0.6", "0.7")


def test_an_offer_is_not_weakened_silently_to_fit_its_version() -> None:
    with pytest.raises(ValidationFailed, match=r"verification_policy needs spec_version 0\.8"):
        require_fields_in_version("0.7", {"verification_policy": object()})
    with pytest.raises(ValidationFailed, match=r"inline_actions needs spec_version 0\.6"):
        require_fields_in_version("0.5", {"inline_actions": ()})
    require_fields_in_version("0.5", {"inline_actions": None, "verification_policy": None})
    require_fields_in_version("0.9", {"inline_actions": (), "verification_policy": object()})
