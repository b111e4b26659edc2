"""An httpx client whose 202 responses are followed: anything but an approval is not a success."""

import asyncio
import threading
from collections.abc import Iterator

import httpx
import pytest

from placet.agent import Agent, AsyncAgent, Decided, Expired, Notice
from placet.agent.httpx_transport import AsyncFollowingTransport, FollowingTransport, outcome_to_response
from tests.agent.clocks import make_ticking_clock
from tests.server.running import EXAMPLE, RunningServer, running


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with running(tmp_path_factory.mktemp("server")) as server:
        yield server


def press(server: RunningServer, notice: Notice, action: str) -> None:
    if notice.name == "requested":
        link = {"submit_url": notice.case.submit_url, "submit_token": notice.case.submit_token}
        threading.Thread(target=server.press, args=(link, action), daemon=True).start()


BODY = {**EXAMPLE, "inline_actions": ["confirm", "cancel"]}


@pytest.mark.parametrize(("action", "status"), [("confirm", 200), ("cancel", 409)])
def test_a_decision_comes_back_as_an_ordinary_response(
    server: RunningServer, action: str, status: int
) -> None:
    with (
        Agent(tell=lambda notice: press(server, notice, action), clock=make_ticking_clock(server)) as agent,
        httpx.Client(base_url=server.url, transport=FollowingTransport(agent)) as client,
    ):
        headers = {"Authorization": f"Bearer {server.api_key}"}
        response = client.post("/v1/cases", json=BODY, headers=headers)
        assert (response.status_code, response.json()["action"]) == (status, action)
        assert "raw" not in response.json()
        assert isinstance(response.extensions["placet"], Decided)
        assert client.get("/healthz").status_code == 200


@pytest.mark.parametrize("action", ["reject", "cancel", "abort", "edit"])
def test_rejection_is_not_a_success(action: str) -> None:
    assert outcome_to_response(Decided(case_id="case-1", action=action)).status_code == 409


def test_expired_case_is_not_a_success(server: RunningServer) -> None:
    async def tell(notice: Notice) -> None:
        if notice.name == "requested":
            server.advance(days=2)
            await asyncio.to_thread(server.sweep)

    async def play() -> None:
        async with (
            AsyncAgent(tell=tell, clock=make_ticking_clock(server)) as agent,
            httpx.AsyncClient(base_url=server.url, transport=AsyncFollowingTransport(agent)) as client,
        ):
            headers = {"Authorization": f"Bearer {server.api_key}"}
            response = await client.post("/v1/cases", json=BODY, headers=headers)
            assert (response.status_code, response.json()["status"]) == (409, "expired")
            assert isinstance(response.extensions["placet"], Expired)
            with pytest.raises(httpx.HTTPStatusError):
                response.raise_for_status()

    asyncio.run(play())


@pytest.mark.parametrize(("verified", "status"), [(True, 200), (None, 200), (False, 409)])
def test_decision_with_an_invalid_signature_is_not_a_success(verified: bool | None, status: int) -> None:
    response = outcome_to_response(
        Decided(case_id="review_1", action="approve", is_affirmative=True, verified=verified)
    )
    assert response.status_code == status
    assert response.json().get("verified") is verified
