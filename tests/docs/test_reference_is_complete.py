"""The reference documents every setting, error, event, command, route and public name."""

import re
from pathlib import Path
from typing import Any

import pytest

import placet
from placet.cases.events import EVENT_TYPES
from placet.http.openapi import list_wire_codes
from placet.protocol.fields import FIELD_TYPES, Conditional, Field, Option, Validation
from placet.protocol.forms import Form, FormStep
from placet.settings import Settings
from scripts.draw_commands import commands, options
from tests.docs.markdown import ROOT, anchors
from tests.server.running import running

REFERENCE = ROOT / "docs" / "reference"


def page(name: str) -> str:
    return (REFERENCE / f"{name}.md").read_text("utf-8")


@pytest.mark.parametrize("setting", Settings.__struct_fields__)
def test_every_setting_is_documented(setting: str):
    assert f"| `{setting}` |" in page("settings")


@pytest.mark.parametrize("code", list_wire_codes())
def test_every_error_code_is_documented(code: str):
    assert f"| `{code}` |" in page("errors")


@pytest.mark.parametrize("event", EVENT_TYPES)
def test_every_event_is_documented(event: str):
    assert event.replace(".", "") in anchors(REFERENCE / "events.md")


@pytest.mark.parametrize(("words", "command"), list(commands()), ids=str)
def test_every_command_and_option_is_documented(words, command):
    section = page("command-line").partition(f"### `{words}`\n")[2].partition("\n### ")[0]
    assert section, f"{words} is not there"
    for option in options(command):
        assert option.opts[0] in section, f"{words} {option.opts[0]}"


def test_every_route_is_documented(tmp_path: Path):
    with running(tmp_path) as server:
        parts: Any = server.parts
        parts.add_demo()
    served = {(route.method, route.path) for route in parts.routes}
    written = set(re.findall(r"^#+ (GET|POST) (\S+)$", page("http-api"), re.MULTILINE))
    assert served == written


@pytest.mark.parametrize("name", [name for name in placet.__all__ if name != "__version__"])
def test_every_public_name_is_documented(name: str):
    assert f"| `{name}` |" in page("python")


@pytest.mark.parametrize("type", FIELD_TYPES)
def test_every_field_type_is_documented(type: str):
    assert f"| `{type}` |" in page("form-fields")


@pytest.mark.parametrize("shape", [Form, FormStep, Field, Option, Validation, Conditional])
def test_every_property_of_a_form_is_documented(shape):
    missing = [name for name in shape.__struct_encode_fields__ if f"`{name}`" not in page("form-fields")]
    assert missing == []
