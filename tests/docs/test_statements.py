"""Statements of the reference that are written by hand agree with the code."""

import re
import tomllib
from typing import Any

import httpx
import msgspec
import pytest

from placet.cases.commands import COMMANDS, Expire
from placet.cases.events import EVENT_TYPES, Event
from placet.cases.machine import apply
from placet.errors import InvalidForm, PlacetError
from placet.protocol.callback import sign_callback
from placet.protocol.fields import FIELD_TYPES
from placet.protocol.forms import parse_form
from placet.protocol.poll import Status
from placet.protocol.signed_result import ProtectedHeader
from tests.cases.orders import ENDS_AT, ORDERS, REMINDS_AT, case_in_status
from tests.docs.markdown import ROOT
from tests.waiting import PATIENCE_S

EVENTS = (ROOT / "docs" / "reference" / "events.md").read_text("utf-8")
FIELDS = (ROOT / "docs" / "reference" / "form-fields.md").read_text("utf-8")
CALLBACKS = (ROOT / "docs" / "reference" / "callbacks.md").read_text("utf-8")
SIGNED = (ROOT / "docs" / "reference" / "signed-results.md").read_text("utf-8")
PRODUCTION = (ROOT / "docs" / "howto" / "production.md").read_text("utf-8")

RULES: dict[str, Any] = {"minLength": 1, "maxLength": 5, "pattern": "[a-z]+", "min": 1, "max": 3}
DATES = {"min": "2026-01-01", "max": "2026-12-31"}
OPTIONS = [{"value": "a", "label": "A"}]


def possible_events() -> list[Event]:
    """What every order makes of a case in every status."""
    steps = []
    for status in Status:
        for command in COMMANDS:
            case, _ = case_in_status(status)
            now = ENDS_AT if command is Expire else REMINDS_AT
            try:
                steps.append(apply(case, ORDERS[command], now=now, salt="grain"))
            except PlacetError:
                continue
    return [event for step in steps for event in step.events]


@pytest.mark.parametrize("event", possible_events(), ids=lambda event: event.type)
def test_what_an_event_carries_stands_below_its_heading(event: Event):
    section = EVENTS.partition(f"### `{event.type}`\n")[2].partition("\n#")[0]
    carried = msgspec.json.decode(event.data or b"{}").keys() - {"case_id"}
    assert [name for name in carried if f"`{name}`" not in section] == []


def test_every_event_but_the_first_comes_from_an_order():
    assert {event.type for event in possible_events()} == {*EVENT_TYPES} - {"review.created"}


@pytest.mark.parametrize("type", FIELD_TYPES)
def test_a_field_takes_the_bounds_that_its_row_lists(type: str):
    row = next(line for line in FIELDS.splitlines() if line.startswith(f"| `{type}` |"))
    listed = set(re.findall(r"`(\w+)`", row.split("|")[3]))
    values = {**RULES, **(DATES if type == "date" else {})}
    taken = {name for name in RULES if takes(type, {name: values[name]})}
    both = {"min", "max"} if takes(type, {"min": values["min"], "max": values["max"]}) else set()
    assert taken | both == listed


def takes(type: str, validation: dict[str, Any]) -> bool:
    field = {"key": "a", "label": "A", "type": type, "validation": validation}
    with_options = {**field, "options": OPTIONS} if type in ("select", "multiselect") else field
    try:
        parse_form({"fields": [with_options]})
    except InvalidForm:
        return False
    return True


def test_every_header_of_a_callback_is_listed():
    secret = "whsec_MDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDA="
    for name in sign_callback(b"{}", secrets=[secret], message_id="msg_1", at=REMINDS_AT):
        assert f"| `{name}` |" in CALLBACKS


def test_every_member_of_the_signed_header_is_listed():
    listed = SIGNED.partition("The protected header")[2].partition("The payload")[0]
    assert set(re.findall(r"^\| `(\w+)` \|", listed, re.MULTILINE)) == {*ProtectedHeader.__struct_fields__}


def test_every_metric_is_listed(live_server):
    url, _ = live_server
    served = set(
        re.findall(r"^# TYPE (\w+) ", httpx.get(f"{url}/metrics", timeout=PATIENCE_S).text, re.MULTILINE)
    )
    listed = set(re.findall(r"^\| `(placet_\w+)` \|", PRODUCTION, re.MULTILINE))
    assert served == listed


def test_every_extra_that_a_page_or_an_error_names_exists():
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / "src").rglob("*.py")]
    texts = [page.read_text("utf-8") for page in pages]
    named = {extra for text in texts for extra in re.findall(r"\bplacet\[([a-z][a-z-]*)\]", text)}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert named
    assert named <= project["optional-dependencies"].keys()


def test_whatever_a_page_makes_is_in_the_list_of_what_can_be_made():
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]
    named = {name for page in pages for name in re.findall(r"\bmake ([a-z-]+)[`\n]", page.read_text("utf-8"))}
    listed = set(re.findall(r"^([a-z-]+):.*## ", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    assert named
    assert named <= listed
