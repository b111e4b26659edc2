"""`page_context`: what the review page shows and the agent never gets."""

from collections.abc import Iterator
from typing import Any

import httpx
import msgspec
import pytest

from tests.server.receiver import receiving
from tests.server.running import RunningServer, running

SECRET = "IBAN DE02120300000000202051"
LETTER = {"type": "approval", "prompt": "Pay the invoice?", "context": {"invoice": "17"}}
PAGE_ONLY = {"artifact": {"account": SECRET, "amount": "12.00"}}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with running(tmp_path_factory.mktemp("page-context"), max_context_bytes=2_000) as found:
        yield found


@pytest.fixture
def client(server: RunningServer) -> Iterator[httpx.Client]:
    with server.client(server.api_key) as found:
        yield found


def test_the_page_shows_it_and_no_answer_to_the_agent_has_it(
    server: RunningServer, client: httpx.Client
) -> None:
    with receiving() as receiver:
        draft = {**LETTER, "page_context": PAGE_ONLY, "callback_url": receiver.url}
        opened = client.post("/v1/cases", json=draft, headers={"Idempotency-Key": "one"})
        answer(server, opened)
        again = client.post("/v1/cases", json=draft, headers={"Idempotency-Key": "one"})
        server.deliver()
        [callback] = receiver.wait("/")
    hitl = opened.json()["hitl"]
    polled, streamed = client.get(hitl["poll_url"]), client.get(hitl["events_url"])
    assert polled.json()["status"] == "completed"
    replies = [opened.text, again.text, polled.text, streamed.text, client.get("/v1/reviews").text]
    assert all(SECRET not in text and "account" not in text for text in [*replies, callback.body.decode()])


def answer(server: RunningServer, opened: httpx.Response) -> None:
    hitl = opened.json()["hitl"]
    assert hitl["context"] == {"invoice": "17"}
    with server.page(hitl) as page:
        assert SECRET in page.text
        assert page.post("respond", {"action": "approve"}).response.status_code == 200


def test_it_is_part_of_what_was_approved(server: RunningServer, client: httpx.Client) -> None:
    hitl = server.open(client, **LETTER, page_context=PAGE_ONLY)
    stored = server.run(server.parts.store.get_case_and_offer(hitl["case_id"]))
    assert stored is not None
    _, offer = stored
    assert offer.page_only == ("artifact",)
    assert SECRET in msgspec.json.encode(offer).decode()


def test_a_type_reads_its_own_fields_from_it(server: RunningServer, client: httpx.Client) -> None:
    options = [{"id": "a", "title": "Ada"}, {"id": "b", "title": "Ben"}]
    hitl = server.open(client, type="selection", context={}, page_context={"options": options})
    assert "context" not in hitl
    with server.page(hitl) as page:
        page.post("respond", {"action": "select", "selected": "b"})
    assert client.get(hitl["poll_url"]).json()["result"]["data"] == {"selected": ["b"]}


@pytest.mark.parametrize(
    ("draft", "said"),
    [
        ({"page_context": {"invoice": "18"}}, "page_context.invoice: context has this name too"),
        (
            {"page_context": PAGE_ONLY, "inline_actions": ["approve"]},
            "inline_actions: a case with page_context",
        ),
        ({"page_context": {"text": "x" * 3_000}}, "larger than 2000 bytes"),
        ({"page_context": ["a"]}, "page_context"),
        ({"page_context": {"text": "\x00"}}, "control characters"),
        ({"page_context": {"held_message": {}}}, "held_message"),
        ({"page_context": {"form": {"fields": 1}}}, "form"),
    ],
)
def test_a_wrong_one_is_refused_by_name(client: httpx.Client, draft: dict[str, Any], said: str) -> None:
    refused = client.post("/v1/cases", json={**LETTER, **draft})
    assert refused.status_code == 400
    assert said in refused.json()["message"]
