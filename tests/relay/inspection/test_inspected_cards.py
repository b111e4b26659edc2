"""A policy that enables the leg `agentCard` inspects agents' cards."""

import json
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from placet.errors import ValidationFailed
from placet.relay.policy.policy import parse_policy_draft
from placet.relay.settings import AgentSettings, CallerSettings, RelaySettings
from tests.relay.a2a.raw_agent import RawAgent
from tests.relay.holds.holding_server import build_policy_draft
from tests.server.running import RunningServer, running
from tests.waiting import PATIENCE_S

ANSWERS = ("requestFromSource", "requestToSink", "responseFromSink", "responseToSource")
POLICIES = [
    build_policy_draft("Mask clover", "clover", "agentCard", action="MASK"),
    build_policy_draft("Block nettle", "nettle", "agentCard", action="BLOCK"),
    build_policy_draft("Hold tulip", "tulip", "agentCard"),
    build_policy_draft("Block daisy", "daisy", *ANSWERS, action="BLOCK"),
]


@pytest.fixture(scope="module", params=[False, True], ids=["with key", "public"])
def server(
    request: pytest.FixtureRequest, raw_agent: RawAgent, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningServer]:
    folder: Path = tmp_path_factory.mktemp("cards")
    (folder / "policies.json").write_text(json.dumps(POLICIES))
    names = ("clover", "nettle", "tulip", "daisy")
    settings = RelaySettings(
        agents={
            name: AgentSettings(url=raw_agent.url, card_url=f"{raw_agent.url}/.well-known/{name}")
            for name in names
        },
        callers={"acme": CallerSettings(agents=names)},
        policies=str(folder / "policies.json"),
        public_cards=request.param,
    )
    for name in names:
        description = f"Grows {name} and moss."
        raw_agent.cards[f"/.well-known/{name}"] = {**raw_agent.card, "description": description}
    with running(folder, relay=settings) as found:
        found.api_key = "" if request.param else found.api_key
        yield found


def get_card(server: RunningServer, agent: str) -> httpx.Response:
    headers = {"Authorization": f"Bearer {server.api_key}"} if server.api_key else {}
    address = f"{server.url}/relay/v1/agents/{agent}/.well-known/agent-card.json"
    return httpx.get(address, headers=headers, timeout=PATIENCE_S)


def test_matches_in_a_card_are_masked(server: RunningServer) -> None:
    card = get_card(server, "clover")
    assert card.json()["description"] == "Grows [MASKED:REGEX] and moss."
    assert card.json()["name"] == "Raw"
    assert card.headers["etag"] != get_card(server, "daisy").headers["etag"]
    assert card.headers["etag"] == get_card(server, "clover").headers["etag"]


@pytest.mark.parametrize(("agent", "policy"), [("nettle", "Block nettle"), ("tulip", "Hold tulip")])
def test_a_card_that_may_not_pass_is_refused(server: RunningServer, agent: str, policy: str) -> None:
    refused = get_card(server, agent)
    assert refused.status_code == 403
    assert policy in refused.json()["message"]
    assert "moss" not in refused.text


def test_policies_of_messages_do_not_inspect_cards(server: RunningServer) -> None:
    assert get_card(server, "daisy").json()["description"] == "Grows daisy and moss."


def test_a_policy_needs_a_leg() -> None:
    with pytest.raises(ValidationFailed, match="agentCard"):
        parse_policy_draft(build_policy_draft("Nowhere", "x"))
