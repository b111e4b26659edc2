"""Placet inside someone's own app: mounted, asked by its handlers, and answered through its pages."""

import inspect
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
from fastapi import HTTPException as FastApiException
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.testclient import TestClient

from placet import Placet, Principal
from placet.bootstrap.storage import open_memory_store
from placet.errors import NotPermitted, SettingsError
from placet.protocol.poll import RespondedBy
from placet.protocol.review_types import STANDARD_TYPES
from placet.reviews.registry import REVIEW_TYPES
from tests.embed.apps import (
    PREFIX,
    Build,
    at_the_root,
    fastapi_app,
    known,
    known_later,
    raw_asgi_app,
    starlette_app,
)
from tests.embed.hosting import Hosted, hosting
from tests.server.receiver import receiving
from tests.server.running import PRESSED, ReviewPage, events_of
from tests.server.sse import open_stream

GO = {"how": "confirmation", "prompt": "Go?", "inline_actions": ["confirm"]}
APPS = {
    "FastAPI": fastapi_app,
    "FastAPI without lifespan": lambda folder: fastapi_app(folder, lifespan=False),
    "Starlette": starlette_app,
    "Starlette at the root": at_the_root,
    "raw ASGI": raw_asgi_app,
    "raw ASGI with the prefix stripped": lambda folder: raw_asgi_app(folder, strip=True),
    "async authenticate": lambda folder: starlette_app(folder, authenticate=known_later),
}


@pytest.fixture(scope="module", params=APPS)
def hosted(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hosted]:
    build: Build = APPS[request.param](tmp_path_factory.mktemp("embedded"))
    with hosting(build) as hosted:
        yield hosted


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hosted]:
    with hosting(fastapi_app(tmp_path_factory.mktemp("service"))) as hosted:
        yield hosted


def ask(client: httpx.Client, **body: Any) -> dict[str, Any]:
    response = client.post("/ask", json=body)
    assert response.status_code == 202, response.text
    hitl: dict[str, Any] = response.json()["hitl"]
    return hitl


def press(client: httpx.Client, hitl: dict[str, Any], action: str) -> httpx.Response:
    token = {"Authorization": f"Bearer {hitl['submit_token']}"}
    return client.post(hitl["submit_url"], json={"action": action, **PRESSED}, headers=token)


def test_a_handler_asks_a_person_answers_and_the_agent_reads_it(hosted: Hosted) -> None:
    with hosted.caller("ada") as agent, hosted.caller(follow_redirects=True) as person:
        hitl = ask(agent, **GO)
        assert hitl["review_url"].startswith(hosted.url)
        assert agent.get(hitl["poll_url"]).json()["status"] == "pending"
        page = ReviewPage(person, person.get(hitl["review_url"]))
        assert page.response.status_code == 200
        style = page.text.partition('<link rel="stylesheet" href="')[2].partition('"')[0]
        assert person.get(style).status_code == 200
        answered = page.post("respond", {"action": "confirm"})
        assert answered.response.status_code == 200
        assert agent.get(hitl["poll_url"]).json()["result"]["action"] == "confirm"
        events = events_of(agent.get(hitl["events_url"]).text)
        assert events[-1][1] == "review.completed"


def test_only_the_caller_who_asked_sees_the_case(hosted: Hosted) -> None:
    with hosted.caller("ada") as ada, hosted.caller("ben") as ben, hosted.caller() as nobody:
        hitl = ask(ada, **GO)
        assert ben.get(hitl["poll_url"]).status_code == 404
        assert ben.get(hitl["events_url"]).status_code == 404
        assert nobody.get(hitl["poll_url"]).status_code == 401
        listed = hitl["poll_url"].rpartition(f"/{hitl['case_id']}")[0]
        assert hitl["case_id"] in ada.get(listed).text
        assert hitl["case_id"] not in ben.get(listed).text


