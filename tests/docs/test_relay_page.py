"""The relay's page, followed by an operator with an agent of the official SDK."""

import pytest

from tests.docs.markdown import ROOT, blocks
from tests.docs.test_shell import run
from tests.relay.a2a.sdk_agent import run_sdk_agent

PAGE = ROOT / "docs" / "howto" / "relay.md"


@pytest.fixture(scope="module")
def operator_output(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The output for an operator who follows the page from an unprotected agent to a decided message."""
    with run_sdk_agent() as agent:
        script = "\n".join(blocks(PAGE, "bash")).replace("http://127.0.0.1:9000", agent.url)
        return run(script, tmp_path_factory.mktemp("operator"))


@pytest.mark.parametrize(
    "told",
    [
        "/relay/v1/agents/clerk\n",
        '"name":"Errands"',
        "Good morning 2",
        '"relay_reason":"HITL_HELD","policy_name":"Review Messages with SSNs","policy_version":"1"',
        "Review Messages with SSNs  My SSN is 536-22-8764\n",
        "/review/review_",
        "My SSN is 536-22-8764 2",
        '"auditType":"HITL"',
        "My card is [MASKED",
    ],
)
def test_five_minutes_lead_to_a_held_message_and_its_decision(operator_output: str, told: str) -> None:
    assert told in operator_output


def test_what_is_shown_as_the_held_answer_is_what_comes(operator_output: str) -> None:
    (shown,) = blocks(PAGE, "json")
    for word in ('"relay_reason": "HITL_HELD"', '"policy_level": "TENANT"', '"TASK_STATE_WORKING"'):
        assert word in shown
        assert word.replace(": ", ":") in operator_output
