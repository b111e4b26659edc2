"""The demo: links to click, an address for any agent, and a commentary on what happens."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.testclient import TestClient

from placet import verify_result
from placet.reviews.registry import REVIEW_TYPES, SAMPLES
from tests.cli.process import ServerProcess, serving
from tests.server.running import ReviewPage, RunningServer, running
from tests.waiting import PATIENCE_S, eventually

ANSWERS: dict[str, dict[str, Any]] = {
    "approval": {"action": "approve"},
    "selection": {"action": "select", "selected": "canal-loft"},
    "confirmation": {
        "action": "confirm",
        "confirm_word": "delete",
        "confirmed_items": ["2019-autumn", "2020-spring", "2020-autumn"],
    },
    "escalation": {"action": "skip"},
}


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with serving(tmp_path_factory.mktemp("demo"), command="demo") as demo:
        demo.url()
        yield demo


@pytest.fixture
def agent(demo: ServerProcess) -> Iterator[httpx.Client]:
    with demo.client() as client:
        yield client


def answer(demo: ServerProcess, review_url: str, fields: dict[str, Any]) -> None:
    """What a person does with the link, in a browser without scripts."""
    with demo.client(follow_redirects=True) as person:
        page = ReviewPage(person, person.get(review_url))
        assert page.post("respond", fields).response.status_code == 200


def test_the_demo_prints_a_link_for_each_type_and_a_page_with_all_of_them(demo: ServerProcess) -> None:
    eventually(lambda: "Ctrl+C stops" in demo.stdout)
    links = re.findall(rf"{re.escape(demo.url())}/review/\S+\?token=\S+", demo.stdout)
    assert len(links) == len(SAMPLES) == 7
    with demo.client(follow_redirects=True) as person:
        assert all(person.get(link).status_code == 200 for link in links)
        home = person.get("/")
        assert home.status_code == 200
        assert all(link in home.text for link in links)


@pytest.mark.parametrize("type", [*REVIEW_TYPES, "x-anything"])
def test_any_agent_gets_a_ready_202_of_any_type(agent: httpx.Client, type: str) -> None:
    response = agent.post(f"/api/demo?type={type}")
    assert response.status_code == 202
    hitl = response.json()["hitl"]
    assert hitl["type"] == type or type.startswith("x-")
    poll = agent.get(hitl["poll_url"])
    assert poll.json()["status"] == "pending"


def test_without_a_type_there_is_one_all_the_same(agent: httpx.Client) -> None:
    assert agent.post("/api/demo").json()["hitl"]["type"] == "selection"


@pytest.mark.parametrize("type", ["", "vote", "<b>", "x" * 3000])
def test_unknown_type_is_refused(agent: httpx.Client, type: str) -> None:
    refused = agent.post("/api/demo", params={"type": type})
    assert (refused.status_code, refused.json()["error"]) == (400, "invalid_request")


@pytest.mark.parametrize("type", ANSWERS)
def test_an_answer_shows_in_poll_stream_callback_and_commentary(
    demo: ServerProcess, agent: httpx.Client, type: str
) -> None:
    hitl = agent.post(f"/api/demo?type={type}").json()["hitl"]
    answer(demo, hitl["review_url"], ANSWERS[type])
    poll = agent.get(hitl["poll_url"]).json()
    assert poll["result"]["action"] == ANSWERS[type]["action"]
    assert verify_result(poll, agent.get("/.well-known/jwks.json").json()).action == poll["result"]["action"]
    assert "event: review.completed" in agent.get(hitl["events_url"]).text
    told = rf"{type}\s+…{hitl['case_id'][-6:]}  callback received and verified: review.completed"
    eventually(lambda: re.search(told, demo.stdout))
    answered = rf"{type}\s+…{hitl['case_id'][-6:]}  answered: {ANSWERS[type]['action']}"
    eventually(lambda: re.search(answered, demo.stdout))


def test_a_turn_of_tool_calls_is_decided_in_the_demo_and_signed(
    demo: ServerProcess, agent: httpx.Client
) -> None:
    hitl = agent.post("/api/demo?type=tool_calls").json()["hitl"]
    assert hitl["type"] == "approval"
    decided = {"decision.1": "approve", "decision.2": "reject", "decision.3": "approve"}
    answer(demo, hitl["review_url"], {"action": "edit", "reason.2": "Not yet.", **decided})
    poll = agent.get(hitl["poll_url"]).json()
    assert verify_result(poll, agent.get("/.well-known/jwks.json").json()).action == "edit"
    decisions = poll["result"]["data"]["decisions"]
    assert decisions["call_transfer"] == {"decision": "reject", "reason": "Not yet."}
    assert decisions["call_reminder_2"] == {"decision": "approve"}


def test_a_held_message_is_let_pass_in_the_demo(demo: ServerProcess, agent: httpx.Client) -> None:
    hitl = agent.post("/api/demo?type=held_message").json()["hitl"]
    assert hitl["type"] == "approval"
    answer(demo, hitl["review_url"], {"action": "approve"})
    assert agent.get(hitl["poll_url"]).json()["result"]["action"] == "approve"


def polling_agent(
    url: str, tell: Callable[[str], None], wait: Callable[[], None], auth: dict[str, str] | None = None
) -> Any:
    """The small agent that the protocol's introduction shows: ask, pass the link on, poll, go on."""
    response = httpx.post(url, json={"query": "rooms in Ghent"}, timeout=PATIENCE_S)
    if response.status_code != 202:
        return response.json()
    hitl = response.json()["hitl"]
    if "submit_url" in hitl and "submit_token" in hitl:
        tell(f"{hitl['prompt']} {hitl['inline_actions']} {hitl['review_url']}")
    else:
        tell(f"{hitl['prompt']}\n{hitl['review_url']}")
    while True:
        wait()
        poll = httpx.get(hitl["poll_url"], headers=auth, timeout=PATIENCE_S).json()
        if poll["status"] == "completed":
            return poll["result"]
        if poll["status"] in ("expired", "cancelled"):
            return None