def test_pressing_and_withdrawing_work_where_it_is_mounted(hosted: Hosted) -> None:
    with hosted.caller("ada") as agent:
        assert press(agent, ask(agent, **GO), "confirm").status_code == 200
        hitl = ask(agent, **GO)
        withdrawn = agent.post(hitl["poll_url"].replace("/status", "/cancel"))
        assert withdrawn.json()["status"] == "cancelled"


def test_the_apps_own_addresses_stay_its_own(hosted: Hosted) -> None:
    with hosted.caller("ada") as agent:
        assert agent.get("/nothing-here").status_code == 404
        assert agent.get("/hitlx/healthz").status_code == 404


# Questions


@pytest.mark.parametrize(
    "question",
    [
        {"how": "approval", "artifact": "Dear Ada"},
        {"how": "selection", "options": [{"id": "a", "title": "A"}, {"id": "b", "title": "B"}]},
        {"how": "input", "form": {"fields": [{"key": "n", "label": "N", "type": "text"}]}},
        {"how": "confirmation", "items": [{"id": "a", "label": "A"}]},
        {"how": "confirmation"},
        {"how": "escalation", "error": {"summary": "No answer"}},
        {"how": "custom", "type": "x-compare", "actions": ["left", "right"]},
    ],
    ids=lambda question: question["how"],
)
def test_there_is_a_helper_for_each_type(service: Hosted, question: dict[str, Any]) -> None:
    with service.caller("ada") as agent:
        hitl = ask(agent, prompt="Well?", timeout="2h", context={"why": "a test"}, **question)
    assert hitl["type"] == question.get("type", question["how"])
    assert hitl["context"]["why"] == "a test"
    shown = {name for name in ("options", "form", "items", "error", "artifact") if name in question}
    assert shown <= hitl["context"].keys()
    assert hitl["timeout"] == "2h"


@pytest.mark.parametrize("type", REVIEW_TYPES)
def test_every_published_example_can_be_asked_from_a_handler(service: Hosted, type: str) -> None:
    with service.caller("ada") as agent:
        assert ask(agent, how="ask", **REVIEW_TYPES[type].example())["type"] == type


@pytest.mark.parametrize("type", STANDARD_TYPES)
def test_every_standard_type_has_a_method_with_its_name(service: Hosted, type: str) -> None:
    example = REVIEW_TYPES[type].example()
    context = example.pop("context")
    own = {
        name: context.pop(name)
        for name in inspect.signature(getattr(Placet, type)).parameters
        if name in context
    }
    assert own
    with service.caller("ada") as agent:
        hitl = ask(agent, how=example.pop("type"), context=context, **own, **example)
    assert hitl["type"] == type
    assert hitl["context"].keys() >= own.keys()


@pytest.mark.parametrize(
    ("body", "status", "error"),
    [
        ({"how": "confirmation", "prompt": ""}, 400, "invalid_request"),
        ({"how": "confirmation", "prompt": "x" * 501}, 400, "invalid_request"),
        ({"how": "confirmation", "prompt": "Go?", "surprise": 1}, 400, "invalid_request"),
        ({"how": "selection", "prompt": "Go?", "options": []}, 400, "invalid_request"),
        ({"how": "input", "prompt": "Go?", "form": {"fields": []}}, 400, "invalid_form"),
        (
            {"how": "confirmation", "prompt": "Go?", "callback_url": "https://10.0.0.1/"},
            400,
            "invalid_request",
        ),
    ],
)
def test_a_question_that_cannot_be_asked_is_a_flat_error(
    service: Hosted, body: dict[str, Any], status: int, error: str
) -> None:
    with service.caller("ada") as agent:
        refused = agent.post("/ask", json=body)
    assert (refused.status_code, refused.json()["error"]) == (status, error)
    assert refused.headers["cache-control"] == "no-store"


def test_nobody_cannot_ask(service: Hosted) -> None:
    with service.caller() as nobody:
        refused = nobody.post("/ask", json=GO)
    assert (refused.status_code, refused.json()["error"]) == (401, "invalid_token")
    assert refused.headers["www-authenticate"] == "Bearer"


