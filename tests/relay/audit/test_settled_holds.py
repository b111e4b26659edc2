"""What becomes of holds that are decided, late or while their agent is slow, when their time is over."""

from datetime import timedelta

from placet.relay.settings import TenantSettings
from tests.relay.a2a.raw_agent import stay_silent
from tests.relay.audit.audited_relay import AuditedRelay, run_audited_relay
from tests.waiting import eventually

APPROVALS = "/relay/v1/approvals"


def send_held(relay: AuditedRelay, text: str) -> str:
    """Where the approval is that a message waits for."""
    name, _ = relay.say(text)
    (found,) = relay.auditor.get(APPROVALS, params={"correlationId": name}).json()["content"]
    return f"{APPROVALS}/{found['id']}"


def decide(relay: AuditedRelay, approval: str, action: str) -> None:
    relay.auditor.post(f"{approval}/resolve", json={"action": action}).raise_for_status()


def reject(relay: AuditedRelay, approval: str) -> None:
    decide(relay, approval, "REJECTED")
    eventually(lambda: relay.auditor.get(approval).json()["completedAt"])


def purge_after(relay: AuditedRelay, **later: float) -> None:
    """Let time pass, and have forgotten what is due."""
    relay.server.clock.advance(timedelta(**later))
    relay.server.run(relay.server.parts.relay.retention.run_once())  # type: ignore[union-attr]


def test_hold_decided_after_newer_ones_is_erased_too(tmp_path):
    with run_audited_relay(tmp_path, default=TenantSettings(keep_payloads_for="1h")) as relay:
        older = send_held(relay, "an older rose")
        relay.server.clock.advance(timedelta(minutes=5))
        younger = send_held(relay, "a younger rose")
        for approval, hours in ((younger, 2), (older, 4)):
            reject(relay, approval)
            purge_after(relay, hours=hours)
            assert relay.auditor.get(approval).json()["agentMessageText"] == ""


def test_approved_message_is_not_erased_while_its_agent_works(tmp_path):
    keeps = TenantSettings(keep_events_for="1h", keep_payloads_for="1h")
    with run_audited_relay(tmp_path, default=keeps) as relay:
        approval = send_held(relay, "a rose that takes long")
        relay.agent.behave = stay_silent()
        decide(relay, approval, "APPROVED")
        eventually(lambda: relay.agent.requests)
        purge_after(relay, hours=2)
        shown = relay.auditor.get(approval).json()
        assert (shown["status"], shown["agentMessageText"]) == ("APPROVED", "a rose that takes long")