@pytest.mark.parametrize("type", ["selection", "escalation"])
def test_the_small_polling_agent_of_the_protocol_works_unchanged(demo: ServerProcess, type: str) -> None:
    told: list[str] = []
    polls = iter(range(50))

    def wait() -> None:
        if next(polls) == 1:  # after one look at a pending case the person answers
            answer(demo, told[0].split()[-1], ANSWERS[type])

    result = polling_agent(f"{demo.url()}/api/demo?type={type}", told.append, wait)
    assert result["action"] == ANSWERS[type]["action"]


def test_the_small_agent_waits_on_after_a_question_was_handed_back(demo: ServerProcess) -> None:
    told: list[str] = []

    def wait() -> None:
        with demo.client(follow_redirects=True) as person:
            page = ReviewPage(person, person.get(told[0].split()[-1]))
            page.post("hand-back", {"reason": "Not today"}).post("respond", {"action": "cancel"})

    result = polling_agent(f"{demo.url()}/api/demo?type=confirmation", told.append, wait)
    assert result is not None


def test_a_callback_that_nobody_signed_is_not_believed(demo: ServerProcess, agent: httpx.Client) -> None:
    forged = {"event": "review.completed", "case_id": "review_forged"}
    refused = agent.post("/api/demo/callbacks", json=forged)
    assert (refused.status_code, refused.json()["error"]) == (401, "invalid_token")
    assert "forged" not in demo.stdout


def test_a_callback_is_no_larger_than_any_other_body(agent: httpx.Client) -> None:
    refused = agent.post("/api/demo/callbacks", content=b"x" * (1024 * 1024 + 1))
    assert (refused.status_code, refused.json()["error"]) == (413, "invalid_request")


def test_the_demo_opens_nothing_else_to_the_anonymous(agent: httpx.Client) -> None:
    assert agent.post("/v1/cases", json={"type": "confirmation", "prompt": "Go?"}).status_code == 401
    assert agent.get("/v1/reviews").status_code == 401
    hitl = agent.post("/api/demo?type=confirmation").json()["hitl"]
    assert agent.post(f"/v1/reviews/{hitl['case_id']}/cancel").status_code == 401


@pytest.mark.parametrize("header", ["X-Forwarded-For", "Forwarded", "X-Real-IP"])
def test_callers_that_a_proxy_brings_are_not_at_this_machine(agent: httpx.Client, header: str) -> None:
    brought = {header: "192.0.2.1"}
    assert agent.post("/api/demo", headers=brought).status_code == 404
    assert agent.get("/", headers=brought).status_code == 404


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("evil.example", 404),
        ("evil.example:8400", 404),
        ("127.0.0.1.evil.example", 404),
        ("[::1", 400),  # no host's name: refused before any route is looked for
        ("", 404),
    ],
)
def test_a_web_page_that_borrows_this_machines_address_finds_nothing(
    agent: httpx.Client, host: str, status: int
) -> None:
    assert agent.post("/api/demo", headers={"Host": host}).status_code == status
    assert agent.get("/", headers={"Host": host}).status_code == status


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:8400", "127.0.0.1:8400", "[::1]:8400"])
def test_this_machine_may_be_called_by_any_of_its_names(agent: httpx.Client, host: str) -> None:
    assert agent.get("/", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize("address", ["192.0.2.1", "10.0.0.7", "2001:db8::1", "somewhere"])
def test_remote_callers_get_404(demo_parts: RunningServer, address: str) -> None:
    caller = TestClient(demo_parts.parts.app, client=(address, 50000))
    assert caller.post("/api/demo?type=confirmation").status_code == 404
    assert caller.get("/").status_code == 404


@pytest.fixture
def demo_parts(tmp_path: Path) -> Iterator[RunningServer]:
    with running(tmp_path) as server:
        server.parts.add_demo()
        yield server


def test_a_server_without_the_demo_has_no_demo_routes(tmp_path: Path) -> None:
    with running(tmp_path) as server, server.client() as agent:
        assert agent.post("/api/demo?type=confirmation").status_code == 404
        assert agent.get("/").status_code == 404


def test_a_busy_port_is_no_obstacle_and_the_end_says_where_the_cases_are(
    demo: ServerProcess, tmp_path: Path
) -> None:
    port = demo.url().rpartition(":")[2]
    second = ServerProcess(tmp_path, "demo", "--port", port, env={"TMPDIR": str(tmp_path)})
    try:
        assert second.url() != demo.url()
        assert second.stop() == 0
    finally:
        second.process.kill()
        second.process.wait(60)
    kept = re.search(r"Stopped\. The cases are in (\S+)", second.stderr)
    assert kept is not None
    assert Path(kept[1]).is_file()
