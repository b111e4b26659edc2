"""What becomes of holds that are decided, late or while their agent is slow, when their time is over."""

from datetime import timedelta

from placet.relay.settings import TenantSettings
from tests.relay.a2a.raw_agent import silent
from tests.relay.audit.live import Live, live
from tests.waiting import eventually

APPROVALS = "/relay/v1/approvals"


def held(relay: Live, text: str) -> str:
    """Where the approval is that a message waits for."""
    name, _ = relay.say(text)
    (found,) = relay.auditor.get(APPROVALS, params={"correlationId": name}).json()["content"]
    return f"{APPROVALS}/{found['id']}"


def decide(relay: Live, approval: str, action: str) -> None:
    relay.auditor.post(f"{approval}/resolve", json={"action": action}).raise_for_status()


def reject(relay: Live, approval: str) -> None:
    decide(relay, approval, "REJECTED")
    eventually(lambda: relay.auditor.get(approval).json()["completedAt"])


def forget(relay: Live, **later: float) -> None:
    """Let time pass, and have forgotten what is due."""
    relay.server.clock.advance(timedelta(**later))
    relay.server.run(relay.server.parts.relay.retention.once())  # type: ignore[union-attr]


def test_a_message_that_was_decided_after_younger_ones_is_forgotten_like_them(tmp_path):
    with live(tmp_path, default=TenantSettings(keep_payloads_for="1h")) as relay:
        older = held(relay, "an older rose")
        relay.server.clock.advance(timedelta(minutes=5))
        younger = held(relay, "a younger rose")
        for approval, hours in ((younger, 2), (older, 4)):
            reject(relay, approval)
            forget(relay, hours=hours)
            assert relay.auditor.get(approval).json()["agentMessageText"] == ""


def test_an_approved_message_is_not_forgotten_while_its_agent_is_at_work(tmp_path):
    keeps = TenantSettings(keep_events_for="1h", keep_payloads_for="1h")
    with live(tmp_path, default=keeps) as relay:
        approval = held(relay, "a rose that takes long")
        relay.agent.behave = silent()
        decide(relay, approval, "APPROVED")
        eventually(lambda: relay.agent.requests)
        forget(relay, hours=2)
        shown = relay.auditor.get(approval).json()
        assert (shown["status"], shown["agentMessageText"]) == ("APPROVED", "a rose that takes long")