def test_a_handler_looks_and_withdraws_for_its_caller_only(service: Hosted) -> None:
    with service.caller("ada") as ada, service.caller("ben") as ben:
        case_id = ask(ada, **GO)["case_id"]
        assert ada.get(f"/mine/{case_id}").json() == {"status": "pending"}
        assert ben.get(f"/mine/{case_id}").json()["error"] == "not_found"
        assert ben.post(f"/withdraw/{case_id}").status_code == 404
        withdrawn = ada.post(f"/withdraw/{case_id}").json()
        assert withdrawn == {"status": "cancelled", "reason": "changed our mind"}
        again = ada.post(f"/withdraw/{case_id}")
        assert (again.status_code, again.json()["error"]) == (409, "duplicate_submission")


def test_the_same_idempotency_key_asks_once(service: Hosted) -> None:
    with service.caller("ada") as agent:
        first = ask(agent, idempotency_key="order 7", **GO)
        assert ask(agent, idempotency_key="order 7", **GO) == first


def test_callbacks_leave_from_an_embedded_server(service: Hosted) -> None:
    with receiving() as receiver, service.caller("ada") as agent:
        hitl = ask(agent, callback_url=f"{receiver.url}/hook", **GO)
        press(agent, hitl, "confirm")
        (received,) = receiver.wait("/hook")
        assert received.json["case_id"] == hitl["case_id"]


def test_a_listening_agent_cannot_keep_the_app_from_stopping(tmp_path: Path) -> None:
    with ExitStack() as stack, hosting(fastapi_app(tmp_path)) as hosted:
        agent = stack.enter_context(hosted.caller("ada"))
        hitl = ask(agent, **GO)
        stream = stack.enter_context(open_stream(agent, hitl["events_url"]))
        stream.read_until("retry")
    with hosting(fastapi_app(tmp_path)) as again, again.caller("ada") as agent:
        assert agent.get(f"{PREFIX}/v1/reviews/{hitl['case_id']}/status").json()["status"] == "pending"


# Who is asking


def signed_out(request: Request) -> None:
    """Nobody."""


def turned_away(request: Request) -> None:
    raise HTTPException(403, "not you")


@pytest.mark.parametrize("after", [signed_out, turned_away])
def test_a_stream_tells_nothing_more_once_its_caller_is_no_longer_known(tmp_path: Path, after: Any) -> None:
    ways: list[Any] = [known]

    def authenticate(request: Request) -> str | None:
        name: str | None = ways[-1](request)
        return name

    with hosting(fastapi_app(tmp_path, authenticate=authenticate)) as hosted, hosted.caller("ada") as agent:
        hitl = ask(agent, **GO)
        with open_stream(agent, hitl["events_url"]) as stream:
            stream.read_until("retry")
            ways.append(after)
            assert press(agent, hitl, "confirm").status_code == 200
            assert stream.read_rest() == []


def refusing(status: int) -> Any:
    def authenticate(request: Request) -> str | None:
        raise HTTPException(status, "not you")

    return authenticate


@pytest.mark.parametrize(
    ("authenticate", "status", "error"),
    [
        (refusing(401), 401, "invalid_token"),
        (refusing(403), 403, "not_permitted"),
        (refusing(400), 401, "invalid_token"),
        (refusing(503), 503, "unavailable"),
        (lambda request: Principal(name="reader", scopes=frozenset({"cases:read"})), 403, "not_permitted"),
        (lambda request: None, 401, "invalid_token"),
        (lambda request: "", 401, "invalid_token"),
        (lambda request: "relay:default", 401, "invalid_token"),
        (lambda request: Principal(name="relay:x"), 401, "invalid_token"),
        (lambda request: 7, 500, "internal"),
        (lambda request: 1 / 0, 500, "internal"),
    ],
)
def test_what_authenticate_says_is_what_callers_hear(
    tmp_path: Path, authenticate: Any, status: int, error: str
) -> None:
    placet = Placet(
        base_url="http://127.0.0.1:8000", db=str(tmp_path / "cases.db"), authenticate=authenticate
    )
    with TestClient(placet) as caller:
        answer = caller.post("/v1/cases", json={"type": "confirmation", "prompt": "Go?"})
    assert (answer.status_code, answer.json()["error"]) == (status, error)


