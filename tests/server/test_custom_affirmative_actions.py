"""A custom type declares which of its actions are a yes, and the 202 tells the agent."""

from placet.agent import read_case
from tests.server.running import RunningServer


def test_placet_sends_the_affirmative_actions_of_a_custom_type(server: RunningServer) -> None:
    draft = {"type": "x-photo-usage", "prompt": "Print it?", "actions": ["allow", "refuse"]}
    with server.client(server.api_key) as client:
        body = client.post("/v1/cases", json={**draft, "affirmative_actions": ["allow"]})
        assert body.json()["data"]["affirmative_actions"] == ["allow"]
        case = read_case(202, body.content, url=f"{server.url}/v1/cases", now=server.clock())
        assert case is not None
        assert [case.is_affirmative(action) for action in ("allow", "refuse", "approve")] == [
            True,
            False,
            False,
        ]
        for wrong in ({"affirmative_actions": ["yes"]}, {"affirmative_actions": "allow"}):
            refused = client.post("/v1/cases", json={**draft, **wrong})
            assert (refused.status_code, refused.json()["error"]) == (400, "invalid_request")
        standard = {"type": "approval", "prompt": "Print it?", "affirmative_actions": ["reject"]}
        assert client.post("/v1/cases", json=standard).status_code == 400
