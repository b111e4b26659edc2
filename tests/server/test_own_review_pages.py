"""A service shows a case on a page of its own, and sends the answer by the API."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import httpx
import pytest

from placet import PlacetClient
from placet.desk.sweep import Sweep
from placet.errors import ServerRefused
from placet.signing.verify import verify_result
from tests.server.running import RunningServer

PAGE = "https://shop.example/decisions/{case_id}?ticket=7"
DRAFT: dict[str, Any] = {"type": "confirmation", "prompt": "Water the plants?"}
ADA = {"name": "Ada", "email": "ada@shop.example"}


@contextmanager
def refused(status: int) -> Iterator[None]:
    with pytest.raises(ServerRefused) as raised:
        yield
    assert raised.value.status == status


@pytest.fixture
def service(server: RunningServer) -> Iterator[PlacetClient]:
    key = server.create_key("shop", "cases:read", "cases:write", "cases:answer")
    with PlacetClient(server.url, key) as client:
        yield client


def test_the_agent_gets_the_services_page_and_the_service_answers(
    server: RunningServer, service: PlacetClient
) -> None:
    hitl = service.open(**DRAFT, review_url=PAGE, default_action="abort")["hitl"]
    assert hitl["review_url"] == f"https://shop.example/decisions/{hitl['case_id']}?ticket=7"
    said = service.answer(hitl["case_id"], "confirm", responded_by=ADA, idempotency_key="k")
    assert said["status"] == "completed"
    assert said["responded_by"] == ADA
    assert service.answer(hitl["case_id"], "confirm", responded_by=ADA, idempotency_key="k") == said
    with refused(409):
        service.answer(hitl["case_id"], "cancel")
    assert service.status(hitl["case_id"]) == said
    with server.client() as anyone:
        verify_result(said, anyone.get("/.well-known/jwks.json").json())


def test_an_answer_is_checked_as_on_our_page(service: PlacetClient) -> None:
    context = {"options": [{"id": "early", "title": "07:10"}], "multiple": False}
    hitl = service.open("selection", "Which flight?", context=context, review_url=PAGE)["hitl"]
    for action, data in (("select", {"selected": ["late"]}), ("confirm", {}), ("select", {})):
        with refused(400):
            service.answer(hitl["case_id"], action, data)
    said = service.answer(hitl["case_id"], "select", {"selected": ["early"]})
    assert said["result"]["data"] == {"selected": ["early"]}
    assert "responded_by" not in said


@pytest.mark.parametrize(
    "wrong",
    [
        {"name": ""},
        {"name": "Ada\nEve"},
        {"email": "x" * 400},
        {"name": 7},
        {"phone": "1"},
        {"name": "\u0000"},
    ],
    ids=repr,
)
def test_a_person_whose_name_cannot_be_shown_is_refused(service: PlacetClient, wrong: Any) -> None:
    hitl = service.open(**DRAFT, review_url=PAGE)["hitl"]
    with refused(400):
        service.answer(hitl["case_id"], "confirm", responded_by=wrong)
    assert service.status(hitl["case_id"])["status"] == "pending"
    assert "responded_by" not in service.answer(hitl["case_id"], "confirm", responded_by={})


def test_a_late_answer_is_refused(own_server: RunningServer) -> None:
    key = own_server.create_key("shop", "cases:read", "cases:write", "cases:answer")
    with PlacetClient(own_server.url, key) as service:
        hitl = service.open(**DRAFT, review_url=PAGE, timeout="1h")["hitl"]
        own_server.clock.advance(timedelta(hours=1))
        with refused(410):
            service.answer(hitl["case_id"], "confirm")
        own_server.clock.advance(timedelta(days=400))
        own_server.run(Sweep(own_server.parts.desk).run_once())
        case = own_server.run(own_server.parts.store.get_case(hitl["case_id"]))
        assert case is not None
        assert case.own_review_url is None


def test_nobody_answers_a_case_that_is_shown_on_our_page(
    server: RunningServer, client: httpx.Client, service: PlacetClient
) -> None:
    ours = service.open(**DRAFT)["hitl"]
    with refused(403):
        service.answer(ours["case_id"], "confirm")
    theirs = service.open(**DRAFT, review_url=PAGE)["hitl"]
    other = server.create_key("other", "cases:read", "cases:write", "cases:answer")
    with PlacetClient(server.url, other) as stranger, refused(404):
        stranger.answer(theirs["case_id"], "confirm")
    plain = server.create_key("shop", "cases:read", "cases:write")
    with PlacetClient(server.url, plain) as agent:
        with refused(403):
            agent.answer(theirs["case_id"], "confirm")
        with pytest.raises(ServerRefused, match="cases:answer"):
            agent.open(**DRAFT, review_url=PAGE)
    assert (
        client.post(f"/v1/reviews/{theirs['case_id']}/answer", json={"action": "confirm"}).status_code == 403
    )
    with server.client() as anyone:
        path = f"/v1/reviews/{theirs['case_id']}/answer"
        assert anyone.post(path, json={"action": "confirm"}).status_code == 401
        assert anyone.get(f"/review/{theirs['case_id']}?token={'x' * 43}").status_code in (401, 403, 404)
    assert service.status(theirs["case_id"])["status"] == "pending"


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"review_url": "http://shop.example"}, "review_url"),
        ({"review_url": "https://ada:secret@shop.example"}, "review_url"),
        ({"review_url": "javascript:alert(1)"}, "review_url"),
        ({"review_url": "https://" + "x" * 3000}, "review_url"),
        ({"review_url": 7}, "review_url"),
        ({"review_url": PAGE, "four_eyes": True}, "our page"),
        ({"review_url": PAGE, "page_context": {"secret": "x"}}, "page_context"),
    ],
    ids=str,
)
def test_a_page_that_cannot_be_used_is_refused(
    service: PlacetClient, fields: dict[str, Any], named: str
) -> None:
    with pytest.raises(ServerRefused, match=named) as raised:
        service.open(**DRAFT, **fields)
    assert raised.value.status == 400
