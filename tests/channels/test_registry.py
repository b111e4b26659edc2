"""Messengers by name: valid answerers, and whether buttons work."""

import pytest

from placet.channels.registry import (
    CHANNEL_NAMES,
    explain_missing_buttons,
    open_channel,
    read_answerers,
)
from placet.errors import SettingsError

GUID = "99999999-8888-7777-6666-555555555555"
IDS = {
    "telegram": ("4711", "@ada"),
    "slack": ("T0123:U0123", "U0123"),
    "discord": ("80351110224678912", "ada#1234"),
    "whatsapp": ("41791234567", "+41791234567"),
    "teams": (f"{GUID}:{GUID}", GUID),
}


@pytest.mark.parametrize("name", IDS)
def test_those_who_may_answer_are_named_as_the_platform_names_them(name: str) -> None:
    right, wrong = IDS[name]
    variable = f"PLACET_{name.upper()}_ANSWERERS"
    assert read_answerers(name, {variable: f"{right}, {right}"}) == {right}
    assert read_answerers(name, {}) == frozenset()
    with pytest.raises(SettingsError, match=f"{variable}: .* is not a user id"):
        read_answerers(name, {variable: f"{right},{wrong}"})


def test_whatsapp_user_with_a_hidden_number_is_named_by_id() -> None:
    assert read_answerers("whatsapp", {"PLACET_WHATSAPP_ANSWERERS": "CH.1349abc"}) == {"CH.1349abc"}


@pytest.mark.parametrize("name", ["discord", "whatsapp", "teams"])
def test_missing_buttons_are_explained_when_answerers_are_set(name: str) -> None:
    named = {f"PLACET_{name.upper()}_ANSWERERS": IDS[name][0]}
    assert "only to a public HTTPS address" in (explain_missing_buttons(name, named) or "")
    assert explain_missing_buttons(name, {}) is None


def test_slack_needs_one_more_setting_for_buttons() -> None:
    named = {"PLACET_SLACK_ANSWERERS": "T1:U1"}
    assert (explain_missing_buttons("slack", named) or "").startswith(
        "Set PLACET_SLACK_APP_TOKEN to have buttons"
    )
    assert explain_missing_buttons("slack", {**named, "PLACET_SLACK_APP_TOKEN": "xapp-1"}) is None


@pytest.mark.parametrize("name", ["telegram", "email", "terminal"])
def test_other_messengers_need_no_hint(name: str) -> None:
    assert (
        explain_missing_buttons(name, {"PLACET_TELEGRAM_ANSWERERS": "7", "PLACET_TELEGRAM_BOT_TOKEN": "1:a"})
        is None
    )


def test_unknown_messenger_error_lists_the_known_ones() -> None:
    with pytest.raises(SettingsError, match=", ".join(CHANNEL_NAMES)):
        open_channel("pigeon", {})
