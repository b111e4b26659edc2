"""The examples run and succeed."""

import os
import re
import subprocess
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from examples.stage import PATIENCE_S, answer, find_free_port
from tests.cli.forked_command import forked_command, forked_module
from tests.docs.markdown import ROOT, blocks
from tests.waiting import eventually

BESIDE = ["multi_round", "callback_receiver", "flask_app", "django_app"]
ALONE = ["service_fastapi", "tool_approval"]
FLOWS = ["flow_job_search", "flow_deployment", "flow_edit_cycle", "flow_inline_confirmation"]
WITH_A_URL = ["agent_polling"]
RELAYED = ["relay_ssn"]
SHARED = ["stage"]


def command(example: str, *arguments: str) -> list[str]:
    return forked_module(f"examples.{example}", *arguments)


def test_every_example_is_run():
    found = {path.stem for path in (ROOT / "examples").glob("*.py")}
    assert found == {*BESIDE, *ALONE, *FLOWS, *WITH_A_URL, *RELAYED, *SHARED}


@pytest.mark.parametrize("example", [*BESIDE, *ALONE])
def test_an_example_finds_what_it_expects(example: str, live_server):
    url, key = live_server
    outcome = subprocess.run(
        command(example),
        check=False,
        cwd=ROOT,
        env={**os.environ, "PLACET_SERVER": url, "PLACET_KEY": key},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert outcome.returncode == 0, outcome.stderr


def run_example(flow: str, **environ: str) -> str:
    """Run an example that must succeed, and return its output."""
    outcome = subprocess.run(
        command(flow),
        check=False,
        cwd=ROOT,
        env={**os.environ, **environ},
        capture_output=True,
        text=True,
        timeout=1.5 * PATIENCE_S,
    )
    assert outcome.returncode == 0, outcome.stderr
    return outcome.stdout


@pytest.mark.parametrize("flow", FLOWS)
def test_a_flow_goes_as_its_page_tells(flow: str, chromium_path: str):
    told = run_example(flow, CHROMIUM=chromium_path)
    assert "browser without scripts" not in told
    assert any(text in told for text in blocks(ROOT / "docs" / "howto" / "flows.md", "text"))


@pytest.mark.parametrize(
    "flow",
    [
        "flow_deployment",
        *(
            pytest.param(flow, marks=pytest.mark.full)
            for flow in FLOWS
            if flow not in ("flow_deployment", "flow_inline_confirmation")
        ),
    ],
)
def test_a_flow_goes_the_same_way_where_no_browser_is(flow: str):
    told = run_example(flow, CHROMIUM="", PATH="")
    assert "browser without scripts" in told
    assert any(text in told for text in blocks(ROOT / "docs" / "howto" / "flows.md", "text"))


@pytest.mark.parametrize("example", RELAYED)
def test_the_relay_holds_a_message_until_a_person_has_decided(example: str):
    (told,) = blocks(ROOT / "docs" / "howto" / "relay-policies.md", "text")
    assert run_example(example) == told


def test_the_agent_of_that_example_can_be_had_alone():
    port = find_free_port()
    with subprocess.Popen(command("relay_ssn", "clerk", str(port)), cwd=ROOT) as agent:
        try:
            card = f"http://127.0.0.1:{port}/.well-known/agent-card.json"
            with httpx.Client() as client:
                found = eventually(lambda: fetch_json(client, card))
        finally:
            agent.terminate()
    assert found["name"] == "Clerk"


def fetch_json(client: httpx.Client, url: str) -> dict[str, Any] | None:
    try:
        return dict(client.get(url).json())
    except httpx.ConnectError:
        return None


@pytest.fixture
def demo(tmp_path) -> Iterator[str]:
    """The address of a running demo."""
    demo_command = [forked_command(), "demo", "--port", "0", "--db", str(tmp_path / "demo.db")]
    with subprocess.Popen(demo_command, text=True, stdout=subprocess.PIPE) as process:
        try:
            yield _address(process)
        finally:
            process.terminate()
            process.communicate(timeout=PATIENCE_S)


def _address(process: "subprocess.Popen[str]") -> str:
    assert process.stdout is not None
    told = ""
    for line in process.stdout:
        told += line
        if "Ctrl+C stops" in line:
            break
    found = re.search(r"running at (\S+)", told)
    assert found is not None, told
    return found[1]


def test_the_polling_agent_waits_for_a_person(demo: str):
    with subprocess.Popen(
        command("agent_polling", f"{demo}/api/demo?type=selection"),
        cwd=ROOT,
        text=True,
        stdout=subprocess.PIPE,
    ) as agent:
        assert agent.stdout is not None
        prompt, link = agent.stdout.readline(), agent.stdout.readline().strip()
        assert prompt.strip()
        answer(link, "select", {"selected": "garden-room"})
        rest, _ = agent.communicate(timeout=PATIENCE_S)
    assert agent.returncode == 0
    assert "completed {'action': 'select', 'data': {'selected': ['garden-room']}" in rest


def test_the_polling_agent_says_what_it_wants():
    outcome = subprocess.run(
        command("agent_polling"), check=False, cwd=ROOT, text=True, capture_output=True, timeout=PATIENCE_S
    )
    assert outcome.returncode == 1
    assert "python -m examples.agent_polling 'http://" in outcome.stderr
    assert "Traceback" not in outcome.stderr
