"""The audit pages show events and commands as they are."""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from click.testing import CliRunner

from placet.cli.main import cli
from tests.docs.markdown import ROOT, blocks
from tests.relay.audit.audited_relay import SSN, AuditedRelay, build_policy_draft, run_audited_relay
from tests.waiting import eventually

HOWTO = ROOT / "docs" / "howto" / "audit.md"
REFERENCE = ROOT / "docs" / "reference" / "audit.md"
POLICIES = [
    build_policy_draft("Mask card numbers", r"\d{4} \d{4} \d{4} \d{4}", "MASK", requestFromSource=True),
    build_policy_draft(
        "Review Messages with SSNs", r"\d{3}-\d{2}-\d{4}", "HUMAN_REVIEW_REQUIRED", requestToSink=True
    ),
]
CHANGING_FIELDS = frozenset(
    {"eventId", "sentAt", "startTime", "durationMicros", "totalDurationMicros", "offsetMicros"}
    | {"taskId", "contextId", "policyId", "approvalId", "caseId", "digest"}
)


@pytest.fixture(scope="module")
def relay(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AuditedRelay]:
    """A relay after one masked call, and one that was held, approved and answered."""
    with run_audited_relay(tmp_path_factory.mktemp("audit"), POLICIES) as relay:
        relay.say("Will it rain? My card is 4111 1111 1111 1111.")
        relay.say(f"My SSN is {SSN}.")
        (held,) = relay.auditor.get("/relay/v1/approvals").json()["content"]
        relay.server.advance(seconds=40)
        address = f"/relay/v1/approvals/{held['id']}"
        relay.auditor.post(f"{address}/resolve", json={"action": "APPROVED", "message": "She may."})
        eventually(lambda: relay.auditor.get(address).json()["completedAt"])
        yield relay


def ignore_changing_values(value: Any, shown: Any) -> Any:
    """Return the value with the fields that differ in every run replaced by those of the page."""
    if isinstance(value, dict) and isinstance(shown, dict):
        return {
            name: shown[name]
            if name in CHANGING_FIELDS and name in shown
            else ignore_changing_values(one, shown.get(name))
            for name, one in value.items()
        }
    if isinstance(value, list) and isinstance(shown, list) and len(value) == len(shown):
        return [ignore_changing_values(one, other) for one, other in zip(value, shown, strict=True)]
    return value


def collect_real_output(relay: AuditedRelay) -> list[Any]:
    """Return what the reference shows, in its order."""
    match, call = relay.events(correlationId="call-1")
    (resolution,) = relay.events(auditType="HITL_RESOLUTION")
    return [call, match, resolution, relay.auditor.get("/audit/v1/traces/call-1").json()]


@pytest.mark.parametrize("place", range(4), ids=["call", "match", "resolution", "trace"])
def test_the_reference_shows_events_that_really_come_out(relay: AuditedRelay, place: int):
    shown = json.loads(blocks(REFERENCE, "json")[place])
    assert ignore_changing_values(collect_real_output(relay)[place], shown) == shown


def normalize_lines(output: str) -> list[list[str]]:
    """Return the words of each line without its times."""
    return [re.sub(r"[\d,]+\.\d{3}", "#", line).split() for line in output.splitlines()]


def test_a_trace_looks_as_the_page_shows_it(relay: AuditedRelay):
    shown = next(text for text in blocks(HOWTO, "text") if "audit trace" in text)
    command, _, output = shown.partition("\n")
    env = {"PLACET_DB": relay.server.parts.settings.db}
    done = CliRunner().invoke(cli, command.removeprefix("$ placet ").split(), env=env)
    assert normalize_lines(done.stdout) == normalize_lines(output)


def test_every_command_of_the_page_can_be_called(relay: AuditedRelay, tmp_path):
    env = {"PLACET_DB": relay.server.parts.settings.db}
    for text in blocks(HOWTO, "shell"):
        for line in text.splitlines():
            if line.startswith("placet "):
                words = line.replace("events.jsonl", str(tmp_path / "events.jsonl")).split()[1:]
                assert CliRunner().invoke(cli, words, env=env).exit_code == 0, line


def test_every_address_of_the_page_can_be_asked(relay: AuditedRelay):
    for address in re.findall(r"https://placet\.example(/audit[^\s\"]+)", HOWTO.read_text("utf-8")):
        assert relay.auditor.get(address).status_code == 200, address


def test_what_is_kept_can_be_said_as_the_page_says_it(relay: AuditedRelay):
    (body,) = blocks(HOWTO, "json")
    with relay.server.client(relay.server.create_key("root", "admin")) as root:
        assert root.put("/relay/v1/tenant", json=json.loads(body)).status_code == 200