def test_a_refusal_with_details_of_its_own_is_still_told_in_words(tmp_path: Path) -> None:
    def authenticate(request: Request) -> str | None:
        raise FastApiException(401, {"why": ["expired"]})

    placet = Placet(
        base_url="http://127.0.0.1:8000", db=str(tmp_path / "cases.db"), authenticate=authenticate
    )
    with TestClient(placet) as caller:
        answer = caller.post("/v1/cases", json={"type": "confirmation", "prompt": "Go?"})
    assert (answer.status_code, answer.json()["error"]) == (401, "invalid_token")
    assert isinstance(answer.json()["message"], str)


def test_without_authenticate_the_keys_of_the_database_decide(tmp_path: Path) -> None:
    placet = Placet(base_url="http://127.0.0.1:8000", db=str(tmp_path / "cases.db"))
    with TestClient(placet) as caller:
        draft = {"type": "confirmation", "prompt": "Go?"}
        wrong = {"Authorization": "Bearer placet_wrong"}
        assert caller.post("/v1/cases", json=draft).status_code == 401
        assert caller.post("/v1/cases", json=draft, headers=wrong).status_code == 401


@pytest.mark.anyio
async def test_a_service_may_ask_in_its_own_name(tmp_path: Path) -> None:
    placet = Placet(base_url="http://127.0.0.1:8000", db=str(tmp_path / "cases.db"))
    async with placet.lifespan():
        response = await placet.confirmation("Water the plants?")
        case_id = msgspec.json.decode(response.body)["hitl"]["case_id"]
        assert (await placet.status(case_id)).status == "pending"
        mine = await placet.confirmation("Feed the cat?", owner="ada")
        hers = msgspec.json.decode(mine.body)["hitl"]["case_id"]
        assert (await placet.status(hers, owner="ada")).status == "pending"
        with pytest.raises(NotPermitted):
            await placet.answer(case_id, "confirm")
        page = {"review_url": "https://shop.example/decide"}
        ours = msgspec.json.decode((await placet.confirmation("Sow?", **page)).body)["hitl"]
        said = await placet.answer(ours["case_id"], "confirm", responded_by=RespondedBy(name="Ada"))
        assert (ours["review_url"], said.responded_by) == (page["review_url"], RespondedBy(name="Ada"))
        assert (await placet.cancel(case_id, reason="it rains")).reason == "it rains"


@pytest.mark.anyio
async def test_the_store_may_be_the_services_own(tmp_path: Path) -> None:
    placet = Placet(base_url="http://127.0.0.1:8000", store=open_memory_store())
    async with placet.lifespan():
        await placet.confirmation("Water the plants?")
    assert not (tmp_path / "placet.db").exists()


# Settings


@pytest.mark.parametrize(
    "options",
    [
        {"base_url": "http://service.example"},
        {"base_url": "service.example"},
        {"base_url": "https://service.example", "port": "many"},
        {"base_url": "https://service.example", "surprise": 1},
        {"base_url": "https://service.example", "retention": "soon"},
        {"base_url": "https://service.example", "default_timeout": "8d"},
    ],
)
def test_a_setting_that_does_not_fit_is_refused_when_it_is_given(options: dict[str, Any]) -> None:
    with pytest.raises(SettingsError):
        Placet(**options)


def test_cases_outlive_the_app(tmp_path: Path) -> None:
    with hosting(fastapi_app(tmp_path)) as first, first.caller("ada") as agent:
        case_id = ask(agent, **GO)["case_id"]
    with hosting(fastapi_app(tmp_path, lifespan=False)) as second, second.caller("ada") as agent:
        assert agent.get(f"{PREFIX}/v1/reviews/{case_id}/status").json()["status"] == "pending"
