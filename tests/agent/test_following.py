"""An agent against a running server, blocking and async: it returns the decision or reports why not."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import httpx
import pytest

from placet.agent import Agent, AsyncAgent, Cancelled, Decided, Expired, Notice
from placet.errors import AddressRefused, CaseLost, StillWaiting
from tests.agent.clocks import make_ticking_clock
from tests.server.running import EXAMPLE, RunningServer, running

Driver = Callable[..., Any]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with running(tmp_path_factory.mktemp("agent")) as server:
        yield server


class Person:
    """Gets the links and does something about them, each in a thread of its own, as people do."""

    def __init__(self, act: Callable[[Notice], object] = lambda notice: None) -> None:
        self.notices: list[Notice] = []
        self._act = act

    def __call__(self, notice: Notice) -> None:
        self.notices.append(notice)
        if notice.name == "requested":
            threading.Thread(target=self._act, args=(notice,), daemon=True).start()

    @property
    def notice_names(self) -> list[str]:
        return [notice.name for notice in self.notices]


def run_blocking(server: RunningServer, person: Person, **options: Any) -> Any:
    with Agent(tell=person, clock=make_ticking_clock(server), **options) as agent:
        return agent.request("POST", f"{server.url}/v1/cases", **call(server))


def run_async(server: RunningServer, person: Person, **options: Any) -> Any:
    async def tell(notice: Notice) -> None:
        person(notice)

    async def main() -> Any:
        async with AsyncAgent(tell=tell, clock=make_ticking_clock(server), **options) as agent:
            return await agent.request("POST", f"{server.url}/v1/cases", **call(server))

    return asyncio.run(main())


@pytest.fixture(params=[run_blocking, run_async], ids=["blocking", "awaited"])
def drive(request: pytest.FixtureRequest, server: RunningServer) -> Driver:
    return lambda person, **options: request.param(server, person, **options)


def call(server: RunningServer, **draft: Any) -> dict[str, Any]:
    body = {**EXAMPLE, "inline_actions": ["confirm", "cancel"], **draft}
    return {"json": body, "headers": {"Authorization": f"Bearer {server.api_key}"}}


def press(server: RunningServer, action: str) -> Callable[[Notice], object]:
    def pressing(notice: Notice) -> object:
        case = notice.case
        return server.press({"submit_url": case.submit_url, "submit_token": case.submit_token}, action)

    return pressing


@pytest.mark.parametrize("streams", [True, False], ids=["stream", "polls"])
def test_the_decision_of_a_person_comes_back_with_its_proof(
    server: RunningServer, drive: Driver, streams: bool
) -> None:
    person = Person(press(server, "confirm"))
    outcome = drive(person, streams=streams, interval_s=None if streams else 0.05)
    assert isinstance(outcome, Decided)
    assert (outcome.action, outcome.against, outcome.verified) == ("confirm", False, True)
    assert person.notice_names[0] == "requested"
    assert person.notices[0].case.pressable == ("confirm", "cancel")


def test_rejection_is_a_decision(server: RunningServer, drive: Driver) -> None:
    outcome = drive(Person(press(server, "cancel")))
    assert isinstance(outcome, Decided)
    assert outcome.against


def test_an_expired_case_is_no_decision(server: RunningServer, drive: Driver) -> None:
    def forget(notice: Notice) -> None:
        server.advance(days=2)
        server.sweep()

    outcome = drive(Person(forget), interval_s=0.05)
    assert isinstance(outcome, Expired)
    assert outcome.default_action == "skip"


def test_a_withdrawn_case_comes_back_with_its_reason(server: RunningServer, drive: Driver) -> None:
    def withdraw(notice: Notice) -> None:
        with server.client(server.api_key) as owner:
            owner.post(f"/v1/reviews/{notice.case.case_id}/cancel", json={"reason": "Not needed."})

    outcome = drive(Person(withdraw))
    assert isinstance(outcome, Cancelled)
    assert outcome.reason == "Not needed."


def test_persons_progress_is_reported(server: RunningServer, drive: Driver) -> None:
    seen = threading.Event()

    class Watching(Person):
        def __call__(self, notice: Notice) -> None:
            super().__call__(notice)
            if notice.name == "opened":
                seen.set()

    def look_then_press(notice: Notice) -> None:
        with server.page({"review_url": notice.case.review_url}) as page:
            page.post("opened", {})
        assert seen.wait(60)
        press(server, "confirm")(notice)

    person = Watching(look_then_press)
    assert isinstance(drive(person), Decided)
    assert "opened" in person.notice_names


def test_response_without_a_review_is_returned_unchanged(server: RunningServer) -> None:
    with Agent(tell=Person()) as agent:
        answer = agent.request("GET", f"{server.url}/healthz")
    assert isinstance(answer, httpx.Response)
    assert answer.status_code == 200


def test_case_stays_open_after_max_wait(server: RunningServer, drive: Driver) -> None:
    person = Person(lambda notice: server.advance(minutes=6))
    with pytest.raises(StillWaiting):
        drive(person, interval_s=0.05, max_wait=timedelta(minutes=5))
    with server.client(server.api_key) as owner:
        status = owner.get(f"/v1/reviews/{person.notices[0].case.case_id}/status").json()["status"]
    assert status == "pending"


def test_a_case_that_vanishes_is_lost_and_not_decided(server: RunningServer, drive: Driver) -> None:
    tidied = threading.Event()

    def tidy_away(notice: Notice) -> None:
        with server.client(server.api_key) as owner:
            owner.post(f"/v1/reviews/{notice.case.case_id}/cancel")
        server.advance(days=60)
        server.sweep()
        tidied.set()

    class Distracted(Person):
        def __call__(self, notice: Notice) -> None:
            super().__call__(notice)
            assert tidied.wait(60)

    with pytest.raises(CaseLost):
        drive(Distracted(tidy_away), interval_s=0.05, streams=False)


def test_credentials_are_not_sent_to_another_origin(server: RunningServer) -> None:
    called: list[httpx.Request] = []

    def reply(request: httpx.Request) -> httpx.Response:
        called.append(request)
        hitl = {
            "spec_version": "0.9",
            "case_id": "review_1",
            "type": "approval",
            "prompt": "?",
            "review_url": "https://service.example/review/1",
            "poll_url": "https://attacker.example/poll/1",
        }
        return httpx.Response(202, json={"status": "human_input_required", "hitl": hitl})

    person = Person()
    http = httpx.Client(transport=httpx.MockTransport(reply))
    with Agent(tell=person, http=http) as agent, pytest.raises(AddressRefused, match=r"attacker\.example"):
        agent.request("POST", "https://service.example/act", headers={"Authorization": "Bearer secret"})
    assert len(called) == 1
    assert person.notice_names == []
